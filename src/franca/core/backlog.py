"""The backlog: jobs that only the store has, how they leave memory and how they come back.

Memory holds a window of each queue and of what waits for its time; the rest costs a count, and a
stub of those that a submit may name again. The store calls its part the backlog.
"""

from __future__ import annotations

from franca.core.changelog import BACKLOG
from franca.core.index import READY, WAITING
from franca.core.large import LargeBodies
from franca.core.model import Job, State
from franca.core.queues import Queue
from franca.core.shared import Part, Shared
from franca.core.stubs import Stub, stub_of, unseen
from franca.core.waiting import Waiting
from franca.core.wants import Snapshot, SupplyReady, SupplyWaiting, Wants

CHECKS_PER_JOB = 5
"""Jobs that are checked for each that may leave memory: the others are only there."""


class Backlog(Part):
    """Moves jobs between memory and the store.

    Jobs that wait for their time are in `waiting`. `kept_dead` of the dead jobs are kept for good.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.waiting = Waiting()
        self.large = LargeBodies(shared.limits, shared.changelog.dirty, self.waiting)
        self.wants = Wants(shared, self.waiting, self.large)
        self.kept_dead = 0

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what the store counts and remembers."""
        waiting = self.waiting
        for count in snapshot.backlog:
            queue = self._queues.listed(count.queue)
            queue.backlog = count.ready
            queue.backlog_levels = count.levels
            queue.mark = (count.first[0], count.first[1] - 1) if count.first else None
            queue.scheduled += count.scheduled
            queue.retrying += count.retrying
            queue.dead += count.dead
            self.kept_dead += count.kept_dead
            waiting.backlog += count.scheduled + count.retrying
        if snapshot.first_waiting is not None:
            waiting.mark = (snapshot.first_waiting[0], snapshot.first_waiting[1] - 1)
            self.wants.supply_waiting()
        for stub in snapshot.known:
            if stub.state <= READY:
                self._remember(stub)

    # -- out of memory ----------------------------------------------------------------------

    def put(self, job: Job) -> None:
        """Let a job live in the store alone. Its queue's or the waiting count is the caller's."""
        self._index.forget(job)
        if self.large.jobs:
            self.large.drop(job)
        if job.shelf is not BACKLOG:
            self._changelog.touch(job)
        if job.key or (job.name and not job.attempts):
            self._remember(stub_of(job))
        if job.id in self._watches.by_job:
            self._watches.in_store.add(stub_of(job))
        if self._locks.waits_for:
            self._locks.wait_no_more(job.id)

    def _remember(self, stub: Stub) -> None:
        dropped = self._index.add_stub(stub)
        if dropped is not None:
            self._watches.in_store.learn_from([dropped])

    def put_ready(self, job: Job, queue: Queue) -> None:
        """Let a ready job that belongs behind the mark live in the store alone."""
        queue.grow_backlog(job.priority)
        self._changelog.touch(job)
        self.put(job)

    def put_away(self, job: Job, queue: Queue) -> None:
        """A ready job whose body is in the store goes where such jobs are.

        It is asked for at once if others would be given before it.
        """
        queue.mark_before(job)
        self.put_ready(job, queue)
        if queue.size or (queue.demands and not queue.paused):
            self.wants.supply_ready(queue)

    def cut_window(self, queue: Queue) -> None:
        """Let the last jobs of a window leave memory: a few, because everybody waits meanwhile."""
        if queue.size <= queue.uncut:
            return
        limits = self._limits
        keep = limits.window_jobs
        if len(self._index.jobs) > limits.held_jobs:
            keep = min(keep, 3 * limits.supply_jobs)
        if queue.mark is not None:
            # Some room is made at once: one by one would be a move for each job that comes.
            keep -= min(limits.supply_jobs, keep // 2)
        # The windows of all queues share the room: this one keeps what the others leave.
        others = self._queues.windows.bytes_held - queue.bytes_held
        keep_bytes = max(limits.window_bytes - others, 0)
        if not self._cut_to(queue, keep, keep_bytes, 2 * limits.supply_jobs):
            # A quarter more is let in before the next cut, which may be as much in vain.
            queue.uncut = queue.size + queue.size // 4 if queue.size > keep else 0
        else:  # for each job that comes two may leave, until the window is small enough
            queue.uncut = queue.size + limits.supply_jobs if queue.size > keep else 0

    def _cut_to(self, queue: Queue, keep: int, keep_bytes: int, most: int) -> bool:
        """Let jobs leave a window; False if some of them may not."""
        all_left = True
        for job in queue.cut(keep, keep_bytes, most):
            if job.policy.durable:
                queue.grow_backlog(job.priority)
                self.put(job)
            else:
                queue.add(job)
                all_left = False
        if not queue.backlog:
            queue.mark = None
        return all_left

    def cut_supplied(self) -> None:
        """Empty windows, those that the store has filled first: a few jobs, the next drain goes on.

        Before a group and not after it: what is read behind the group must find them in the store.
        """
        queues = self._queues
        left = 2 * self._limits.supply_jobs
        checks = CHECKS_PER_JOB * left
        while left > 0 and checks > 0 and queues.is_overfull():
            oldest = next(iter(queues.supplied))
            leaving, staying = oldest.let_go(left, checks)
            for job in leaving:
                oldest.grow_backlog(job.priority)
                self.put(job)
            left -= len(leaving)
            checks -= len(leaving) + staying + 1
            if not leaving or (left > 0 and checks > 0):
                del queues.supplied[oldest]

    def park(self, job: Job, queue: Queue) -> None:
        """Keep a job until its `run_at`."""
        job.state = WAITING
        queue.count_waiting(job, +1)
        waiting = self.waiting
        self._changelog.touch(job)
        if waiting.belongs_to_backlog(job) and job.policy.durable:
            waiting.backlog += 1
            self.put(job)
            return
        self._index.hold(job)
        waiting.add(job)
        limits = self._limits
        if len(job.body) > limits.large_body_bytes:
            self.large.add(job)
        most = limits.window_jobs + limits.supply_jobs
        if waiting.size > most or waiting.bytes_held > limits.waiting_bytes:
            self._cut_waiting()

    def _cut_waiting(self) -> None:
        """Let the latest waiting jobs leave memory: a few, because everybody waits meanwhile."""
        waiting, limits = self.waiting, self._limits
        if waiting.size <= waiting.uncut:
            return
        keep, keep_bytes = limits.window_jobs, limits.waiting_bytes - limits.waiting_bytes // 8
        waiting.uncut = 0
        for late in waiting.cut(keep, keep_bytes, limits.supply_jobs):
            if late.policy.durable:
                waiting.backlog += 1
                self.put(late)
            else:
                waiting.add(late)
                waiting.uncut = waiting.size + waiting.size // 4
        if not waiting.backlog:
            waiting.mark = None

    # -- back, or gone unseen ----------------------------------------------------------------

    def _take(self, job: Job) -> None:
        self.drop_stub(job)
        self._index.hold(job)

    def drop_stub(self, job: Job | Stub) -> None:
        """A job has left the backlog: what was remembered in its place is dropped."""
        if self._watches.by_job:
            self._watches.in_store.drop(job.id)
        self._index.drop_stub(job)

    def take_ready(self, want: SupplyReady, jobs: list[Job]) -> Queue | None:
        """The next jobs of a queue have come into its window: the queue, if there is one still."""
        queue = self._queues.by_name.get(want.queue)
        if queue is None:
            return None
        queue.supplying = False
        if queue.mark != want.mark:
            self.wants.supply_ready(queue)
            return queue
        # The mark may have moved back behind jobs that are in memory already.
        for job in [job for job in jobs if job.id not in self._index.jobs]:
            self._take(job)
            queue.add(job)
            queue.shrink_backlog(job.priority)
        queue.asked = False
        assert queue.backlog >= 0, f"backlog of {queue.name!r} is {queue.backlog}"
        assert queue.backlog == 0 or jobs, f"{queue.name!r} lost its backlog"
        queue.mark = (jobs[-1].priority, jobs[-1].place) if jobs and queue.backlog else None
        self._queues.supplied.pop(queue, None)
        self._queues.supplied[queue] = None
        return queue

    def take_waiting(self, want: SupplyWaiting, jobs: list[Job]) -> None:
        """The next of the jobs that wait for their time have come into memory."""
        waiting = self.waiting
        waiting.supplying = False
        if waiting.mark != want.mark:
            self.wants.supply_waiting()
            return
        for job in jobs:
            self._take(job)
            waiting.add(job)
        waiting.backlog -= len(jobs)
        assert waiting.backlog == 0 or jobs, "the waiting jobs lost their backlog"
        waiting.mark = (jobs[-1].run_at, jobs[-1].id) if jobs and waiting.backlog else None

    def remove(self, job: Job | Stub, queue: Queue) -> None:
        """A ready or waiting job is taken out of the backlog: it is not counted there any more."""
        if job.state is READY:
            queue.shrink_backlog(job.priority)
            if not queue.backlog:
                queue.mark = None
        elif job.state is WAITING:
            self.waiting.backlog -= 1
            if not self.waiting.backlog:
                self.waiting.mark = None

    def end_unseen(self, stub: Stub) -> None:
        """A job that only the store has is taken out of it without being read."""
        queue = self._queues.listed(stub.queue)
        if stub.state is WAITING:
            queue.count_waiting(stub, -1)
        self.remove(stub, queue)
        self.drop_stub(stub)
        dirty = self._changelog.dirty
        unwritten = dirty.get(stub.id)
        if unwritten is not None:
            unwritten.state = State.CANCELLED
            return
        gone = unseen(stub)
        gone.shelf = BACKLOG
        dirty[gone.id] = gone

    def clear(self) -> None:
        """Forget everything."""
        self.waiting.clear()
        self.large.clear()
        self._queues.supplied.clear()
        self.kept_dead = 0
