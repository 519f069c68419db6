"""Live jobs in a form in which they can be kept and submitted again, on this server or on another.

They are exported in order of their ids, a portion at a time, byte for byte; what only memory has,
because somebody waits for it, is not. On import they get ids of their own. They wait, are ready or
are dead as they were; one that was running is ready.
"""

from __future__ import annotations

import asyncio
import datetime
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from franca.control.jobs import ID_MAX, check_name
from franca.control.port import BadRequest, NodePort, pause_after
from franca.control.states import public_state
from franca.control.views import moment
from franca.core.broker import Broker
from franca.core.errors import Refused, TooMuch
from franca.core.limits import Limits
from franca.core.model import (
    NEVER,
    Attempt,
    Backoff,
    Job,
    JobId,
    JobQuery,
    Millis,
    NewJob,
    OnConflict,
    Outcome,
    Policy,
    State,
)  # fmt: skip
from franca.core.weights import weigh
from franca.engine.engine import Engine

PORTION_JOBS = 500
PORTION_BYTES = 4 * 1024 * 1024
"""Jobs in one answer, and their bodies; one body may pass."""
FIRST_AT_ONCE = 4
AT_ONCE_MAX = 128
"""Jobs that are read at once: more and more while they are small."""
IMPORTED_MAX = 1_000
"""Jobs in one request."""
LIVE = (State.WAITING, State.READY, State.LEASED, State.DEAD)
LATER_MS = 3_600_000


class Export(Struct, forbid_unknown_fields=True):
    """Live jobs behind this id, up to that one; 0 is the newest of now."""

    after: Annotated[int, Meta(ge=0, le=ID_MAX - 1)] = 0
    until: Annotated[int, Meta(ge=0, le=ID_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=PORTION_JOBS)] = PORTION_JOBS


class KeptPolicy(Struct, kw_only=True, forbid_unknown_fields=True):
    """What the submitter chose, as `Policy` has it."""

    max_failures: int = 0
    max_losses: int = -1
    loss_is_failure: bool = False
    bury: bool = True
    backoff: Backoff = Backoff.FIXED
    delay_ms: int = 0
    lease_ms: int = 0
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


class KeptJob(Struct, kw_only=True):
    """A job as it is written into a file: bytes in base64, moments in UTC."""

    id: int = 0
    name: str = ""
    queue: str
    type: str
    state: Literal["scheduled", "retrying", "ready", "running", "dead"] = "ready"
    via: str = ""
    key: str = ""
    media: str = "bytes"
    body: bytes = b""
    extra: bytes = b""
    digest: int = 0
    priority: int = 0
    created_at: str | None = None
    run_at: str | None = None
    start_by_at: str | None = None
    attempts: int = 0
    failures: int = 0
    policy: KeptPolicy
    attempt_log: list[KeptAttempt] = []


class Exported(Struct, kw_only=True):
    """A portion; `after` is where the next one begins, None if there is none."""

    jobs: list[KeptJob]
    after: int | None
    until: int


class Import(Struct, forbid_unknown_fields=True):
    """Jobs that were exported."""

    jobs: Annotated[list[Raw], Meta(max_length=IMPORTED_MAX)]


class NotImported(Struct):
    """A job that was not taken in: its place in the request, and why."""

    place: int
    id: int
    error: str


class Imported(Struct):
    """How many jobs were taken in, and those that were not."""

    imported: int
    refused: list[NotImported]


# -- export -------------------------------------------------------------------------------------


async def export(node: NodePort, params: Export) -> Exported:
    """The next live jobs, as many as fit into an answer."""
    newest = await node.ask(lambda engine, now: engine.broker.totals.last_job_id)
    until = params.until or newest
    jobs: list[KeptJob] = []
    after, size, at_once = params.after, 0, FIRST_AT_ONCE
    while len(jobs) < params.limit and size < PORTION_BYTES:
        limit = min(at_once, params.limit - len(jobs))
        found = await node.find(JobQuery(states=LIVE, after=after, limit=limit))
        found = [job for job in found if job.id <= until]
        if not found:
            return Exported(jobs=jobs, after=None, until=until)
        jobs += [_kept(job) for job in found]
        after = found[-1].id
        read = sum(job.weight for job in found)
        size += read
        if read < PORTION_BYTES // 8:
            at_once = min(2 * at_once, AT_ONCE_MAX)
        await asyncio.sleep(0)
    return Exported(jobs=jobs, after=after, until=until)


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


