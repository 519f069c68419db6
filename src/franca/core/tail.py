"""The tail: jobs that only the store has, and how they leave memory and come back.

Memory holds a window of each queue and of what waits for its time; the rest costs a count, and a
few words of those that a submit may name again. The store is asked for more by `wants`, which are
answered behind the writes of a drain.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from franca.core.changes import QueueSetting, Totals
from franca.core.known import Known, known_of, unseen
from franca.core.ledger import READY, TAIL, WAITING, Ledger
from franca.core.limits import Limits
from franca.core.model import (
    Job,
    JobQuery,
    Millis,
    Schedule,
    Shelf,
    State,
    TailCount,
)
from franca.core.ready import Queue

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
    """More waiting jobs, those right behind `mark`, are wanted in memory."""

    mark: tuple[Millis, int]
    limit: int
    bytes_max: int = NO_LIMIT


class Recaller(Protocol):
    """Whoever asks for jobs that may not be in memory."""

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Here they are; those in the tail are only visiting, to be changed now or let go."""


class Recall(Struct, frozen=True):
    """These jobs are wanted by `by`, wherever they lie."""

    query: JobQuery
    by: Recaller


Want = SupplyReady | SupplyWaiting | Recall


class Snapshot(Struct):
    """What a broker must remember at birth: everything held, and counts of the tail."""

    totals: Totals
    held: list[Job]
    tail: list[TailCount]
    first_waiting: tuple[Millis, int] | None
    queues: list[QueueSetting]
    schedules: list[Schedule]
    known: list[Known]


