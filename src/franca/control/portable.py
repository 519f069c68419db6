"""Live jobs and schedules in a form in which they can be kept, and made anew on any server.

They are lines of JSON, exported a portion at a time: schedules and pauses first, then jobs in order
of their ids, byte for byte. What only memory has, because somebody waits for it, is left out. On
import jobs get ids of their own; they wait, are ready or are dead as they were, and one that was
running is ready.
"""

from __future__ import annotations

import asyncio
from functools import partial
from heapq import nsmallest
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from franca.control.port import BadRequest, NodePort
from franca.control.states import public_state
from franca.control.views import moment
from franca.core.broker import new_job
from franca.core.model import (
    NEVER,
    Backoff,
    Job,
    JobId,
    JobQuery,
    Millis,
    Outcome,
    Schedule,
    State,
)  # fmt: skip
from franca.engine.engine import Engine

PORTION_JOBS = 500
PORTION_BYTES = 4 * 1024 * 1024
"""Jobs in one answer, and their bodies; one body may pass."""
FIRST_AT_ONCE = 4
AT_ONCE_MAX = 128
"""Jobs that are read at once: more and more while they are small."""
PAUSES_MAX = 10_000
LIVE = (State.WAITING, State.READY, State.LEASED, State.DEAD)

Whole = Annotated[int, Meta(ge=-(2**62), le=2**62)]
"""A number that the store can have, and still when something was added to it."""
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Runs = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Word = Annotated[str, Meta(max_length=100)]
_StateName = Literal["scheduled", "retrying", "ready", "running", "dead"]


class Export(Struct, forbid_unknown_fields=True):
    """The portion behind this one: its `next`. Empty for the first."""

    after: Annotated[str, Meta(max_length=2_000)] = ""
    limit: Annotated[int, Meta(ge=1, le=PORTION_JOBS)] = PORTION_JOBS


class KeptPolicy(Struct, kw_only=True, forbid_unknown_fields=True):
    """What the submitter chose, as `Policy` has it."""

    max_failures: Runs = 0
    max_losses: Runs = -1
    loss_is_failure: bool = False
    bury: bool = True
    backoff: Backoff = Backoff.FIXED
    delay_ms: Whole = 0
    lease_ms: Whole = 0
    durable: bool = True
    dies_unwatched: bool = False
    no_retry_if_watched: bool = False
    expiry_is_failure: bool = False
    never_given_up: bool = False
    tells_end: bool = False
    keeps_place: bool = False
    keep_dead: bool = False


class KeptAttempt(Struct, kw_only=True):
    """A run of a job that did not end it."""

    worker: str
    started_at: str | None
    ended_at: str | None
    outcome: Outcome
    error: str
    text: str
    trace: list[str]


class KeptJob(Struct, kw_only=True, tag_field="kind", tag="job"):
    """A job as it is written into a file: bytes in base64, moments in UTC."""

    id: int = 0
    name: str = ""
    queue: str
    type: str
    state: _StateName = "ready"
    via: Word = ""
    key: str = ""
    media: Word = "bytes"
    body: bytes = b""
    extra: bytes = b""
    digest: int = 0
    priority: Whole = 0
    created_at: str | None = None
    run_at: str | None = None
    start_by_at: str | None = None
    attempts: Count = 0
    failures: Count = 0
    policy: KeptPolicy
    attempt_log: list[KeptAttempt] = []


class KeptSchedule(Struct, kw_only=True, tag_field="kind", tag="schedule"):
    """A rule that makes jobs; `job` is what it submits."""

    id: str
    cron: Annotated[str, Meta(max_length=4_096)] = ""
    every_ms: Annotated[int, Meta(ge=0, le=2**53)] = 0
    timezone: Word = "UTC"
    runs_left: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    next_at: str | None = None
    paused: bool = False
    source: Word = ""
    job: KeptJob


class KeptPause(Struct, kw_only=True, tag_field="kind", tag="pause"):
    """A queue that is paused."""

    queue: str
    until: str | None = None


Line = KeptJob | KeptSchedule | KeptPause


class Exported(Struct, kw_only=True):
    """A portion of about `total` lines; `next` asks for the one behind it."""

    lines: list[Line]
    next: str | None
    total: int


