"""What operators may do with jobs: push, find, show, and steer them by reference or by filter.

A reference is a job's id or its public name; digits are tried as an id first. Steering by filter
goes in portions, one turn each, so that a hundred thousand dead jobs do not stop the world.
"""

from __future__ import annotations

import datetime
import secrets
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from franca.control.port import BadRequest, NodePort
from franca.control.views import STATES, View, summary, whole
from franca.core.broker import Broker
from franca.core.errors import NotFound, TooMuch
from franca.core.limits import Limits
from franca.core.model import Backoff, Job, JobId, JobQuery, Millis, NewJob, Policy, State
from franca.engine.engine import Engine

ORIGIN = "control"
LEASE_MS = 1_800_000
REFERENCES_MAX = 10_000
SHOWN_MAX = 100
"""Jobs of one name that are shown whole; the newest are."""

Count = Annotated[int, Meta(ge=0)]
Page = Annotated[int, Meta(ge=1, le=1_000)]
Moment = Annotated[datetime.datetime, Meta(tz=True)]
Reference = str | int


class Push(Struct, forbid_unknown_fields=True):
    """A new job. It runs at `at`, or `in_ms` from now, or at once."""

    queue: str
    type: str
    args: Raw = Raw(b"[]")
    name: str = ""
    at: Moment | None = None
    in_ms: Count = 0
    retry: Count = 25
    lease_ms: Annotated[int, Meta(ge=1_000, le=86_400_000)] = LEASE_MS


class Find(Struct, forbid_unknown_fields=True):
    """Which jobs: all given conditions hold. `after` is the last id of the page before."""

    states: list[str] = []
    queue: str = ""
    type: str = ""
    name: str = ""
    limit: Page = 100
    after: Count = 0
    newest_first: bool = False


class Show(Struct, forbid_unknown_fields=True):
    """Which job, by id or by name."""

    job: Reference


class Choose(Struct, forbid_unknown_fields=True):
    """Which jobs to act on: these, or all that a filter fits."""

    jobs: Annotated[list[Reference], Meta(max_length=REFERENCES_MAX)] = []
    states: list[str] = []
    queue: str = ""
    type: str = ""


# -- push -------------------------------------------------------------------------------------


async def push(node: NodePort, params: Push) -> View:
    """Make a job that a worker of any protocol can run; its id and name."""
    body = _arguments(params.args)
    _check_sizes(params, body, node.engine.limits)
    policy = Policy(failures=params.retry, backoff=Backoff.POWER, lease_ms=params.lease_ms)
    new = NewJob(
        queue=params.queue,
        kind=params.type,
        body=body,
        policy=policy,
        name=params.name or secrets.token_hex(12),
        media="json-args",
        origin=ORIGIN,
        digest=zlib.crc32(body),
        once=bool(params.name),
    )
    if params.at is not None:
        new.run_at = int(params.at.timestamp() * 1000)

    def submit(broker: Broker, now: Millis) -> View:
        if params.in_ms:
            # By the clock that `run_at` is compared with: `now` does not follow it when it is set.
            new.run_at = broker.wall(now) + params.in_ms
        job = broker.submit(new, now)
        return {"id": job.id, "name": job.name, "state": job.state.name.lower()}

    return await node.ask(lambda engine, now: submit(engine.broker, now))


def _arguments(raw: Raw) -> bytes:
    try:
        msgspec.json.decode(raw, type=list[Raw])
        body = msgspec.json.format(bytes(raw), indent=-1)
        body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("args must be a JSON array") from None
    return body


def _check_sizes(params: Push, body: bytes, limits: Limits) -> None:
    for word, text in (("queue", params.queue), ("type", params.type), ("name", params.name)):
        if not text and word != "name":
            raise BadRequest(f"a job needs a {word}")
        if len(text.encode()) > limits.name_bytes_max:
            raise TooMuch(f"the {word} is longer than {limits.name_bytes_max} bytes")
    if len(body) > limits.body_bytes_max:
        raise TooMuch(f"the arguments are larger than {limits.body_bytes_max} bytes")


# -- find and show ----------------------------------------------------------------------------


