"""What the store has brought: jobs of the tail come into memory, and to those who wait for them."""

from __future__ import annotations

from franca.core.lines import Lines
from franca.core.model import Job, Millis
from franca.core.tail import SupplyReady, SupplyWaiting


class Supplies(Lines):
    """The lines, filled from the store."""

    __slots__ = ()

    def supplied_ready(self, want: SupplyReady, jobs: list[Job], now: Millis) -> None:
        """The next jobs of a queue's tail have come into memory."""
        queue = self.queues.get(want.queue)
        if queue is None:
            return
        queue.supplying = False
        if queue.mark != want.mark:
            self._want_ready(queue)
            self._match(queue, now)
            return
        # The mark may have moved back behind jobs that are in memory already.
        new = [job for job in jobs if job.id not in self.jobs]
        for job in new:
            self._back_in_memory(job)
            queue.add(job)
            queue.shrink_tail(job.priority)
        queue.asked = False
        assert queue.tail >= 0, f"tail of {queue.name!r} is {queue.tail}"
        assert queue.tail == 0 or jobs, f"{queue.name!r} lost its tail"
        queue.mark = (jobs[-1].priority, jobs[-1].place) if jobs and queue.tail else None
        self._match(queue, now)
        if self._large_bytes > self.limits.large_bytes:
            self._lighten()
        self._make_room(queue)
        if queue.tail and queue.size <= self.limits.supply_jobs:
            self._want_ready(queue)

    def supplied_waiting(self, want: SupplyWaiting, jobs: list[Job]) -> None:
        """The next jobs of the waiting tail have come into memory."""
        waiting = self.waiting
        waiting.supplying = False
        if waiting.mark != want.mark:
            self._want_waiting()
            return
        for job in jobs:
            self._back_in_memory(job)
            waiting.add(job)
        waiting.tail -= len(jobs)
        assert waiting.tail == 0 or jobs, "the waiting jobs lost their tail"
        waiting.mark = (jobs[-1].run_at, jobs[-1].id) if jobs and waiting.tail else None
