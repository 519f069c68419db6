"""How it goes: the overview, errors, notices, the server and its history."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from franca.control.shapes.jobs import Counts, JobRow
from franca.control.shapes.queues import QueueRow, Series


class ErrorClass(Struct, kw_only=True):
    """Jobs that failed with the same error: its kind, and its text without what differs."""

    id: str
    error: str
    text: str
    where: str
    retrying: int
    dead: int
    types: list[str]
    queues: list[str]
    by: list[str]
    first_at: str | None
    last_at: str | None
    hours: list[int]
    samples: list[JobRow]


class ErrorList(Struct):
    """Error classes, the largest first: `looked_at` of `of` dead and retrying jobs are in them."""

    classes: list[ErrorClass]
    looked_at: int
    of: int


class Facts(Struct, kw_only=True, omit_defaults=True):
    """What a notice is about, in numbers; the sentence is made by whoever shows it."""

    ready: int = 0
    oldest_ms: int = 0
    into: float = field(name="in", default=0.0)
    out: float = 0.0
    since_at: str | None = None
    until: str | None = None
    error: str = ""
    retrying: int = 0
    dead: int = 0
    fetched_at: str | None = None
    failed: int = 0
    last_at: str | None = None


class Notice(Struct, kw_only=True, omit_defaults=True):
    """Something that needs somebody: `behind`, `errors`, `stalled`, `paused` or `schedule`."""

    id: str
    level: str
    what: str
    facts: Facts
    queue: str = ""
    worker: str = ""
    error_class: str = ""
    schedule: str = ""


class Rates(Struct):
    """Jobs a second, over the last minute."""

    pushed: float
    done: float
    failed: float


class WorkerCounts(Struct):
    """How many workers there are, and how many of them run a job."""

    all: int
    busy: int


class Crossing(Struct):
    """Jobs of the last hour by the protocol they came over and that of the worker."""

    via: str
    by: str
    count: int


class Overview(Struct, kw_only=True):
    """How it goes, on one page. `role` is that of whoever asks."""

    now_at: str | None
    role: str
    counts: Counts
    rates: Rates
    oldest_ms: int | None
    oldest_queue: str | None
    workers: WorkerCounts
    notices: list[Notice]
    series: Series
    crossings: list[Crossing]
    queues: list[QueueRow]


class Known(Struct):
    """A value that a filter may have, and a word about it."""

    value: str
    hint: str = ""


class KnownValues(Struct):
    """Values for completion, by field."""

    queue: list[Known]
    type: list[Known]
    via: list[Known]
    by: list[Known]
    error: list[Known]
    worker: list[Known]


class History(Struct, kw_only=True):
    """What is remembered of ended jobs, and how much may be."""

    jobs: int
    bytes: int
    oldest_at: str | None
    indexed_ms_behind: int
    bounds: HistoryBounds


class HistoryBounds(Struct, kw_only=True):
    """The most that is remembered; whichever comes first."""

    jobs: int
    bytes: int
    age_ms: int


class Health(Struct, kw_only=True):
    """How the server itself is, and on which host. `role` is that of whoever asks."""

    version: str
    node: str
    uptime_ms: int
    role: str
    store: dict[str, Any]
    disk: dict[str, Any]
    process: dict[str, Any]
    listeners: list[dict[str, Any]]
    limits: list[dict[str, Any]]
    series: Series
