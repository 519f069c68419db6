"""What time brings: leases and demands end, jobs fall due, rules fire, old dead jobs go.

Whatever may end in crowds ends a bounded number at a time; the next tick goes on with the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from franca.core.changelog import DEAD, LEASED
from franca.core.dispatch import ENDED_AT_ONCE
from franca.core.errors import Refused, StoreFull
from franca.core.events import LeaseLost
from franca.core.index import READY
from franca.core.lifecycle import CANCELLED
from franca.core.model import Job, JobQuery, Millis, Outcome
from franca.core.reasons import NOT_STARTED

if TYPE_CHECKING:
    from franca.core.broker import Broker

PRUNE_EVERY_MS = 60_000
PRUNE_JOBS = 500
FIRED_AT_ONCE = 200
"""Rules that make their jobs in one tick."""


class Upkeep:
    """Works on all parts of a broker. `leases_expired` counts leases whose time was over."""

    def __init__(self, broker: Broker) -> None:
        self.leases_expired = 0
        self._prune_at: Millis = 0
        self._broker = broker

    def tick(self, now: Millis) -> None:
        """Everything whose time has come."""
        broker = self._broker
        broker.dispatch.set_timers()
        broker.leases.set_timers()
        broker.queue_list.share_room()
        broker.purges.tick()
        broker.sessions.tick(now)
        broker.dispatch.end_demands(now)
        self._end_leases(now)
        broker.dispatch.end_pauses(now)
        self._make_due(now)
        broker.dispatch.match_more(now)
        broker.backlog.large.shrink()
        broker.queue_list.unlist_idle(now)
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_EVERY_MS
            if self._prunable():
                broker.recall(JobQuery(states=(DEAD,), limit=PRUNE_JOBS, by_time=True), self)
        if not broker.refusing_new and broker.pending_jobs < broker.limits.pending_jobs:
            self._fire(now)

    def _end_leases(self, now: Millis) -> None:
        """Leases that have expired, and jobs that nobody has begun in time."""
        broker = self._broker
        for job in broker.leases.ends.due(now, ENDED_AT_ONCE):
            job.timed = False
            if job.state is LEASED:
                self.leases_expired += 1
                # Said first: the same session may be given the job again at once.
                session = broker.leases.holders.get(job.holder)
                if session is not None:
                    broker.events.append((session, LeaseLost(job)))
                broker.lifecycle.lose(job, Outcome.EXPIRED, now, as_failure=False)
        for job_id in broker.lifecycle.start_ends.due(now, ENDED_AT_ONCE):
            late = broker.jobs.get(job_id)
            if late is not None and late.state is READY:
                broker.lifecycle.cancel(late, NOT_STARTED, now)

    def _make_due(self, now: Millis) -> None:
        broker = self._broker
        waiting = broker.waiting
        for job in waiting.due(broker.wall(now), broker.limits.due_jobs):
            queue = broker.queue(job.queue)
            queue.count_waiting(job, -1)
            if broker.locks.waits_for:
                broker.locks.wait_no_more(job.id)
            broker.dispatch.enqueue(job, queue, now)
        if waiting.size <= broker.limits.supply_jobs:
            broker.backlog.wants.supply_waiting()

    def _fire(self, now: Millis) -> None:
        """Let the rules whose moment has come make their jobs."""
        broker = self._broker
        wall = broker.wall(now)
        broker.schedules.bring_back(wall, FIRED_AT_ONCE)
        for schedule in broker.schedules.due(wall, FIRED_AT_ONCE):
            try:
                broker.fire(schedule, now)
            except StoreFull:
                broker.schedules.give_back(schedule, wall)
            except Refused:
                pass  # its last job still has the key: this run is left out, not the rule

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Let the oldest dead jobs go: too many, or too old."""
        broker = self._broker
        surplus = self._prunable() - broker.limits.dead_jobs
        for job in jobs:
            if job.policy.keep_dead:
                break  # so are all behind it: `KEPT_MS`
            if surplus <= 0 and job.run_at > now - broker.limits.dead_ms:
                break
            broker.lifecycle.take_out(job, now)
            job.state = CANCELLED
            broker.changelog.dirty[job.id] = job
            surplus -= 1
        else:
            # All that came had to go: there may be more.
            if jobs:
                self._prune_at = now

    def _prunable(self) -> int:
        """How many jobs are dead and not kept for good."""
        broker = self._broker
        return sum(queue.dead for queue in broker.queues.values()) - broker.backlog.kept_dead

    def next_wake(self) -> Millis | None:
        """The moment by which `tick` should be called again, or None."""
        broker = self._broker
        dispatch, leases = broker.dispatch, broker.leases
        dispatch.set_timers()
        leases.set_timers()
        wakes = [dispatch.demand_ends.next_at(), dispatch.pause_ends.next_at()]
        wakes += [leases.ends.next_at(), broker.lifecycle.start_ends.next_at()]
        moments = [broker.waiting.next_at()]
        if not broker.refusing_new:
            moments.append(broker.schedules.next_at())
        wakes += [None if at is None else at - broker.wall_ahead_ms for at in moments]
        return min((at for at in wakes if at is not None), default=None)
