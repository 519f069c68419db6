"""What operators may do to jobs that are there, by reference or by filter.

It goes in portions, one turn each, so that a hundred thousand dead jobs, or as many of one name, do
not stop the world. A job that refuses is told apart; the others are not kept from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from franca.control.choice import (
    NAMES_MAX,
    Reference,
    States,
    by_ids,
    by_names,
    held_ids,
    states_of,
)
from franca.control.port import BadRequest, NodePort
from franca.control.views import View
from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, JobId, JobQuery, Millis, State
from franca.engine.engine import Engine

SKIPPED_MAX = 1_000
"""Jobs that refused and are told one by one; more are only counted."""


class Choose(Struct, forbid_unknown_fields=True):
    """Which jobs to act on: these, or all that a filter fits."""

    jobs: Annotated[list[Reference], Meta(max_length=NAMES_MAX)] = []
    states: States = []
    queue: str = ""
    type: str = ""


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


class Tally(Struct):
    """What became of jobs: the references by which they may have been meant, and who refused."""

    count: int = 0
    ids: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    refusals: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    skipped: list[View] = field(default_factory=list)

    def act(self, broker: Broker, steering: Steering, jobs: list[Job], now: Millis) -> None:
        """Steer those of the jobs that are in the right state."""
        for job in jobs:
            if job.state not in steering.states:
                continue
            try:
                steering.verb(broker, job, now)
            except Refused as refusal:
                self._refuse(job, refusal)
            else:
                self.count += 1
                self.ids.add(str(job.id))
                self.names.add(job.name)

    def _refuse(self, job: Job, refusal: Refused) -> None:
        self.refusals += 1
        if self.refusals <= SKIPPED_MAX:
            self.reasons[str(job.id)] = self.reasons[job.name] = refusal.text
            state = job.state.name.lower()
            self.skipped.append({"job": str(job.id), "state": state, "reason": refusal.text})


async def _steer(node: NodePort, params: Choose, steering: Steering) -> View:
    by_filter = bool(params.states or params.queue or params.type)
    if by_filter == bool(params.jobs):
        raise BadRequest("say which jobs: by id or name, or by state, queue or type")
    if params.jobs:
        return await _steer_these(node, params.jobs, steering)
    tally = await _steer_all(node, params, steering)
    more = tally.refusals - len(tally.skipped)
    view: View = {"count": tally.count, "missing": [], "skipped": tally.skipped}
    return view | {"skipped_more": more} if more else view


async def _steer_these(node: NodePort, references: list[Reference], steering: Steering) -> View:
    """Act on the jobs named; what is missing or in another state is told apart."""
    words = list(dict.fromkeys(str(reference) for reference in references))
    tally = Tally()
    portion = node.engine.limits.supply_jobs
    left = words
    for search in (by_ids, by_names):
        for start in range(0, len(left), portion):
            query = search(left[start : start + portion], steering.states)
            if query is not None:
                await _act_on(node, query, steering, tally)
        steered = tally.ids if search is by_ids else tally.names
        left = [word for word in left if word not in steered]
    states = await _states_of(node, left)
    return {
        "count": tally.count,
        "missing": [word for word in left if word not in states],
        "skipped": [
            {
                "job": word,
                "state": states[word],
                "reason": tally.reasons.get(word, f"it is {states[word]}"),
            }
            for word in left
            if word in states
        ],
    }


async def _act_on(node: NodePort, query: JobQuery, steering: Steering, tally: Tally) -> None:
    """Steer what a query by ids or names means, in memory or out of it.

    Jobs newer than the request are left: where a name is given again and again it would not end.
    """
    newest, held = await node.ask(partial(_held_by_now, query))
    for some in _portions(node, held):
        await node.ask(partial(_act_on_held, some, steering, tally))
        if query.names:
            tally.ids.clear()  # of no use here, and there may be very many of them
    if query.ids:
        await _act_on_stored(node, query.ids, steering, tally)
        return
    after = 0
    while after < newest:
        found = await node.find(replace(query, after=after))
        ids = [job.id for job in found if job.id <= newest]
        if not ids:
            return
        await _act_on_stored(node, ids, steering, tally)
        tally.ids.clear()
        after = ids[-1]


def _held_by_now(query: JobQuery, engine: Engine, now: Millis) -> tuple[JobId, list[JobId]]:
    return engine.broker.totals.last_job_id, held_ids(engine.broker, query)


def _portions(node: NodePort, ids: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    """So many at a time as are acted on in one turn."""
    portion = node.engine.limits.supply_jobs
    for start in range(0, len(ids), portion):
        yield ids[start : start + portion]


def _act_on_held(
    ids: Sequence[JobId], steering: Steering, tally: Tally, engine: Engine, now: Millis
) -> None:
    """Steer those that are still in memory."""
    broker = engine.broker
    jobs = [broker.jobs[job_id] for job_id in ids if job_id in broker.jobs]
    tally.act(broker, steering, jobs, now)


async def _act_on_stored(
    node: NodePort, ids: Sequence[JobId], steering: Steering, tally: Tally
) -> None:
    """Steer jobs wherever they lie by now, as many at a time as their bodies allow."""
    broker = node.engine.broker

    def act(jobs: list[Job], now: Millis) -> JobId:
        tally.act(broker, steering, jobs, now)
        return jobs[-1].id if jobs else 0

    for some in _portions(node, ids):
        after, last = 0, max(some)
        while after < last:
            query = JobQuery(states=steering.states, ids=tuple(some), after=after, limit=len(some))
            after = await node.recall(query, act) or last


async def _states_of(node: NodePort, words: list[str]) -> dict[str, str]:
    """The state of each job that is there, by id or name; of several that of the newest."""
    states: dict[str, str] = {}
    ids, names = by_ids(words), by_names(words)
    for query in (names, ids):
        if query is None:
            continue
        found = {job.id: job for job in await node.find(query)}
        for job in await node.ask(partial(_newest_held, query)):
            found[job.id] = job
        for job_id in sorted(found):
            job = found[job_id]
            states[str(job_id) if query is ids else job.name] = job.state.name.lower()
    return states


def _newest_held(query: JobQuery, engine: Engine, now: Millis) -> list[Job]:
    """Of each reference a job in memory; of many of one name that which came last."""
    broker = engine.broker
    jobs = [broker.jobs[job_id] for job_id in query.ids if job_id in broker.jobs]
    for name in query.names:
        jobs += islice(broker.last_named(name), 1)
    return jobs


async def _steer_all(node: NodePort, params: Choose, steering: Steering) -> Tally:
    """Act on all that a filter fits, portion by portion; jobs newer than the request are left.

    They are looked for on another thread, because most of what lies in the store may not fit.
    """
    wanted = states_of(params.states)
    states = tuple(state for state in steering.states if state in wanted or not wanted)
    if not states:
        allowed = ", ".join(state.name.lower() for state in steering.states)
        raise BadRequest(f"this can be done to jobs that are {allowed}")
    newest = await node.ask(lambda engine, now: engine.broker.totals.last_job_id)
    tally = Tally()
    after = 0
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
        await _act_on_stored(node, ids, Steering(steering.verb, states), tally)
        # Of no use here, and there may be very many of them.
        tally.ids.clear()
        tally.names.clear()
        after = ids[-1]
    return tally