# -- export -------------------------------------------------------------------------------------


async def export(node: NodePort, params: Export) -> Exported:
    """The next lines, as many as fit into an answer."""
    what, _, rest = params.after.partition(":")
    if what not in ("", "schedule", "job"):
        raise BadRequest(f"{params.after[:40]!r} is no portion of an export")
    counts = await node.observer.counts(node)
    rules = len(node.engine.broker.schedules.by_id)
    live = counts.scheduled + counts.retrying + counts.ready + counts.running + counts.dead
    if what == "job":
        lines, following = await _jobs(node, *_place(rest), params.limit)
    else:
        act = partial(_rules, rest, params.limit)
        lines, following = await node.ask(act)
    return Exported(lines=lines, next=following, total=rules + live)


def _place(text: str) -> tuple[JobId, JobId]:
    """Behind which job, and up to which one."""
    after, _, until = text.partition(":")
    if max(len(after), len(until)) < 19 and after.isdecimal() and until.isdecimal():
        return int(after), int(until)
    raise BadRequest(f"{text[:40]!r} is no place in an export")


def _rules(after: str, limit: int, engine: Engine, now: Millis) -> tuple[list[Line], str | None]:
    """Schedules in order of their ids, pauses with the first of them, and where it goes on."""
    broker = engine.broker
    lines: list[Line] = []
    if not after:
        paused = [queue for queue in broker.queues.values() if queue.paused][:PAUSES_MAX]
        lines += [KeptPause(queue=q.name, until=moment(q.paused_until)) for q in paused]
    names = nsmallest(limit, (name for name in broker.schedules.by_id if name > after))
    lines += [_kept_rule(broker.schedules.by_id[name]) for name in names]
    if len(names) == limit:
        return lines, f"schedule:{names[-1]}"
    return lines, f"job:0:{broker.totals.last_job_id}"


def _kept_rule(rule: Schedule) -> KeptSchedule:
    return KeptSchedule(
        id=rule.id,
        cron=rule.cron,
        every_ms=rule.every_ms,
        timezone=rule.timezone,
        runs_left=rule.runs_left,
        next_at=moment(rule.next_at),
        paused=rule.paused,
        source=rule.source,
        job=_kept(new_job(rule.job, 0, NEVER)),
    )


async def _jobs(
    node: NodePort, after: JobId, until: JobId, limit: int
) -> tuple[list[Line], str | None]:
    """The next live jobs, and where it goes on."""
    lines: list[Line] = []
    size, at_once = 0, FIRST_AT_ONCE
    while len(lines) < limit and size < PORTION_BYTES:
        query = JobQuery(states=LIVE, after=after, limit=min(at_once, limit - len(lines)))
        jobs = [job for job in await node.find(query) if job.id <= until]
        if not jobs:
            return lines, None
        lines += [_kept(job) for job in jobs]
        after = jobs[-1].id
        read = sum(job.weight for job in jobs)
        size += read
        if read < PORTION_BYTES // 8:
            at_once = min(2 * at_once, AT_ONCE_MAX)
        await asyncio.sleep(0)
    return lines, f"job:{after}:{until}"


def _kept(job: Job) -> KeptJob:
    waits = job.state is State.WAITING
    return KeptJob(
        id=job.id,
        name=job.name,
        queue=job.queue,
        type=job.kind,
        state=msgspec.convert(public_state(job), type=_StateName),
        via=job.origin,
        key=job.key,
        media=job.media,
        body=job.body,
        extra=job.extra,
        digest=job.digest,
        priority=job.priority,
        created_at=moment(job.created_at),
        run_at=moment(job.run_at) if waits else None,
        start_by_at=moment(job.start_by),
        attempts=job.attempts,
        failures=job.failures,
        policy=KeptPolicy(**asdict(job.policy)),
        attempt_log=[
            KeptAttempt(
                worker=attempt.holder,
                started_at=moment(attempt.started_at),
                ended_at=moment(attempt.ended_at),
                outcome=attempt.outcome,
                error=attempt.error_kind,
                text=attempt.error_text,
                trace=attempt.trace,
            )
            for attempt in job.attempt_log or ()
        ],
    )
