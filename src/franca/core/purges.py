"""Many jobs end at once: queues are purged or removed, or everything is flushed.

All of them have ended before a verb returns. Those who wait for them hear of it turn by turn, and
turn by turn the memory that they took is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from franca.core.index import READY
from franca.core.lifecycle import CANCELLED
from franca.core.model import NEVER, Failure, Job, JobId, Millis, Shelf
from franca.core.shared import Part, Shared
from franca.core.stubs import Stub, unseen

TOLD_AT_ONCE = 1_000
"""Ends of jobs that are told in one turn when many end together, and remembered of those."""
FREED_AT_ONCE = 5_000


class Purges(Part):
    """What is left to be told of jobs that ended together, and to be freed (`_freed_later`)."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._unreported: deque[tuple[Job, Failure]] = deque()
        self._unreported_stubs: deque[tuple[Iterator[Stub], Failure]] = deque()
        self._freed_later: list[Job | Stub] = []

    # -- queues ---------------------------------------------------------------------------

    def purge_queues(self, queue_names: Iterable[str], now: Millis) -> int:
        """Cancel every ready job of queues, the backlog unseen; returns how many there were.

        Several at once cost little more than one.
        """
        failure = Failure("Cancelled", "its queue was purged")
        count = 0
        emptied: dict[str, None] = {}
        for name in queue_names:
            queue = self._queues.by_name.get(name)
            if queue is not None:
                count += queue.ready
                has_backlog = queue.backlog > 0
                if self._end_all(queue.take_all(), failure, now) or has_backlog:
                    emptied[name] = None
        if emptied:
            self._empty_backlogs(emptied, failure)
        self.tick()
        return count

    def _end_all(self, jobs: list[Job], failure: Failure, now: Millis) -> bool:
        """As `Lifecycle.end` for each of many ready jobs, but the newest alone are remembered.

        True if the store must empty its backlog for it: it has rows of some of them there.
        """
        watches, changelog = self._watches, self._changelog
        made_by_rules = self._schedules.by_job
        in_backlog = False
        for job in jobs:
            job.state = CANCELLED
            job.ended_at = now
            self._index.forget(job)
            if job.id in changelog.dirty:
                pass  # what is to be done about its row is found out when it is drained
            elif job.shelf is Shelf.HELD:
                job.shelf = Shelf.NOWHERE
                changelog.gone.append(job)
            elif job.shelf is Shelf.BACKLOG:
                in_backlog = True
            else:
                self._volatile.remove(job)
            if watches.wants_end(job):
                self._unreported.append((job, failure))
            if job.id in made_by_rules:
                self._schedules.note_end(job)
        changelog.ended += [job for job in jobs[-TOLD_AT_ONCE:] if job.policy.durable]
        self._freed_later += jobs
        return in_backlog

    def _empty_backlogs(self, queue_names: dict[str, None], failure: Failure) -> None:
        """Every ready job of the queues that only the store has is gone, uncommitted ones too."""
        changelog, in_store = self._changelog, self._watches.in_store
        changelog.emptied += queue_names
        for job in changelog.dirty.values():
            if job.queue in queue_names:
                if job.state is READY and job.id not in self._index.jobs:
                    job.state = CANCELLED
                if job.shelf is Shelf.BACKLOG:
                    changelog.spared.append(job.id)
        recent = [stub for stub in self._index.recent.values() if stub.queue in queue_names]
        in_store.learn_from(recent)
        for stub in recent:
            if stub.state is READY:
                del self._index.recent[stub.name]
        for name in queue_names:
            in_store.learn_from(self._index.keys.in_backlog(name))
            self._tell_later(in_store.take_ready(name), failure)
            self._freed_later += self._index.keys.take_backlog(name)

    def remove_queues(self, queue_names: Collection[str], now: Millis) -> None:
        """Purge queues and forget them; later jobs make them anew."""
        self.purge_queues(queue_names, now)
        for name in queue_names:
            queue = self._queues.by_name.get(name)
            if queue is None:
                continue
            queue.paused, queue.paused_until = False, NEVER
            if queue.leased or queue.scheduled or queue.retrying or queue.dead:
                self._queues.save(queue)
            else:
                self._queues.unlist(queue)

    # -- everything -----------------------------------------------------------------------

    def flush(self, now: Millis) -> None:
        """Forget every job, queue and count that the records have; those who wait go on waiting."""
        self._end_everything(Failure("Cancelled", "everything was flushed"), now)
        self._changelog.flush()
        self._locks.clear()
        self._volatile.bytes = 0
        totals = self._totals
        totals.pushed = totals.processed = totals.failures = 0
        for queue in list(self._queues.by_name.values()):
            queue.clear()
            self._queues.drop_if_unused(queue)
        self.tick()

    def _end_everything(self, failure: Failure, now: Millis) -> None:
        """End every job at once: nothing is left of them but those who wait for their ends."""
        jobs, watches = self._index.jobs, self._watches
        for job in jobs.values():
            job.state = CANCELLED
            job.ended_at = now
            if watches.wants_end(job):
                self._unreported.append((job, failure))
        keyed = self._index.keys.take_all()
        watches.in_store.learn_from(self._index.recent.values())
        watches.in_store.learn_from(keyed)
        self._tell_later(watches.in_store.take_all(), failure)
        for job_id in [job_id for job_id in watches.begins if job_id not in jobs]:
            watches.await_no_more(job_id)
        self._freed_later += jobs.values()
        self._freed_later += keyed
        self._index.clear()

    # -- turn by turn ---------------------------------------------------------------------

    def tick(self) -> None:
        """Tell those who wait for jobs that ended with many others, and let some of these go."""
        del self._freed_later[-FREED_AT_ONCE:]
        for _ in range(min(len(self._unreported), TOLD_AT_ONCE)):
            self._watches.tell_end(*self._unreported.popleft())
        if self._unreported_stubs:
            stubs, failure = self._unreported_stubs[0]
            for stub in (some := list(islice(stubs, TOLD_AT_ONCE))):
                if stub.id in self._watches.by_job:
                    self._watches.tell_end(unseen(stub), failure)
            if len(some) < TOLD_AT_ONCE:
                self._unreported_stubs.popleft()

    def _tell_later(self, stubs: dict[JobId, Stub], failure: Failure) -> None:
        """Jobs of the backlog are gone unseen: those who wait for them are told turn by turn."""
        if stubs:
            self._unreported_stubs.append((iter(stubs.values()), failure))
