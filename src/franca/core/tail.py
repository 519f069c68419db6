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
from franca.core.large import LargeBodies
from franca.core.ledger import READY, TAIL, WAITING
from franca.core.limits import Limits
from franca.core.model import (
    Job,
    JobId,
    JobQuery,
    Millis,
    Schedule,
    Shelf,
    State,
    TailCount,
)
from franca.core.ready import Queue
from franca.core.waited import WaitedFor

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
        """Here they are; those in the tail are only visiting, to be changed now or let go.

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
    """What a broker must remember at birth: everything held, and counts of the tail."""

    totals: Totals
    held: list[Job]
    tail: list[TailCount]
    first_waiting: tuple[Millis, int] | None
    queues: list[QueueSetting]
    schedules: list[Schedule]
    known: list[Known]


class Tail(LargeBodies):
    """The ledger of a backlog larger than memory.

    With `hold_supplies` no ready jobs are asked for: what was given out has yet to be sent.
    `_supplied` has the queues whose windows the store has filled, the last one filled last.
    `_waited_for` has jobs of the tail that somebody watches: who empties it unseen must tell them.
    """

    __slots__ = ("_supplied", "_waited_for", "hold_supplies", "wants")

    def __init__(self, limits: Limits, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.wants: list[Want] = []
        self.hold_supplies = False
        self._supplied: dict[Queue, None] = {}
        self._waited_for = WaitedFor()

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
            queue.tail_levels = count.levels
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

    def _to_tail(self, job: Job) -> None:
        """Let a job live in the store alone. Its queue's or the waiting count is the caller's."""
        self._forget(job)
        if self._large:
            self._drop_large(job)
        if job.shelf is not TAIL:
            self._touch(job)
        self._remember(job)
        if job.id in self._watchers:
            self._waited_for.note(known_of(job))
        if self.locks.waits_for:
            self.locks.wait_no_more(job.id)

    def _remember(self, job: Job) -> None:
        if job.key or (job.name and not job.attempts):
            self._know(known_of(job))

    def _know(self, known: Known) -> None:
        if known.key:
            self.keys.put(known)
        if known.name and not known.attempts:
            self._recent[known.name] = known
            if len(self._recent) > self.limits.recent_names:
                self._waited_for.learn_from([self._recent.popitem(last=False)[1]])

    def _unknow(self, job: Job | Known) -> None:
        """A job has left the tail: what was remembered in its place is dropped."""
        if self._watchers:
            self._waited_for.drop(job.id)
        known = self._recent.get(job.name)
        if known is not None and known.id == job.id:
            del self._recent[job.name]
        if job.key:
            self.keys.drop(job)

    def _cut_window(self, queue: Queue) -> None:
        """Let the last jobs of a window leave memory: a few, because everybody waits meanwhile."""
        if queue.size <= queue.crowd:
            return
        limits = self.limits
        keep = limits.window_jobs
        if len(self.jobs) > limits.held_jobs:
            keep = min(keep, 3 * limits.supply_jobs)
        if queue.mark is not None:
            # Some room is made at once: one by one would be a move for each job that comes.
            keep -= min(limits.supply_jobs, keep // 2)
        # The windows of all queues share the room: this one keeps what the others leave.
        others = self.windows.bytes_held - queue.bytes_held
        keep_bytes = max(limits.window_bytes - others, 0)
        if not self._cut_to(queue, keep, keep_bytes, 2 * limits.supply_jobs):
            # A quarter more is let in before the next cut, which may be as much in vain.
            queue.crowd = queue.size + queue.size // 4 if queue.size > keep else 0
        else:  # for each job that comes two may leave, until the window is small enough
            queue.crowd = queue.size + limits.supply_jobs if queue.size > keep else 0

    def _cut_to(self, queue: Queue, keep: int, keep_bytes: int, most: int) -> bool:
        """Let jobs leave a window; False if some of them may not."""
        all_left = True
        for job in queue.cut(keep, keep_bytes, most):
            if self._may_leave(job):
                queue.grow_tail(job.priority)
                self._to_tail(job)
            else:
                queue.add(job)
                self._touch(job)
                all_left = False
        if not queue.tail:
            queue.mark = None
        return all_left

    def _is_overfull(self) -> bool:
        """Whether windows that the store has filled must be emptied for the one it filled last."""
        if len(self._supplied) < 2:
            return False
        limits = self.limits
        return self.windows.bytes_held > limits.window_bytes + limits.supply_bytes

    def _back_to_tail(self, job: Job, queue: Queue) -> None:
        """A ready job whose body is in the store goes where such jobs are."""
        queue.mark_before(job)
        queue.grow_tail(job.priority)
        self._touch(job)
        self._to_tail(job)
        if queue.line and not queue.paused:
            self._want_ready(queue)

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
        limits = self.limits
        if len(job.body) > limits.large_body_bytes:
            self._keep_large(job)
        most = limits.window_jobs + limits.supply_jobs
        if waiting.size > most or waiting.bytes_held > limits.waiting_bytes:
            self._cut_waiting()

    def _cut_waiting(self) -> None:
        """Let the latest waiting jobs leave memory: a few, because everybody waits meanwhile."""
        waiting, limits = self.waiting, self.limits
        if waiting.size <= waiting.crowd:
            return
        keep, keep_bytes = limits.window_jobs, limits.waiting_bytes - limits.waiting_bytes // 8
        waiting.crowd = 0
        for late in waiting.cut(keep, keep_bytes, limits.supply_jobs):
            if self._may_leave(late):
                waiting.tail += 1
                self._to_tail(late)
            else:
                waiting.add(late)
                self._touch(late)
                waiting.crowd = waiting.size + waiting.size // 4
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
            self._shrink_tail(queue, known.priority)
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

    def _shrink_tail(self, queue: Queue, priority: int) -> None:
        queue.shrink_tail(priority)
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
        While windows are still being emptied for the last one, no further ones are filled.
        """
        recalls: list[Want] = []
        supplies: list[Want] = []
        later: list[Want] = []
        full = self.windows.bytes_held >= self.limits.window_bytes
        hold = self.hold_supplies or self._is_overfull()
        for want in self.wants:
            if isinstance(want, Recall):
                (later if recalls else recalls).append(want)
            elif isinstance(want, SupplyWaiting):
                supplies.append(want)
            elif hold:
                later.append(want)
            elif full and not self._is_asked_for(want.queue):
                self.queues[want.queue].supplying = False
            else:
                supplies.append(want)
        self.wants = later
        return supplies + recalls

    def has_wants(self) -> bool:
        """Whether `take_wants` would hand over anything."""
        if self.hold_supplies:
            return any(not isinstance(want, SupplyReady) for want in self.wants)
        return bool(self.wants)

    def want_again(self, wants: list[Want]) -> None:
        """The store had too much to bring at once: these are still wanted."""
        self.wants = wants + self.wants

    def _is_asked_for(self, queue_name: str) -> bool:
        queue = self.queues.get(queue_name)
        return queue is None or queue.asked or bool(queue.line)

    def recall(self, query: JobQuery, by: Recaller) -> None:
        """Ask the store for jobs; `by` is handed them in a later turn."""
        self.wants.append(Recall(query, by))

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
