"""Heirs: newer jobs that wait behind a run of the one whose place they take."""

from __future__ import annotations

from franca.core.changes import Totals
from franca.core.errors import TooMuch
from franca.core.ledger import READY, WAITING
from franca.core.limits import Limits
from franca.core.lines import DEMAND_TICK_MS
from franca.core.model import Job, JobId, Millis, NewJob, Session, bare_weight
from franca.core.ready import Queue
from franca.core.supplies import Supplies
from franca.core.timers import Buckets

HEIR_BYTES = 1_024
"""What an heir takes in memory beside its texts and bytes, roughly."""
TOO_MANY_HEIRS = "too many jobs wait behind a run that they replace; try again when some are over"


class Heirs(Supplies):
    """A job may have an heir: a newer one with its key that came while it ran.

    The heir waits in no line, only behind the run, and takes the job's place when that is over,
    whatever came of it. Until then it is in memory, and counts with those that run; `heirs_bytes`
    is what all heirs count for.
    """

    __slots__ = ("_ahead", "_heirs", "_start_ends", "heirs_bytes", "wall_ahead_ms")

    def __init__(self, limits: Limits, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.wall_ahead_ms = 0
        self.heirs_bytes = 0
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
        self._count_heir(heir, +1)

    def _waits_behind_none(self, heir: Job) -> None:
        """An heir is one no more."""
        del self._heirs[self._ahead.pop(heir.id)]
        self._count_heir(heir, -1)

    def _count_heir(self, heir: Job, step: int) -> None:
        weight = step * self._heir_weight(heir)
        self.heirs_bytes += weight
        self.leased_bytes += weight

    def _heir_weight(self, heir: Job | NewJob) -> int:
        """What an heir counts for; large bodies and jobs of memory alone count elsewhere."""
        if not heir.policy.durable:
            return 0
        weight = heir.weight if isinstance(heir, Job) else bare_weight(heir)
        if len(heir.body) > self.limits.large_body_bytes:
            weight -= len(heir.body)
        return HEIR_BYTES + weight

    def _check_room_behind(self, last: Job | None, new: NewJob) -> None:
        """Refuse one more heir where there is no room, but not one that is less than the last."""
        more = self._heir_weight(new) - (0 if last is None else self._heir_weight(last))
        most = self.limits.leased_bytes
        # No more than half: what runs to its end has to find room too.
        is_full = self.leased_bytes + more > most or self.heirs_bytes + more > most // 2
        if more > 0 and is_full:
            raise TooMuch(TOO_MANY_HEIRS)

    def _succeed(self, job_id: JobId, now: Millis) -> None:
        """A run is over and its job gone: what waited behind it takes its place."""
        heir = self._heirs[job_id]
        self._waits_behind_none(heir)
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
