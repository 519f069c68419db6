"""What operators may do with jobs: push, find and show them. And how they say which ones.

A reference is a job's id or its public name; digits are tried as an id first.
"""

from __future__ import annotations

import asyncio
import datetime
import secrets
import zlib
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field
from msgspec.structs import replace

from franca.control.port import LARGE_BYTES, BadRequest, NodePort, pause_after
from franca.control.views import STATES, View, summary, whole
from franca.core.broker import Broker
from franca.core.errors import NotFound, TooMuch
from franca.core.limits import Limits
from franca.core.model import Backoff, Job, JobId, JobQuery, Millis, NewJob, Policy, State
from franca.engine.engine import Engine
from franca.protocols.bodies import CHUNK_BYTES, depth_in, outside_strings

ORIGIN: Final = "control"
LEASE_MS = 1_800_000
SHOWN_MAX = 100
"""Jobs of one name that are shown whole; the newest are."""

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: no moment that is written out can be later."""

KEY_CHARS = 255
KEY_PATTERN = r"^[\x21-\x7e]*$"
"""An idempotency key is one word of printable ASCII characters."""

NAMES_MAX = 10_000
"""Names or references in one request."""
ID_MAX = 2**63 - 1

Names = Annotated[list[str], Meta(max_length=NAMES_MAX)]
States = Annotated[list[str], Meta(max_length=len(STATES))]
Reference = str | Annotated[int, Meta(ge=-ID_MAX, le=ID_MAX)]
Page = Annotated[int, Meta(ge=1, le=1_000)]
Retries = Annotated[int, Meta(ge=0, le=2**31 - 1)]
LeaseMs = Annotated[int, Meta(ge=1_000, le=86_400_000)]
Moment = Annotated[datetime.datetime, Meta(tz=True)]
KeyText = Annotated[str, Meta(max_length=KEY_CHARS, pattern=KEY_PATTERN)]
Via = Literal["control", "rest"]
"""The ways over which operations submit jobs."""


def no_arguments() -> Raw:
    """The arguments of a job that has none."""
    return Raw(b"[]")


class Push(Struct, forbid_unknown_fields=True):
    """A new job. It runs at `at`, or `in_ms` from now, or at once.

    For a day the same `idempotency_key` means the same job.
    """

    queue: str
    type: str
    args: Raw = field(default_factory=no_arguments)
    name: str = ""
    at: Moment | None = None
    in_ms: Annotated[int, Meta(ge=0, le=LATEST_MS)] = 0
    retry: Retries = 25
    lease_ms: LeaseMs = LEASE_MS
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    idempotency_key: KeyText = ""
    via: Via = ORIGIN


class Find(Struct, forbid_unknown_fields=True):
    """Which jobs: all given conditions hold. `after` is the last id of the page before."""

    states: States = []
    queue: str = ""
    type: str = ""
    name: str = ""
    limit: Page = 100
    after: Annotated[int, Meta(ge=0, le=ID_MAX - 1)] = 0
    newest_first: bool = False


class Show(Struct, forbid_unknown_fields=True):
    """Which job, by id or by name."""

    job: Reference


# -- push -------------------------------------------------------------------------------------


async def new_job_of(params: Push, limits: Limits) -> NewJob:
    """The job that is meant. `BadRequest` if it is none."""
    body = await arguments(params.args, limits.nesting_max)
    _check_sizes(params, body, limits)
    policy = Policy(max_failures=params.retry, backoff=Backoff.POWER, lease_ms=params.lease_ms)
    name = params.name or secrets.token_hex(12)
    new = NewJob(params.queue, params.type, body, policy, name, "json-args", params.via)
    new.priority = params.priority
    new.digest, new.once = zlib.crc32(body), bool(params.name)
    if params.at is not None:
        new.run_at = max(0, _in_time(int(params.at.timestamp() * 1000)))
    return new


def submit(broker: Broker, params: Push, new: NewJob, now: Millis) -> Job:
    """Take in a job that is to run at its time."""
    if params.in_ms:
        # By the clock that `run_at` is compared with: `now` does not follow it when it is set.
        new.run_at = _in_time(broker.wall(now) + params.in_ms)
    return broker.submit(new, now)


def _in_time(run_at: Millis) -> Millis:
    if run_at > LATEST_MS:
        raise BadRequest("no job can wait beyond the year 9999")
    return run_at


async def arguments(raw: Raw, nesting_max: int) -> bytes:
    """The job's body: an array as it was sent, without white space if it is not large."""
    body = bytes(raw)
    try:
        if body[:1] != b"[":
            raise BadRequest("args must be a JSON array")
        if len(body) <= LARGE_BYTES:
            body = msgspec.json.format(body, indent=-1)
        if not body.isascii():
            body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("args must be a JSON array") from None
    await pause_after(len(body))
    await _check_nesting(body, nesting_max)
    return body


