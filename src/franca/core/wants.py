"""What the broker asks of the store, what comes of it, and what it is told when it starts."""

from __future__ import annotations

from heapq import nsmallest
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from franca.core.changes import QueueSetting, Totals
from franca.core.large import LargeBodies
from franca.core.model import BacklogCount, Job, JobId, JobQuery, Millis, Schedule
from franca.core.queues import Queue
from franca.core.shared import Part, Shared
from franca.core.stubs import Stub
from franca.core.waiting import Waiting

NO_LIMIT = 1 << 60


class SupplyReady(Struct, frozen=True):
    """More ready jobs of this queue, those right behind `mark`, are wanted in memory.

    At most `limit`, and no further one once their bodies have `bytes_max` bytes.
    """

    queue: str
    mark: tuple[int, int]
    limit: int
    bytes_max: int = NO_LIMIT


class SupplyWaiting(Struct, frozen=True):
    """More waiting jobs, those right behind `mark`, are wanted in memory.

    Without the bodies that lie apart: these jobs are `away`.
    """

    mark: tuple[Millis, int]
    limit: int
    bytes_max: int = NO_LIMIT


class Recaller(Protocol):
    """Whoever asks for jobs that may not be in memory."""

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Receive jobs; those of the backlog may be changed now, and are not kept in memory.

        There may be fewer than the query's limit and still more behind them: the end is an
        empty page.
        """


class Recall(Struct):
    """These jobs are wanted by `by`, wherever they lie.

    The store may look at a part of its jobs only; `reached` is then the id up to which it did.
    """

    query: JobQuery
    by: Recaller
    reached: JobId = 0


Want = SupplyReady | SupplyWaiting | Recall


class Snapshot(Struct):
    """What a broker starts with: everything held in memory, and counts of the backlog."""

    totals: Totals
    held: list[Job]
    backlog: list[BacklogCount]
    first_waiting: tuple[Millis, int] | None
    queues: list[QueueSetting]
    schedules: list[Schedule]
    known: list[Stub]


class Wants(Part):
    """What memory would like from the store, in the order in which it was asked for.

    With `hold_supplies` no ready jobs are asked for: what was given out has yet to be sent.
    """

    def __init__(self, shared: Shared, waiting: Waiting, large: LargeBodies) -> None:
        super().__init__(shared)
        self.all: list[Want] = []
        self.hold_supplies = False
        self._waiting = waiting
        self._large = large
        self._most = shared.limits.supply_jobs, shared.limits.supply_bytes

    def take(self) -> list[Want]:
        """What memory would like from the store, to be read behind the writes of this drain.

        The answers must be handed in before anything else happens to memory. At most one
        recall at a time: what is done with its jobs must be written before the next one reads.
        While windows are still being emptied for the last one, no further ones are filled.
        """
        recalls: list[Want] = []
        supplies: list[Want] = []
        later: list[Want] = []
        queues = self._queues
        full = queues.windows.bytes_held >= self._limits.window_bytes
        hold = self.hold_supplies or queues.is_overfull()
        for want in self.all:
            if isinstance(want, Recall):
                (later if recalls else recalls).append(want)
            elif isinstance(want, SupplyWaiting):
                supplies.append(want)
            elif hold:
                later.append(want)
            else:
                queue = queues.by_name.get(want.queue)
                if full and queue is not None and not (queue.asked or queue.demands):
                    queue.supplying = False
                else:
                    supplies.append(want)
        self.all[:] = later
        return supplies + recalls

    def has_any(self) -> bool:
        """Whether `take` would hand over anything."""
        if self.hold_supplies:
            return any(not isinstance(want, SupplyReady) for want in self.all)
        return bool(self.all)

    def put_back(self, wants: list[Want]) -> None:
        """The store had too much to bring at once: these are still wanted."""
        self.all[:0] = wants

    def recall(self, query: JobQuery, by: Recaller) -> None:
        """Ask the store for jobs; `by` is handed them in a later turn."""
        self.all.append(Recall(query, by))

    def supply_ready(self, queue: Queue) -> None:
        """Ask for the next ready jobs of a queue, if some of them are only in the store."""
        if queue.backlog and not queue.supplying and queue.mark is not None:
            queue.supplying = True
            self.all.append(SupplyReady(queue.name, queue.mark, *self._most))

    def supply_waiting(self) -> None:
        """Ask for the next jobs that wait for their time, if some of them are only in the store."""
        waiting = self._waiting
        if waiting.backlog and not waiting.supplying and waiting.mark is not None:
            waiting.supplying = True
            self.all.append(SupplyWaiting(waiting.mark, *self._most))

    # -- what is made of the jobs that the store found -----------------------------------------

    def resolve(self, query: JobQuery, found: list[Job]) -> list[Job]:
        """Jobs that the store found, those in memory in place of their rows if still fitting."""
        held = self._index.jobs
        jobs: list[Job] = []
        for row in found:
            job = held.get(row.id) or self._dirty.get(row.id, row)
            if job.away and not row.away:
                self._large.put_back(job, row.body, in_memory=job.id in held)
            if not query.states or job.state in query.states:
                jobs.append(job)
        return jobs

    def page_of(self, want: Recall, found: list[Job]) -> list[Job] | None:
        """The jobs to hand to whoever asked; None if the store looks on because none fits yet."""
        query = want.query
        last = want.reached or (found[-1].id if len(found) >= query.limit else 0)
        if query.names:
            found, last = self._with_named(query, found, last)
        jobs = self.resolve(query, found)
        if jobs or not last or query.by_time:
            return jobs
        self.recall(replace(query, after=last), want.by)
        return None

    def _with_named(
        self, query: JobQuery, found: list[Job], last: JobId
    ) -> tuple[list[Job], JobId]:
        """And those in memory, up to where the store looked: it does not look there for names.

        No more than a page, and how far that reaches now, because they may be very many.
        """
        jobs = {job.id: job for job in found}
        fitting = (
            job
            for name in query.names
            for job in self._index.all_named(name)
            if query.after < job.id
            and (not last or job.id <= last)
            and (not query.states or job.state in query.states)
            and job.policy.durable
        )
        jobs.update((job.id, job) for job in nsmallest(query.limit, fitting, key=_id_of))
        page = sorted(jobs.values(), key=_id_of)[: query.limit]
        return page, page[-1].id if len(page) < len(jobs) else last


def _id_of(job: Job) -> JobId:
    return job.id
