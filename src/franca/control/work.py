"""Work over HTTP: any program that can send a request can be a worker.

A lease has a token, which is told to whoever was given the job and to nobody else
(`protocols/tokens.py`). So it outlives connections and restarts, and a report with an old token, or
about a job that somebody else was given since, is refused and changes nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct, field

from franca.control.http_workers import PROTOCOL, HttpWorkers, Waiting, What
from franca.control.jobs import Reference
from franca.control.port import LARGE_BYTES, BadRequest, NodePort, T
from franca.control.states import public_state
from franca.control.views import moment
from franca.core.broker import Broker
from franca.core.errors import NotHeld, Refused, TooMuch
from franca.core.events import Granted
from franca.core.limits import Limits
from franca.core.model import PAST, Demand, Failure, Job, Millis, OnHangUp, Progress, State
from franca.engine.engine import Engine
from franca.protocols.bodies import as_json_args
from franca.protocols.numbers import REST
from franca.protocols.tokens import holder_of, holder_with, worker_in

WAIT_MS_MAX: Final = 60_000
QUEUES_MAX: Final = 1_000
"""Queues that are asked for at once."""
TOKEN_BYTES: Final = 24
PROGRESS_CHARS: Final = 1_000
TRACE_LINES_MAX: Final = 10_000
"""Lines of a trace that are taken, of which the server keeps fewer."""
_NO_RESULT = Raw(b"null")

Token = Annotated[str, Meta(min_length=1, max_length=256)]
AMOUNT_MAX: Final = 2**53
Amount = (
    Annotated[int, Meta(ge=0, le=AMOUNT_MAX)] | Annotated[float, Meta(ge=0, le=float(AMOUNT_MAX))]
)
LeaseMs = Annotated[int, Meta(ge=1_000, le=86_400_000)]


def _none() -> Raw:
    return _NO_RESULT


class Lease(Struct, forbid_unknown_fields=True):
    """A job of one of these queues, the first one first. `wait_ms` is how long to wait for one.

    `first` is said with the first request of a process: what was asked of another one that had the
    same name is forgotten.
    """

    queues: Annotated[list[str], Meta(min_length=1, max_length=QUEUES_MAX)]
    worker: Annotated[str, Meta(max_length=200)] = ""
    first: bool = False
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0
    lease_ms: LeaseMs | None = None


class Ack(Struct, forbid_unknown_fields=True):
    """The job is done. `result` is any JSON."""

    job: Reference
    token: Token
    result: Raw = field(default_factory=_none)


class Fail(Struct, forbid_unknown_fields=True):
    """The run failed; whether the job is tried again is its submitter's choice."""

    job: Reference
    token: Token
    error: str = ""
    text: str = ""
    trace: Annotated[list[str], Meta(max_length=TRACE_LINES_MAX)] = []


class Heartbeat(Struct, forbid_unknown_fields=True):
    """The run goes on: its lease ends `lease_ms` from now."""

    job: Reference
    token: Token
    lease_ms: LeaseMs | None = None


class Report(Struct, forbid_unknown_fields=True):
    """How far the run is: `n` of `of`, and a text."""

    job: Reference
    token: Token
    n: Amount | None = None
    of: Amount | None = None
    text: Annotated[str, Meta(max_length=PROGRESS_CHARS)] = ""


class LeasedJob(Struct, kw_only=True):
    """A job as a worker is given it."""

    id: int
    name: str
    queue: str
    type: str
    args: Raw
    attempt: int


class Leased(Struct, kw_only=True):
    """A job, and what to say in reports about it. Both are null if no job came.

    `asked` is what operators have asked of the worker: there is no job for one that was asked.
    """

    job: LeasedJob | None
    token: str | None
    lease_until: str | None
    asked: What | None = None


class Settled(Struct, kw_only=True):
    """What became of the job that was reported about; and what was `asked` of its worker."""

    id: int
    state: str
    lease_until: str | None = None
    asked: What | None = None


# -- lease ------------------------------------------------------------------------------------


async def lease(node: NodePort, params: Lease) -> Leased:
    """A job to run, as soon as there is one. Nothing was given if nobody takes the answer."""
    _check_names(params, node.engine.limits)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    waiting = Waiting()
    workers, worker = node.observer.http_workers, params.worker.rstrip()
    holder = holder_of(token, PROTOCOL, worker)
    # Never cut short: what was granted meanwhile must be known to be given back.
    asking = asyncio.ensure_future(node.ask(partial(_ask, params, holder, waiting, workers)))
    try:
        await asyncio.shield(asking)
        if waiting.session is None:
            await asyncio.wait((waiting.answer,), timeout=params.wait_ms / 1_000)
            waiting.give(None)
        job = await asyncio.shield(waiting.answer)
        # The lease is told of when the disk has it.
        await node.ask(lambda engine, now: None)
        answer = Leased(job=None, token=None, lease_until=None)
        if job is not None:
            answer = await _in_its_place(job, _leased, job, token)
    except BaseException:
        await asyncio.wait([asking])
        await asyncio.shield(node.ask(partial(_take_back, holder, waiting)))
        raise
    finally:
        workers.end_wait(worker, waiting)
    await asyncio.shield(node.ask(partial(_close, waiting)))
    answer.asked = workers.tell(worker)
    return answer