async def find(node: NodePort, params: Find) -> View:
    """One page of jobs, and the `after` of the next page if there may be one."""
    query = JobQuery(
        states=_states(params.states),
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
    found = await _look_up(node, str(params.job))
    if not found:
        raise NotFound(f"there is no job {params.job}")
    return {"jobs": found}


async def _look_up(node: NodePort, word: str) -> list[View]:
    by_name = JobQuery(names=(word,), limit=SHOWN_MAX, newest_first=True)
    for query in (_by_ids([word]), by_name):
        if query is None:
            continue
        found = {job.id: whole(job) for job in await node.find(query)}
        # Memory knows what the store is not told: progress, and jobs that are not durable.
        for job_id, view in (await node.ask(partial(_shown_from_memory, query))).items():
            found[job_id] = found.get(job_id, {}) | view
        if found:
            return [found[job_id] for job_id in sorted(found, reverse=True)]
    return []


def _shown_from_memory(query: JobQuery, engine: Engine, now: Millis) -> dict[int, View]:
    held = _held(engine.broker, query)[-query.limit :]
    views = {job.id: whole(job) for job in held}
    for job in held:
        if job.away:
            del views[job.id]["body"]  # only the store has it
    return views


def _held(broker: Broker, query: JobQuery) -> list[Job]:
    """The jobs in memory that a query by ids or names means."""
    jobs = [broker.jobs[job_id] for job_id in query.ids if job_id in broker.jobs]
    for name in query.names:
        jobs += broker.named(name)
    return jobs


def _by_ids(words: Iterable[str], states: tuple[State, ...] = ()) -> JobQuery | None:
    """A search for those references that may be ids, if any may."""
    ids = tuple(int(word) for word in words if _may_be_id(word))
    return JobQuery(states=states, ids=ids, limit=len(ids)) if ids else None


def _by_names(words: Iterable[str], states: tuple[State, ...] = ()) -> JobQuery | None:
    """A search for references by name, if there are any."""
    names = tuple(words)
    if not names:
        return None
    return JobQuery(states=states, names=names, limit=REFERENCES_MAX, with_bodies=False)


def _may_be_id(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 19


def _states(names: Iterable[str]) -> tuple[State, ...]:
    unknown = [name for name in names if name not in STATES]
    if unknown:
        raise BadRequest(f"no state is called {unknown[0]!r}: there are {', '.join(STATES)}")
    return tuple(STATES[name] for name in names)


# -- steer ------------------------------------------------------------------------------------


class Steering(Struct, frozen=True):
    """One way to steer: the broker's verb, and the states that it is for."""

    verb: Callable[[Broker, Job, Millis], None]
    states: tuple[State, ...]


RETRY = Steering(Broker.retry, (State.WAITING, State.DEAD))
KILL = Steering(Broker.kill, (State.WAITING, State.READY, State.LEASED))
CANCEL = Steering(Broker.cancel, (State.WAITING, State.READY, State.LEASED))
DELETE = Steering(Broker.cancel, (State.WAITING, State.READY, State.DEAD))


async def retry(node: NodePort, params: Choose) -> View:
    """Make waiting or dead jobs ready now."""
    return await _steer(node, params, RETRY)


async def kill(node: NodePort, params: Choose) -> View:
    """Give live jobs up, into the dead set."""
    return await _steer(node, params, KILL)


async def cancel(node: NodePort, params: Choose) -> View:
    """End live jobs, running ones too; whoever waits for them is told."""
    return await _steer(node, params, CANCEL)


async def delete(node: NodePort, params: Choose) -> View:
    """Remove jobs that are not running: waiting, ready or dead."""
    return await _steer(node, params, DELETE)


async def _steer(node: NodePort, params: Choose, steering: Steering) -> View:
    by_filter = bool(params.states or params.queue or params.type)
    if by_filter == bool(params.jobs):
        raise BadRequest("say which jobs: by id or name, or by state, queue or type")
    if params.jobs:
        return await _steer_these(node, params.jobs, steering)
    return {"count": await _steer_all(node, params, steering), "missing": [], "skipped": []}


async def _steer_these(node: NodePort, references: list[Reference], steering: Steering) -> View:
    """Act on the jobs named; what is missing or in another state is told apart."""
    words = list(dict.fromkeys(str(reference) for reference in references))
    steered: set[str] = set()
    count = 0
    portion = node.engine.limits.supply_jobs
    for search, place in ((_by_ids, 0), (_by_names, 1)):
        left = [word for word in words if word not in steered]
        for start in range(0, len(left), portion):
            query = search(left[start : start + portion], steering.states)
            if query is not None:
                acted = await _act_on(node, query, steering)
                count += len(acted)
                steered.update(str(job[place]) for job in acted)
    left = [word for word in words if word not in steered]
    states = await _states_of(node, left)
    return {
        "count": count,
        "missing": [word for word in left if word not in states],
        "skipped": [{"job": word, "state": states[word]} for word in left if word in states],
    }


async def _act_on(node: NodePort, query: JobQuery, steering: Steering) -> list[tuple[JobId, str]]:
    """Steer what a query by ids or names means, in memory or out of it: the id and name of each."""
    broker = node.engine.broker
    done = await node.ask(lambda engine, now: _act(broker, steering, _held(broker, query), now))
    ids = query.ids or tuple(job.id for job in await node.find(query))
    return done + await _act_on_stored(node, ids, steering)


async def _act_on_stored(
    node: NodePort, ids: tuple[JobId, ...], steering: Steering
) -> list[tuple[JobId, str]]:
    """Steer jobs wherever they lie by now, as many at a time as their bodies allow."""
    broker = node.engine.broker
    done: list[tuple[JobId, str]] = []
    after = 0

    def act(jobs: list[Job], now: Millis) -> JobId:
        done.extend(_act(broker, steering, jobs, now))
        return jobs[-1].id if jobs else 0

    while ids and after < max(ids):
        query = JobQuery(states=steering.states, ids=ids, after=after, limit=len(ids))
        after = await node.recall(query, act) or max(ids)
    return done


async def _states_of(node: NodePort, words: list[str]) -> dict[str, str]:
    """The state of each job that is there, by id or name; of several that of the newest."""
    states: dict[str, str] = {}
    by_ids, by_names = _by_ids(words), _by_names(words)
    for query in (by_names, by_ids):
        if query is None:
            continue
        found = {job.id: job for job in await node.find(query)}
        for job in await node.ask(partial(_held_in, query)):
            found[job.id] = job
        for job_id in sorted(found):
            job = found[job_id]
            states[str(job_id) if query is by_ids else job.name] = job.state.name.lower()
    return states


def _held_in(query: JobQuery, engine: Engine, now: Millis) -> list[Job]:
    return _held(engine.broker, query)


async def _steer_all(node: NodePort, params: Choose, steering: Steering) -> int:
    """Act on all that a filter fits, portion by portion; jobs newer than the request are left.

    They are looked for on another thread, because most of what lies in the store may not fit.
    """
    wanted = _states(params.states)
    states = tuple(state for state in steering.states if state in wanted or not wanted)
    if not states:
        allowed = ", ".join(state.name.lower() for state in steering.states)
        raise BadRequest(f"this can be done to jobs that are {allowed}")
    newest = await node.ask(lambda engine, now: engine.broker.totals.last_job_id)
    count = after = 0
    while after < newest:
        query = JobQuery(
            states=states,
            queue=params.queue,
            kind=params.type,
            after=after,
            limit=node.engine.limits.supply_jobs,
            with_bodies=False,
        )
        ids = tuple(job.id for job in await node.find(query) if job.id <= newest)
        if not ids:
            break
        count += len(await _act_on_stored(node, ids, Steering(steering.verb, states)))
        after = ids[-1]
    return count


def _act(
    broker: Broker, steering: Steering, jobs: list[Job], now: Millis
) -> list[tuple[JobId, str]]:
    fitting = [job for job in jobs if job.state in steering.states]
    for job in fitting:
        steering.verb(broker, job, now)
    return [(job.id, job.name) for job in fitting]