class Tail(Ledger):
    """The ledger of a backlog larger than memory."""

    __slots__ = ("wants",)

    def __init__(self, limits: Limits, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.wants: list[Want] = []

    # -- birth ----------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what the store remembers. Only for a ledger that has seen nothing yet."""
        self.totals = snapshot.totals
        for setting in snapshot.queues:
            self.queue(setting.queue).paused = setting.paused
        self._settings.clear()  # the store knows them: it just told us
        for count in snapshot.tail:
            queue = self.queue(count.queue)
            queue.tail = count.ready
            queue.mark = (count.first[0], count.first[1] - 1) if count.first else None
            queue.scheduled += count.scheduled
            queue.retrying += count.retrying
            queue.dead += count.dead
            self.waiting.tail += count.scheduled + count.retrying
        if snapshot.first_waiting is not None:
            self.waiting.mark = (snapshot.first_waiting[0], snapshot.first_waiting[1] - 1)
            self._want_waiting()
        for known in snapshot.known:
            if known.state <= READY:
                self._know(known)

    # -- out of memory ----------------------------------------------------------------------

    def _may_leave(self, job: Job) -> bool:
        """Whether a job may live in the store alone: not if it is not there, or is watched."""
        return job.policy.durable and job.id not in self._watchers

    def _to_tail(self, job: Job) -> None:
        """Let a job live in the store alone. Its queue's or the waiting count is the caller's."""
        self._forget(job)
        if job.shelf is not TAIL:
            self._touch(job)
        self._remember(job)

    def _remember(self, job: Job) -> None:
        if job.key or (job.name and not job.attempts):
            self._know(known_of(job))

    def _know(self, known: Known) -> None:
        if known.key:
            self._by_key[(known.queue, known.key)] = known
        if known.name and not known.attempts:
            self._recent[known.name] = known
            if len(self._recent) > self.limits.recent_names:
                self._recent.popitem(last=False)

    def _unknow(self, job: Job | Known) -> None:
        """A job has left the tail: what was remembered in its place is dropped."""
        known = self._recent.get(job.name)
        if known is not None and known.id == job.id:
            del self._recent[job.name]
        if job.key:
            taken = self._by_key.get((job.queue, job.key))
            if taken is not None and taken.id == job.id:
                del self._by_key[(job.queue, job.key)]

    def _cut_window(self, queue: Queue) -> None:
        if queue.size <= queue.crowd:
            return
        limits = self.limits
        keep = limits.window_jobs
        if len(self.jobs) > limits.held_jobs:
            keep = min(keep, 3 * limits.supply_jobs)
        if queue.mark is not None:
            # Some room is made at once: one by one would be a move for each job that comes.
            keep -= min(limits.supply_jobs, keep // 2)
        for job in queue.cut(keep, limits.window_bytes):
            if self._may_leave(job):
                queue.tail += 1
                self._to_tail(job)
            else:
                queue.add(job)
                self._touch(job)
        queue.crowd = _next_crowd(queue.size, keep)
        if not queue.tail:
            queue.mark = None

    def _park(self, job: Job, queue: Queue) -> None:
        """Keep a job until its `run_at`."""
        job.state = WAITING
        self._count_waiting(queue, job, +1)
        waiting = self.waiting
        self._touch(job)
        if waiting.belongs_to_tail(job) and self._may_leave(job):
            waiting.tail += 1
            self._to_tail(job)
            return
        self._hold(job)
        waiting.add(job)
        if waiting.size > max(2 * self.limits.window_jobs, waiting.crowd):
            for late in waiting.cut(self.limits.window_jobs):
                if self._may_leave(late):
                    waiting.tail += 1
                    self._to_tail(late)
                else:
                    waiting.add(late)
                    self._touch(late)
            waiting.crowd = _next_crowd(waiting.size, self.limits.window_jobs)
            if not waiting.tail:
                waiting.mark = None

    def _count_waiting(self, queue: Queue, job: Job | Known, step: int) -> None:
        if job.failures:
            queue.retrying += step
        else:
            queue.scheduled += step

    # -- back, or gone unseen ----------------------------------------------------------------

    def _back_in_memory(self, job: Job) -> None:
        self._unknow(job)
        self._hold(job)

    def _leave_tail(self, known: Known) -> None:
        """A job that only the store has is taken out of it unseen."""
        queue = self.queue(known.queue)
        if known.state is READY:
            self._shrink_tail(queue)
        elif known.state is WAITING:
            self._count_waiting(queue, known, -1)
            self._shrink_waiting()
        self._unknow(known)
        unwritten = self._dirty.get(known.id)
        if unwritten is not None:
            unwritten.state = State.CANCELLED
            return
        gone = unseen(known)
        gone.shelf = Shelf.TAIL
        self._dirty[gone.id] = gone

    def _shrink_tail(self, queue: Queue) -> None:
        queue.tail -= 1
        if not queue.tail:
            queue.mark = None

    def _shrink_waiting(self) -> None:
        self.waiting.tail -= 1
        if not self.waiting.tail:
            self.waiting.mark = None

    # -- what the store is asked -------------------------------------------------------------

    def take_wants(self) -> list[Want]:
        """What memory would like from the store, to be read behind the writes of this drain.

        The answers must be handed in before anything else happens to memory. At most one
        recall at a time: what is done with its jobs must be written before the next one reads.
        """
        recalls = [want for want in self.wants if isinstance(want, Recall)]
        wants = [want for want in self.wants if not isinstance(want, Recall)]
        self.wants = list(recalls[1:])
        return wants + recalls[:1]

    def recall(self, query: JobQuery, by: Recaller) -> None:
        """Ask the store for jobs; `by` is handed them in a later turn."""
        self.wants.append(Recall(query, by))

    def resolve(self, query: JobQuery, found: list[Job]) -> list[Job]:
        """Jobs that the store found, those in memory in place of their rows if still fitting."""
        jobs = [self.jobs.get(job.id) or self._dirty.get(job.id, job) for job in found]
        return [job for job in jobs if not query.states or job.state in query.states]

    def _want_ready(self, queue: Queue) -> None:
        if queue.tail and not queue.supplying and queue.mark is not None:
            queue.supplying = True
            limits = self.limits
            self.wants.append(
                SupplyReady(queue.name, queue.mark, limits.supply_jobs, limits.supply_bytes)
            )

    def _want_waiting(self) -> None:
        waiting = self.waiting
        if waiting.tail and not waiting.supplying and waiting.mark is not None:
            waiting.supplying = True
            limits = self.limits
            self.wants.append(SupplyWaiting(waiting.mark, limits.supply_jobs, limits.supply_bytes))


def _next_crowd(size: int, wished: int) -> int:
    """The size up to which a cut would be in vain, as the last one left more than was wished."""
    return size + size // 4 if size > wished else 0