async def _in_its_place(job: Job, run: Callable[..., T], *args: object) -> T:
    """Run what takes long if the job's body is large: then on another thread."""
    if len(job.body) <= LARGE_BYTES:
        return run(*args)
    return await asyncio.get_running_loop().run_in_executor(None, run, *args)


def _ask(
    params: Lease, holder: str, waiting: Waiting, workers: HttpWorkers, engine: Engine, now: Millis
) -> None:
    broker, worker = engine.broker, params.worker.rstrip()
    asked, is_told = workers.fetches(worker, params.queues, broker.leases, now, is_new=params.first)
    workers.begin_wait(worker, waiting)
    if asked is not None:
        # One that was told and asks again would do so without end if it had not to wait.
        if not is_told:
            waiting.give(None)
        return
    waiting.session = session = broker.open_session(holder, OnHangUp.KEEP, waiting, REST)
    until = now + params.wait_ms if params.wait_ms else PAST
    queues = tuple(dict.fromkeys(params.queues))
    times = dict.fromkeys(queues, params.lease_ms) if params.lease_ms else None
    answer = broker.demand(Demand(session, queues, until, lease_ms=times), now)
    if answer is not None:
        waiting.give(answer.job if isinstance(answer, Granted) else None)


def _take_back(holder: str, waiting: Waiting, engine: Engine, now: Millis) -> None:
    """Whoever asked is gone: a job that was granted meanwhile is as if it had not been."""
    job = waiting.answer.result() if waiting.answer.done() else None
    if job is not None:
        try:
            engine.broker.give_back(job, holder, now)
        except Refused:
            pass
    _close(waiting, engine, now)


def _close(waiting: Waiting, engine: Engine, now: Millis) -> None:
    if waiting.session is not None:
        engine.broker.close_session(waiting.session, now)


def _leased(job: Job, token: str) -> Leased:
    given = LeasedJob(
        id=job.id,
        name=job.name,
        queue=job.queue,
        type=job.kind,
        args=Raw(as_json_args(job.media, job.body)),
        attempt=job.attempts,
    )
    return Leased(job=given, token=token, lease_until=moment(job.until))


def _check_names(params: Lease, limits: Limits) -> None:
    for queue in params.queues:
        if not queue:
            raise BadRequest("a queue needs a name")
        if len(queue.encode()) > limits.name_bytes_max:
            raise TooMuch(f"a queue's name is longer than {limits.name_bytes_max} bytes")


# -- reports ----------------------------------------------------------------------------------


async def ack(node: NodePort, params: Ack) -> Settled:
    """The job is done."""
    result = b"" if bytes(params.result) == b"null" else bytes(params.result)
    if len(result) > node.engine.limits.body_bytes_max:
        raise TooMuch(f"a result has at most {node.engine.limits.body_bytes_max} bytes")

    def finish(engine: Engine, now: Millis) -> Settled:
        job, holder = _held(engine.broker, params.job, params.token)
        engine.broker.finish(job, holder, result, now)
        return _settled(node, job, holder, now)

    return await node.ask(finish)


async def fail(node: NodePort, params: Fail) -> Settled:
    """The run failed."""
    limits = node.engine.limits
    most = limits.error_text_chars
    trace = [line[:most] for line in params.trace[: limits.trace_lines]]
    failure = Failure(params.error[:100] or "unknown", params.text[:most], trace)

    def note(engine: Engine, now: Millis) -> Settled:
        job, holder = _held(engine.broker, params.job, params.token)
        engine.broker.fail(job, holder, failure, now)
        return _settled(node, job, holder, now)

    return await node.ask(note)


async def heartbeat(node: NodePort, params: Heartbeat) -> Settled:
    """The lease goes on. It never ends earlier by this."""

    def extend(engine: Engine, now: Millis) -> Settled:
        broker = engine.broker
        job, holder = _held(broker, params.job, params.token)
        lease_ms = params.lease_ms or job.policy.lease_ms or broker.limits.lease_ms
        broker.extend(job, holder, now + lease_ms)
        return _settled(node, job, holder, now)

    return await node.ask(extend)


async def progress(node: NodePort, params: Report) -> Settled:
    """How far the run is; whoever waits for the job is told."""
    said = Progress(params.n, params.of, params.text)

    def report(engine: Engine, now: Millis) -> Settled:
        job, holder = _held(engine.broker, params.job, params.token)
        engine.broker.report_progress(job, holder, said, now)
        return _settled(node, job, holder, now)

    return await node.ask(report)


def _held(broker: Broker, reference: Reference, token: str) -> tuple[Job, str]:
    """The job that is leased with this token, and in whose name. `NotHeld` if it is not."""
    for job in _meant(broker, str(reference)):
        with suppress(NotHeld):
            return job, holder_with(token, job)
    raise NotHeld(f"job {reference} is not leased with this token")


def _meant(broker: Broker, reference: str) -> list[Job]:
    """Jobs in memory that go by this id, or else by this name."""
    if reference.isascii() and reference.isdigit() and len(reference) < 19:
        job = broker.jobs.get(int(reference))
        if job is not None:
            return [job]
    return list(broker.running_as(reference))


def _settled(node: NodePort, job: Job, holder: str, now: Millis) -> Settled:
    return Settled(
        id=job.id,
        state=public_state(job),
        lease_until=moment(job.until) if job.state is State.LEASED else None,
        asked=node.observer.http_workers.reports(worker_in(holder), now),
    )
