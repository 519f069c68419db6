"""What operators may do to jobs that are there, by reference or by filter.

It goes in portions, one turn each, so that a hundred thousand dead jobs, or as many of one name, do
not stop the world. A job that refuses is told apart; the others are not kept from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from franca.control.jobs import NAMES_MAX, Reference, States, by_ids, by_names, held_ids, states_of
from franca.control.port import BadRequest, NodePort, T
from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, JobId, JobQuery, Millis, State
from franca.engine.engine import Engine

SKIPPED_MAX = 1_000
"""Jobs that refused and are told one by one; more are only counted."""


Fits = Callable[[Job], bool]


class Choose(Struct, forbid_unknown_fields=True):
    """Which jobs to act on: these, or all that a filter fits."""

    jobs: Annotated[list[Reference], Meta(max_length=NAMES_MAX)] = []
    states: States = []
    queue: str = ""
    type: str = ""


class Action(Struct, frozen=True):
    """One thing that may be done to jobs: the broker's verb, and the states that it is for."""

    verb: Callable[[Broker, Job, Millis], None]
    states: tuple[State, ...]


RETRY = Action(Broker.retry, (State.WAITING, State.DEAD))
KILL = Action(Broker.kill, (State.WAITING, State.READY, State.LEASED))
CANCEL = Action(Broker.cancel, (State.WAITING, State.READY, State.LEASED))
DELETE = Action(Broker.cancel, (State.WAITING, State.READY, State.DEAD))


async def act_on_jobs(action: Action, node: NodePort, params: Choose) -> Result:
    """Do it to the jobs that are chosen, as far as they are in the right state."""
    if bool(params.states or params.queue or params.type) == bool(params.jobs):
        raise BadRequest("say which jobs: by id or name, or by state, queue or type")
    if params.jobs:
        return await act_on_named(action, node, params.jobs)
    wanted = states_of(params.states)
    states = tuple(state for state in action.states if state in wanted or not wanted)
    if not states:
        allowed = ", ".join(state.name.lower() for state in action.states)
        raise BadRequest(f"this can be done to jobs that are {allowed}")
    return await ActionRun(node, Action(action.verb, states), []).on_filter(params)


class Skipped(Struct):
    """A job to which it was not done, and why."""

    job: str
    state: str
    reason: str


class Result(Struct):
    """What became of an action on jobs. `skipped_more` are those skipped that are only counted."""

    count: int
    missing: list[str]
    skipped: list[Skipped]
    skipped_more: int | UnsetType = UNSET


async def act_on_named(action: Action, node: NodePort, jobs: Sequence[Reference]) -> Result:
    """Do it to the jobs of these ids or names, as far as they are in the right state."""
    references = list(dict.fromkeys(str(reference) for reference in jobs))
    return await ActionRun(node, action, references).on_references()


