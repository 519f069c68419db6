"""What the store has brought: jobs of the tail come into memory, and to those who wait for them."""

from __future__ import annotations

from heapq import nsmallest

from msgspec.structs import replace

from franca.core.changes import Changes
from franca.core.ledger import TAIL
from franca.core.lines import Lines
from franca.core.model import Job, JobId, JobQuery, Millis
from franca.core.tail import Recall, SupplyReady, SupplyWaiting

LOOKS_PER_JOB = 5
"""Jobs that are looked at for each that may leave memory: the others are watched, or only there."""


class Supplies(Lines):
    """The lines, filled from the store."""

    __slots__ = ()

    def has_changes(self) -> bool:
        """Whether `drain` would hand over anything."""
        return super().has_changes() or self._is_overfull()

    def drain(self) -> Changes:
        """Everything that changed; and what leaves memory because the store has filled it."""
        if self._is_overfull():
            self._cut_supplied()
        return super().drain()

    def _cut_supplied(self) -> None:
        """Empty windows, those that the store has filled first: a few jobs, the next drain goes on.

        Before a group and not after it: what is read behind the group must find them in the tail.
        """
        left = 2 * self.limits.supply_jobs
        looks = LOOKS_PER_JOB * left
        while left > 0 and looks > 0 and self._is_overfull():
            oldest = next(iter(self._supplied))
            leaving, staying = oldest.let_go(left, looks, self._may_leave)
            for job in leaving:
                oldest.grow_tail(job.priority)
                self._to_tail(job)
            for job in staying:
                if job.shelf is TAIL:
                    self._touch(job)
            left -= len(leaving)
            looks -= len(leaving) + len(staying) + 1
            if not leaving or (left > 0 and looks > 0):
                del self._supplied[oldest]

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
        self._supplied.pop(queue, None)
        self._supplied[queue] = None
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

    def resolve(self, query: JobQuery, found: list[Job]) -> list[Job]:
        """Jobs that the store found, those in memory in place of their rows if still fitting."""
        jobs: list[Job] = []
        for row in found:
            job = self.jobs.get(row.id) or self._dirty.get(row.id, row)
            if job.away and not row.away:
                job.body, job.away = row.body, False
                job.weight += len(job.body)
                if job.id in self.jobs:
                    self._keep_large(job)
                    self.waiting.burden(job)
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
            for job in self.all_named(name)
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