async def _check_nesting(body: bytes, most: int) -> None:
    """`BadRequest` if there is more JSON inside JSON than may be. In steps: it may be large."""
    if body.count(b"[") + body.count(b"{") <= most:
        return
    depth = 0
    for _, outside in outside_strings(body, 0, CHUNK_BYTES):
        deepest, depth = depth_in(outside, depth)
        if deepest > most:
            raise BadRequest(f"args are nested deeper than {most}")
        await asyncio.sleep(0)


def _check_sizes(params: Push, body: bytes, limits: Limits) -> None:
    for what, text in (("queue", params.queue), ("type", params.type), ("name", params.name)):
        if not text and what != "name":
            raise BadRequest(f"a job needs a {what}")
        check_name(what, text, limits)
    if len(body) > limits.body_bytes_max:
        raise TooMuch(f"the arguments are larger than {limits.body_bytes_max} bytes")


def check_name(what: str, text: str, limits: Limits) -> None:
    """`TooMuch` if a name is too long."""
    if len(text.encode()) > limits.name_bytes_max:
        raise TooMuch(f"the {what} is longer than {limits.name_bytes_max} bytes")


# -- find and show ----------------------------------------------------------------------------


async def find(node: NodePort, params: Find) -> View:
    """One page of jobs, and the `after` of the next page if there may be one."""
    query = JobQuery(
        states=states_of(params.states),
        queue=params.queue,
        kind=params.type,
        names=(params.name,) if params.name else (),
        after=params.after,
        limit=params.limit,
        newest_first=params.newest_first,
        with_bodies=False,
    )
    jobs = await node.find(query)
    more = jobs[-1].id if len(jobs) == params.limit else None
    return {"jobs": [summary(job) for job in jobs], "after": more}


async def show(node: NodePort, params: Show) -> View:
    """Everything about one job, or about all that bear one name, newest first."""
    found = await look_up(node, str(params.job))
    if not found:
        raise NotFound(f"there is no job {params.job}")
    loop = asyncio.get_running_loop()
    return {"jobs": [await loop.run_in_executor(None, whole, job) for job in found]}


async def look_up(node: NodePort, reference: str, limit: int = SHOWN_MAX) -> list[Job]:
    """A job by its id, or all that bear a name, the newest first. They are only to be read."""
    by_name = JobQuery(names=(reference,), limit=limit, newest_first=True)
    for query in (by_ids([reference]), by_name):
        if query is None:
            continue
        found = {job.id: job for job in await node.find(query)}
        # Memory knows what the store is not told: progress, and jobs that are not durable.
        for job in await node.ask(partial(_copied_from_memory, query)):
            stored = found.get(job.id)
            if job.away and stored is not None:
                job.body, job.away = stored.body, stored.away  # only the store has it
            found[job.id] = job
        if found:
            return [found[job_id] for job_id in sorted(found, reverse=True)[:limit]]
    return []


def _copied_from_memory(query: JobQuery, engine: Engine, now: Millis) -> list[Job]:
    """As they are now: they are looked at later, and on another thread."""
    held = held_ids(engine.broker, query)[-query.limit :]
    jobs = [engine.broker.jobs[job_id] for job_id in held]
    return [replace(job, attempt_log=list(job.attempt_log or ())) for job in jobs]


# -- which jobs -------------------------------------------------------------------------------


def held_ids(broker: Broker, query: JobQuery) -> list[JobId]:
    """The ids of jobs in memory that a query by ids or names means. The jobs may be very many."""
    ids = [job_id for job_id in query.ids if job_id in broker.jobs]
    for name in query.names:
        ids += broker.ids_named(name)
    return ids


def by_ids(references: Iterable[str], states: tuple[State, ...] = ()) -> JobQuery | None:
    """A search for those references that may be ids, if any may."""
    ids = tuple(int(w) for w in references if w.isascii() and w.isdigit() and len(w) < 19)
    return JobQuery(states=states, ids=ids, limit=len(ids)) if ids else None


def by_names(references: Iterable[str], states: tuple[State, ...] = ()) -> JobQuery | None:
    """A search for references by name, if there are any."""
    names = tuple(references)
    if not names:
        return None
    return JobQuery(states=states, names=names, limit=NAMES_MAX, with_bodies=False)


def states_of(names: Iterable[str]) -> tuple[State, ...]:
    """The states of these names."""
    unknown = [name for name in names if name not in STATES]
    if unknown:
        raise BadRequest(f"no state is called {unknown[0]!r}: there are {', '.join(STATES)}")
    return tuple(STATES[name] for name in names)