_StateName = Literal["scheduled", "retrying", "ready", "running", "dead"]


# -- import -------------------------------------------------------------------------------------


async def import_(node: NodePort, params: Import) -> Imported:
    """Make these jobs anew. One that cannot be taken in does not keep the others from it."""
    imported = 0
    refused: list[NotImported] = []
    for place, raw in enumerate(params.jobs):
        job_id = 0
        try:
            kept = _read(raw)
            job_id = kept.id
            new = _new_job(kept, node.engine.limits)
            await node.ask(partial(_take_in, kept, new))
            imported += 1
        except Refused as error:
            refused.append(NotImported(place, job_id, error.text))
        await pause_after(len(memoryview(raw)))
    return Imported(imported, refused)


def _read(raw: Raw) -> KeptJob:
    try:
        return msgspec.json.decode(raw, type=KeptJob)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"not a job: {error}") from None


def _new_job(kept: KeptJob, limits: Limits) -> NewJob:
    for field in ("queue", "type", "name"):
        check_name(field, str(getattr(kept, field)), limits)
    if not kept.queue:
        raise BadRequest("a job needs a queue")
    if len(kept.body) > limits.body_bytes_max:
        raise TooMuch(f"the body is larger than {limits.body_bytes_max} bytes")
    policy = Policy(**asdict(kept.policy) | {"durable": True})
    return NewJob(
        kept.queue,
        kept.type,
        kept.body,
        policy,
        kept.name,
        kept.media,
        kept.via,
        kept.key,
        OnConflict.REFUSE,
        priority=kept.priority,
        run_at=_moment(kept.run_at) if kept.state in ("scheduled", "retrying") else NEVER,
        start_by=_moment(kept.start_by_at),
        created_at=_moment(kept.created_at),
        extra=kept.extra,
        digest=kept.digest,
        failures=max(0, kept.failures),
    )


def _moment(text: str | None) -> Millis:
    if not text:
        return NEVER
    if text.isascii() and text.isdigit() and len(text) < 18:
        return int(text)
    try:
        at = datetime.datetime.fromisoformat(text)
        if at.tzinfo is not None:
            # In whole milliseconds: a float has not room for all of them.
            since = at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return max(0, since // datetime.timedelta(milliseconds=1))
    except (ValueError, OverflowError):
        pass
    raise BadRequest(f"{text[:40]!r} is no moment")


def _take_in(kept: KeptJob, new: NewJob, engine: Engine, now: Millis) -> JobId:
    broker = engine.broker
    has_run = kept.attempts > 0 or kept.attempt_log
    if kept.state == "dead" or (has_run and not new.run_at):
        # Nobody may be given it before it is what it was.
        new.run_at = broker.wall(now) + LATER_MS
        job = broker.submit(new, now)
        _remember(job, kept)
        _go_on(broker, job, kept, now)
    else:
        job = broker.submit(new, now)
        _remember(job, kept)
    return job.id


def _remember(job: Job, kept: KeptJob) -> None:
    job.attempts += max(0, kept.attempts)
    if kept.attempt_log and not job.attempt_log:
        # Of one that lives the last error, without its trace: its weight is known already.
        last = _attempt(kept.attempt_log[-1])
        last.trace = []
        job.attempt_log = [last]


def _go_on(broker: Broker, job: Job, kept: KeptJob, now: Millis) -> None:
    if kept.state != "dead":
        broker.retry(job, now)
        return
    broker.kill(job, now)
    job.attempt_log = [_attempt(attempt) for attempt in kept.attempt_log]
    weigh(job)


def _attempt(kept: KeptAttempt) -> Attempt:
    return Attempt(
        kept.worker,
        _moment(kept.started_at),
        _moment(kept.ended_at),
        kept.outcome,
        kept.error,
        kept.text,
        kept.trace,
    )
