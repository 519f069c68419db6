"""Heirs: newer jobs that wait behind a run of the one whose place they take."""

from __future__ import annotations

from franca.core.changes import Totals
from franca.core.ledger import READY, WAITING
from franca.core.limits import Limits
from franca.core.lines import DEMAND_TICK_MS
from franca.core.model import Job, JobId, Millis, Session
from franca.core.ready import Queue
from franca.core.supplies import Supplies
from franca.core.timers import Buckets


class Heirs(Supplies):
    """A job may have an heir: a newer one with its key that came while it ran.

    The heir waits in no line, only behind the run, and takes the job's place when that is over,
    whatever came of it.
    """

    __slots__ = ("_ahead", "_heirs", "_start_ends", "wall_ahead_ms")

    def __init__(self, limits: Limits, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.wall_ahead_ms = 0
        self._heirs: dict[JobId, Job] = {}
        self._ahead: dict[JobId, JobId] = {}
        self._start_ends: Buckets[JobId] = Buckets(DEMAND_TICK_MS)

    def wall(self, now: Millis) -> Millis:
        """The time on the wall at `now`: what `at` and cron mean, and what people may set."""
        return now + self.wall_ahead_ms

    def _settle_in(self, job: Job, queue: Queue, now: Millis) -> None:
        """Let a job wait for its time, or for whoever runs it."""
        if job.run_at and job.run_at > now + self.wall_ahead_ms:
            self._park(job, queue)
        else:
            self._enqueue(job, queue, now)
            if job.start_by and job.state is READY:
                self._start_ends.add(job.id, job.start_by)

    def _inherit(self, heir: Job, job: Job) -> None:
        """Keep a newer job with the same key until this one's run is over."""
        heir.state = WAITING
        self._count_waiting(self.queue(heir.queue), heir, +1)
        self._hold(heir)
        self.keys.put(job)
        self._touch(heir)
        if len(heir.body) > self.limits.large_body_bytes:
            self._keep_large(heir)
        self._heirs[job.id] = heir
        self._ahead[heir.id] = job.id

    def _succeed(self, job_id: JobId, now: Millis) -> None:
        """A run is over and its job gone: what waited behind it takes its place."""
        heir = self._heirs.pop(job_id)
        del self._ahead[heir.id]
        queue = self.queue(heir.queue)
        self._count_waiting(queue, heir, -1)
        self._hold(heir)
        self._settle_in(heir, queue, now)

    def _hand_over(self, watchers: dict[Session, int], old_id: JobId, new_id: JobId) -> None:
        """Those who watched a job watch the one that takes its place."""
        if watchers:
            mine = self._watchers.setdefault(new_id, {})
            self.watches -= len(watchers.keys() & mine.keys())
            for session, times in watchers.items():
                mine[session] = mine.get(session, 0) + times
                session.watches.pop(old_id, None)
                session.watches[new_id] = None