class ActionRun:
    """An action on the jobs of one request, and what becomes of them.

    Where `fits` is given, a job must still be one of those that are meant.
    """

    def __init__(
        self, node: NodePort, action: Action, references: list[str], fits: Fits | None = None
    ) -> None:
        self._node = node
        self._broker = node.engine.broker
        self._action = action
        self._fits = fits
        self._references = dict.fromkeys(references)
        self._count = 0
        self._done_by_id: set[str] = set()
        self._done_by_name: set[str] = set()
        self._refusals = 0
        self._reasons: dict[str, str] = {}
        self._skipped: list[Skipped] = []

    async def on_references(self) -> Result:
        """Act on the jobs named; what is missing or in another state is told apart."""
        left = list(self._references)
        for search, done in ((by_ids, self._done_by_id), (by_names, self._done_by_name)):
            for some in self._portions(left):
                query = search(some, self._action.states)
                if query is not None:
                    await self._act_on_named(query)
            left = [reference for reference in left if reference not in done]
        states = await self._states_of(left)
        missing = [reference for reference in left if reference not in states]
        skipped: list[Skipped] = []
        for job in left:
            if job in states:
                reason = self._reasons.get(job, f"it is {states[job]}")
                skipped.append(Skipped(job, states[job], reason))
        return Result(self._count, missing, skipped)

    async def on_ids(self, ids: Sequence[JobId]) -> tuple[int, int]:
        """Act on jobs of these ids; how many there were, and how many refused."""
        jobs = self._broker.jobs

        def act(some: Sequence[JobId], engine: Engine, now: Millis) -> None:
            self._act([jobs[job_id] for job_id in some if job_id in jobs], now)

        # The store is not told of these.
        held = [job_id for job_id in ids if job_id in jobs and not jobs[job_id].policy.durable]
        for some in self._portions(held):
            await self._node.ask(partial(act, some))
        await self._act_on_stored(ids)
        return self._count, self._refusals

    async def on_filter(self, params: Choose) -> Result:
        """Act on all that a filter fits; jobs newer than the request are left."""
        newest = await self._node.ask(lambda engine, now: engine.broker.totals.last_job_id)
        query = JobQuery(
            states=self._action.states,
            queue=params.queue,
            kind=params.type,
            limit=self._node.engine.limits.supply_jobs,
            with_bodies=False,
        )
        await self._act_on_found(query, newest)
        more = self._refusals - len(self._skipped)
        return Result(self._count, [], self._skipped, more or UNSET)

    def _act(self, jobs: Iterable[Job], now: Millis) -> None:
        """Act on those of the jobs that are in the right state."""
        for job in jobs:
            if job.state not in self._action.states or (self._fits and not self._fits(job)):
                continue
            try:
                self._action.verb(self._broker, job, now)
            except Refused as refusal:
                self._refuse(job, refusal)
            else:
                self._count += 1
                self._done_by_id |= {str(job.id)} & self._references.keys()
                self._done_by_name |= {job.name} & self._references.keys()

    def _refuse(self, job: Job, refusal: Refused) -> None:
        self._refusals += 1
        if self._refusals <= SKIPPED_MAX:
            self._reasons[str(job.id)] = self._reasons[job.name] = refusal.text
            state = job.state.name.lower()
            self._skipped.append(Skipped(str(job.id), state, refusal.text))

    async def _act_on_named(self, query: JobQuery) -> None:
        """Act on what a query by ids or names means, in memory or out of it.

        Jobs newer than the request are left: where a name is given again and again it would not
        end.
        """

        def act(ids: Sequence[JobId], engine: Engine, now: Millis) -> None:
            jobs = engine.broker.jobs
            self._act([jobs[job_id] for job_id in ids if job_id in jobs], now)

        newest, held = await self._node.ask(
            lambda engine, now: (engine.broker.totals.last_job_id, held_ids(engine.broker, query))
        )
        for some in self._portions(held):
            await self._node.ask(partial(act, some))
        if query.ids:
            await self._act_on_stored(query.ids)
        else:
            await self._act_on_found(query, newest)

    async def _act_on_found(self, query: JobQuery, newest: JobId) -> None:
        """Act on all that fits, page by page.

        It is looked for on another thread, because most of what lies in the store may not fit.
        """
        after = 0
        while after < newest:
            found = await self._node.find(replace(query, after=after))
            ids = [job.id for job in found if job.id <= newest]
            if not ids:
                return
            await self._act_on_stored(ids)
            after = ids[-1]

    async def _act_on_stored(self, ids: Sequence[JobId]) -> None:
        """Act on jobs wherever they lie by now, as many at a time as their bodies allow."""

        def act(jobs: list[Job], now: Millis) -> JobId:
            self._act(jobs, now)
            return jobs[-1].id if jobs else 0

        states = self._action.states
        for some in self._portions(ids):
            after, last = 0, max(some)
            while after < last:
                query = JobQuery(states=states, ids=tuple(some), after=after, limit=len(some))
                after = await self._node.recall(query, act) or last

    def _portions(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """So many at a time as are acted on in one turn."""
        portion = self._node.engine.limits.supply_jobs
        return (items[start : start + portion] for start in range(0, len(items), portion))

    async def _states_of(self, references: list[str]) -> dict[str, str]:
        """The state of each job that is there, by id or name; of several that of the newest."""
        states: dict[str, str] = {}
        ids, names = by_ids(references), by_names(references)
        for query in (names, ids):
            if query is None:
                continue
            found = {job.id: job for job in await self._node.find(query)}
            for job in await self._node.ask(partial(_newest_held, query)):
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
