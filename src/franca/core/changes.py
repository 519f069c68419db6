"""What must become durable together: one `Changes` is one commit, all of it or nothing.

The broker remembers which jobs changed, not how often: a job that came and went between two
commits costs nothing. A store applies the fields in the order in which they are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct, field

from franca.core.model import NEVER, Job, JobId, Millis, Schedule


@dataclass(slots=True)
class Totals:
    """Counts since the store was made. `processed` includes failed runs.

    Each job changes several of them, which takes half as long as in a Struct.
    """

    pushed: int = 0
    processed: int = 0
    failures: int = 0
    last_job_id: int = 0
    last_place: int = 0


class QueueSetting(Struct, gc=False):
    """What is remembered of a queue besides its jobs: a pause ends at `until`, if ever."""

    queue: str
    paused: bool
    until: Millis = NEVER


IDEMPOTENCY_MS: Final[Millis] = 24 * 3_600_000


class IdempotencyKey(NamedTuple):
    """A key with which a job was submitted. For `IDEMPOTENCY_MS` from `at` it means that job.

    `digest` stands for everything that was said of the job.
    """

    key: str
    digest: int
    job_id: JobId
    job_name: str
    at: Millis


RunNote = tuple[str, str, Millis]
"""Something that happened to a job of a queue and a kind, at a moment."""


class Changes(Struct, gc=False):
    """One group. `added`, `updated` and `moved` go to the shelf that each job names.

    Of the queues in `emptied_backlogs` every READY job on the BACKLOG shelf goes, but for those in
    `spared`: what becomes of these is said one by one.
    Runs that failed, and jobs that came into the dead set, are only counted: `failed` and `died`.
    `idempotency_keys` are in the group of their jobs.
    """

    totals: Totals = field(default_factory=Totals)
    flushed: bool = False
    emptied_backlogs: list[str] = field(default_factory=list)
    spared: list[JobId] = field(default_factory=list)
    gone_from_memory: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    added: list[Job] = field(default_factory=list)
    updated: list[Job] = field(default_factory=list)
    moved: list[Job] = field(default_factory=list)
    gone_from_backlog: list[Job] = field(default_factory=list)
    queues_saved: list[QueueSetting] = field(default_factory=list)
    queues_gone: list[str] = field(default_factory=list)
    schedules_saved: list[Schedule] = field(default_factory=list)
    schedules_gone: list[str] = field(default_factory=list)
    failed: list[RunNote] = field(default_factory=list)
    died: list[RunNote] = field(default_factory=list)
    idempotency_keys: list[IdempotencyKey] = field(default_factory=list)
