"""Actions on jobs: at once on those that are named, in the background on all that a filter fits.

An action in the background goes on portion by portion, can be watched and stopped, and is
remembered for a while when it is over.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from franca.control import shapes
from franca.control.job_actions import (
    CANCEL,
    DELETE,
    KILL,
    RETRY,
    Action,
    ActionRun,
    Fits,
    act_on_named,
)  # fmt: skip
from franca.control.job_search import Text, Wanted, Words, held_only, wanted_of
from franca.control.jobs import NAMES_MAX, Reference
from franca.control.port import BadRequest, NodePort
from franca.control.states import StateFilter, states_within
from franca.control.views import moment
from franca.core.errors import NotFound, TooMuch
from franca.core.model import Job, JobId, Millis

RUNNING_MAX = 4
REMEMBERED = 100
"""Actions under way at a time, and those that are remembered."""
ACTIONS = {"retry": RETRY, "kill": KILL, "cancel": CANCEL, "delete": DELETE}
PAGE_JOBS = 500


class Act(Struct, forbid_unknown_fields=True):
    """What to do, and to which jobs: these, or all in this state that the filter fits."""

    action: Literal["retry", "kill", "cancel", "delete"]
    ids: Annotated[list[Reference], Meta(max_length=NAMES_MAX)] = []
    state: Words = ""
    q: Text = ""


class Which(Struct, forbid_unknown_fields=True):
    """An action in the background, by its id."""

    id: Annotated[str, Meta(max_length=40)]


class Background:
    """One action on all jobs that a filter fits."""

    def __init__(self, number: int, name: str, wanted: Wanted, total: int) -> None:
        self.id = f"op-{number}"
        self.name = name
        self.done = self.failed = 0
        self.ended_at: Millis = 0
        self.stopped = False
        self.error: Exception | None = None
        self._wanted = wanted
        self._total = total

    def view(self) -> shapes.Operation:
        """How far it is."""
        so_far = self.done + self.failed
        return shapes.Operation(
            id=self.id,
            action=self.name,
            total=so_far if self.ended_at else max(self._total, so_far),
            done=self.done,
            failed=self.failed,
            ended_at=moment(self.ended_at),
        )

    async def run(self, node: NodePort) -> None:
        """Act on all jobs that fit, but for those that came or ran after the beginning."""
        try:
            await self._run(node)
        except Exception as error:
            self.error = error
            raise
        finally:
            self.ended_at = node.clock_ms()

    async def _run(self, node: NodePort) -> None:
        newest = await node.ask(lambda engine, now: engine.broker.totals.last_job_id)
        wanted = self._wanted
        action = Action(ACTIONS[self.name].verb, wanted.states.core)

        def fits(job: Job) -> bool:
            # One that has run since would be retried again and again.
            return job.id <= newest and job.started_at <= wanted.now and wanted.fits(job)

        asked = replace(wanted.search(), limit=PAGE_JOBS, fits=fits)
        held, _ = await held_only(node, fits)
        await self._act(node, action, fits, [job.id for job in held])
        while not self.stopped:
            found = await node.search(asked)
            await self._act(node, action, fits, [job.id for job in found.jobs])
            if not found.cursor:
                return
            asked = replace(asked, cursor=found.cursor)

    async def _act(self, node: NodePort, action: Action, fits: Fits, ids: list[JobId]) -> None:
        portion = node.engine.limits.supply_jobs
        for start in range(0, len(ids), portion):
            if self.stopped:
                return
            run = ActionRun(node, action, [], fits)
            done, refused = await run.on_ids(ids[start : start + portion])
            self.done += done
            self.failed += refused


class Actions:
    """All actions in the background: those under way, and the last ones that ended."""

    def __init__(self) -> None:
        self._all: dict[str, Background] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0

    def begin(self, node: NodePort, name: str, wanted: Wanted, total: int) -> Background:
        """Begin one. `TooMuch` if as many are under way as may be."""
        if sum(not one.ended_at for one in self._all.values()) >= RUNNING_MAX:
            raise TooMuch("too many actions are under way; try again when one has ended")
        self._number += 1
        begun = Background(self._number, name, wanted, total)
        self._all[begun.id] = begun
        over = [one.id for one in self._all.values() if one.ended_at]
        for old in over[: max(0, len(self._all) - REMEMBERED)]:
            del self._all[old]
        task = asyncio.get_running_loop().create_task(begun.run(node))
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return begun

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)

    def get(self, name: str) -> Background:
        """The one of this id."""
        found = self._all.get(name)
        if found is None:
            raise NotFound(f"there is no operation {name}")
        return found

    def newest(self) -> list[Background]:
        """All that are known, the newest first."""
        return list(self._all.values())[::-1]


async def act(node: NodePort, params: Act) -> shapes.Acted:
    """Do it to the jobs that are named, or begin to do it to all that a filter fits."""
    if bool(params.ids) == bool(params.state or params.q):
        raise BadRequest("say which jobs: by ids, or by state and filter")
    action = ACTIONS[params.action]
    if params.ids:
        result = await act_on_named(action, node, params.ids)
        return shapes.Acted(result.count, len(result.missing) + len(result.skipped))
    wanted = _within(action, wanted_of(params.state, params.q, node.clock_ms()))
    counts = await node.observer.counts(node)
    total = sum(int(getattr(counts, name)) for name in wanted.states.names)
    known = total if wanted.is_plain else 0
    begun = node.observer.actions.begin(node, params.action, wanted, known)
    return shapes.Acted(0, 0, begun.id)


def _within(action: Action, wanted: Wanted) -> Wanted:
    """The same, of those states only in which it can be done."""
    may = states_within(action.states)
    names = may & wanted.states.names if wanted.states.names else may
    if not names:
        raise BadRequest(f"this can be done to jobs that are {', '.join(sorted(may))}")
    return replace(wanted, states=StateFilter(names))


async def show(node: NodePort, params: Which) -> shapes.Operation:
    """How far an action in the background is."""
    return node.observer.actions.get(params.id).view()


async def list_all(node: NodePort, params: Struct) -> shapes.OperationList:
    """Actions in the background, under way and ended lately, the newest first."""
    return shapes.OperationList([one.view() for one in node.observer.actions.newest()])


async def stop(node: NodePort, params: Which) -> shapes.Operation:
    """End an action in the background; what it has done stays done."""
    begun = node.observer.actions.get(params.id)
    begun.stopped = True
    return begun.view()
