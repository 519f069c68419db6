"""Making anew what was exported: jobs, schedules and pauses, each line by itself."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from franca.control.jobs import check_name
from franca.control.port import BadRequest, NodePort, pause_after
from franca.control.portable import KeptAttempt, KeptJob, KeptPause, KeptSchedule, Line
from franca.control.schedules import EVERY_MS_MIN
from franca.core.broker import Broker
from franca.core.errors import NotUnique, Refused, StoreFull, TooMuch
from franca.core.limits import Limits
from franca.core.model import NEVER, Attempt, Job, Millis, NewJob, OnConflict, Policy, Schedule
from franca.core.schedules import check_moments
from franca.core.weights import weigh
from franca.engine.engine import Engine

IMPORTED_MAX = 1_000
"""Lines in one request."""
AT_ONCE = 250
AT_ONCE_BYTES = 4 * 1024 * 1024
"""Lines that are taken in in one turn; one may pass."""
LATER_MS = 3_600_000

TakeIn = Callable[[Engine, Millis], bool]


class Import(Struct, forbid_unknown_fields=True):
    """Lines that were exported."""

    lines: Annotated[list[Raw], Meta(max_length=IMPORTED_MAX)]


class NotImported(Struct):
    """A line that was not taken in: its place in the request, and why."""

    place: int
    error: str


class Imported(Struct, kw_only=True):
    """How many lines were taken in, how many were there already, and those that were refused."""

    added: int
    skipped: int
    refused: list[NotImported]


async def import_(node: NodePort, params: Import) -> Imported:
    """Make these anew. One that cannot be taken in does not keep the others from it."""
    told = Imported(added=0, skipped=0, refused=[])
    some: list[tuple[int, TakeIn]] = []
    size = 0
    for place, raw in enumerate(params.lines):
        try:
            some.append((place, _reader_of(_read(raw), node.engine.limits)))
        except Refused as error:
            told.refused.append(NotImported(place, error.text))
        length = len(memoryview(raw))
        size += length
        await pause_after(length)
        if len(some) >= AT_ONCE or size >= AT_ONCE_BYTES:
            await node.ask(partial(_take_all, some, told))
            some, size = [], 0
    if some:
        await node.ask(partial(_take_all, some, told))
    told.refused.sort(key=lambda one: one.place)
    node.observer.forget()
    return told


def _take_all(
    lines: Iterable[tuple[int, TakeIn]], told: Imported, engine: Engine, now: Millis
) -> None:
    """Take in lines in one turn, and so in one commit."""
    for place, take_in in lines:
        try:
            is_new = take_in(engine, now)
        except NotUnique:
            is_new = False
        except StoreFull:
            raise
        except Refused as error:
            told.refused.append(NotImported(place, error.text))
            continue
        told.added += is_new
        told.skipped += not is_new


def _read(raw: Raw) -> Line:
    try:
        line: Line = msgspec.json.decode(raw, type=Line)
        return line
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest(f"not a line of an export: {error}") from None


def _reader_of(line: Line, limits: Limits) -> TakeIn:
    """What takes a line in: False if it is there already."""
    if isinstance(line, KeptPause):
        return partial(_pause, line)
    if isinstance(line, KeptSchedule):
        if not line.cron and line.every_ms < EVERY_MS_MIN:
            raise BadRequest(f"every_ms is at least {EVERY_MS_MIN}, or there is a cron line")
        rule = Schedule(
            line.id,
            _new_job(line.job, limits),
            every_ms=line.every_ms,
            cron=line.cron,
            timezone=line.timezone,
            runs_left=line.runs_left,
            source=line.source,
        )
        return partial(_put_rule, rule, line)
    return partial(_take_in, line, _new_job(line, limits))


def _pause(kept: KeptPause, engine: Engine, now: Millis) -> bool:
    broker = engine.broker
    until = _moment(kept.until)
    if not kept.queue or (until and until <= now):
        return False
    check_name("queue", kept.queue, broker.limits)
    if broker.queue(kept.queue).paused:
        return False
    broker.pause(kept.queue, until)
    return True


def _put_rule(rule: Schedule, kept: KeptSchedule, engine: Engine, now: Millis) -> bool:
    broker = engine.broker
    if rule.id in broker.schedules.by_id:
        return False
    check_name("id", rule.id, broker.limits)
    broker.schedules.check_room(rule, broker.limits)
    check_moments(rule, broker.wall(now))
    rule.paused = kept.paused
    rule.next_at = _moment(kept.next_at)
    if rule.next_at > broker.wall(now):
        broker.schedules.put(rule)
    else:
        broker.put_schedule(rule, now, fire_now=False)
    return True


def _new_job(kept: KeptJob, limits: Limits) -> NewJob:
    for field in ("queue", "type", "name"):
        check_name(field, str(getattr(kept, field)), limits)
    if not kept.queue:
        raise BadRequest("a job needs a queue")
    if not -(2**63) <= kept.digest < 2**64:
        raise BadRequest("a digest has 64 bits")
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


def _take_in(kept: KeptJob, new: NewJob, engine: Engine, now: Millis) -> bool:
    broker = engine.broker
    newest = broker.totals.last_job_id
    has_run = kept.attempts > 0 or kept.attempt_log
    if kept.state == "dead" or (has_run and not new.run_at):
        # Nobody may be given it before it is what it was.
        new.run_at = broker.wall(now) + LATER_MS
        job = broker.submit(new, now)
        _remember(job, kept, broker.limits)
        _go_on(broker, job, kept, now)
    else:
        # Said again, because its answer was lost, it is the same job.
        new.once = bool(new.name)
        job = broker.submit(new, now)
        if job.id <= newest:
            return False
        _remember(job, kept, broker.limits)
    return True


def _remember(job: Job, kept: KeptJob, limits: Limits) -> None:
    job.attempts += max(0, kept.attempts)
    if kept.attempt_log and not job.attempt_log:
        # Of one that lives the last error, without its trace: its weight is known already.
        last = _attempt(kept.attempt_log[-1], limits)
        last.trace = []
        job.attempt_log = [last]


def _go_on(broker: Broker, job: Job, kept: KeptJob, now: Millis) -> None:
    if kept.state != "dead":
        broker.retry(job, now)
        return
    broker.kill(job, now)
    limits = broker.limits
    last = kept.attempt_log[-limits.story_attempts :]
    job.attempt_log = [_attempt(attempt, limits) for attempt in last]
    for earlier in job.attempt_log[:-1]:
        earlier.trace = []
    weigh(job)


def _attempt(kept: KeptAttempt, limits: Limits) -> Attempt:
    """A run as it would be remembered here, however much is said of it."""
    most = limits.error_text_chars
    return Attempt(
        kept.worker[: limits.name_bytes_max],
        _moment(kept.started_at),
        _moment(kept.ended_at),
        kept.outcome,
        kept.error[:most],
        kept.text[:most],
        [line[:most] for line in kept.trace[: limits.trace_lines]],
    )
