"""Leases: who holds which job, and until when. What follows when one ends is in `lifecycle.py`."""

from __future__ import annotations

from itertools import chain, islice

from franca.core.backlog import Backlog
from franca.core.changelog import LEASED
from franca.core.errors import NotHeld
from franca.core.limits import TIME_MAX
from franca.core.model import NEVER, Demand, Job, JobId, Millis, OnHangUp, Session
from franca.core.queues import Queue
from franca.core.shared import Part, Shared
from franca.core.timers import Buckets

KEEP = OnHangUp.KEEP
LEASE_TICK_MS = 50
LOOKED_AT = 20_000
"""Leases that are looked at for the sake of those who want to see them: some milliseconds."""


class Leases(Part):
    """All leases: how many, what their jobs take in memory, and when they end.

    There may be `jobs_max` of them, which take `bytes_max`.
    `bytes` counts jobs that wait behind a run too. `holders` are the open sessions whose leases end
    with them, by name. `new` are leases that are not on the clock yet: most end before they are.
    """

    def __init__(self, shared: Shared, backlog: Backlog) -> None:
        super().__init__(shared)
        self.jobs_max = shared.limits.leased_jobs
        self.bytes_max = shared.limits.leased_bytes
        self.holders: dict[str, Session] = {}
        self.ends: Buckets[Job] = Buckets(LEASE_TICK_MS)
        self._same_names = shared.index.same_names
        self._begins = shared.watches.begins
        self._large_body_bytes = shared.limits.large_body_bytes
        self._backlog = backlog
        self.clear()

    def clear(self) -> None:
        """Forget everything but who there is."""
        for session in self.holders.values():
            session.leases.clear()
        self.ends.clear()
        self.new: list[Job] = []
        self.count = self.bytes = 0

    def is_full(self) -> bool:
        """Whether as many jobs run as may, or as memory has room for."""
        return self.count >= self.jobs_max or self.bytes >= self.bytes_max

    def grant(self, job: Job, demand: Demand, queue: Queue, now: Millis) -> None:
        """Let a session hold a job that has been taken out of where it was.

        Every lease begins here.
        """
        session = demand.session
        job.state = LEASED
        job.holder = session.holder
        job.by = session.by
        job.started_at = now
        job.attempts += 1
        policy = job.policy
        bound = session.on_hang_up is not KEEP
        lease_ms = policy.lease_ms
        if demand.lease_ms is not None:
            lease_ms = demand.lease_ms.get(job.queue, 0) or lease_ms
        if lease_ms or not bound:
            job.until = now + (lease_ms or self._limits.lease_ms)
            self.new.append(job)
        elif job.until:  # to set a field takes longer than to look
            job.until = NEVER
        if bound:
            session.leases[job.id] = job
            job.bound = True
        queue.leased += 1
        self.count += 1
        if job.id not in self._jobs:
            self._index.hold(job)
        size = len(job.body)
        weight = job.weight
        if size > self._large_body_bytes:
            self._backlog.large.add(job)
            weight -= size
        if policy.durable:  # as `Changelog.touch`, without a call: every job comes here
            self._dirty[job.id] = job
            self.bytes += weight
        if self._same_names and job.name in self._same_names:
            self._same_names[job.name].lease(job)
        if self._begins and job.id in self._begins:
            self._watches.tell_begun(job)
        if queue.backlog and queue.size <= self._limits.supply_jobs:
            self._backlog.wants.supply_ready(queue)

    def restore(self, job: Job, queue: Queue, now: Millis) -> None:
        """Go on with a lease from before a restart.

        One counted by a clock that has since been turned back is cut to its own length.
        """
        queue.leased += 1
        self.count += 1
        self.bytes += self.weight(job)
        if job.until:
            job.until = min(job.until, now + max(job.until - job.started_at, 0))
            self.new.append(job)

    def end(self, job: Job) -> Queue:
        """Nobody holds a job any more; what becomes of it, and of its locks, is the caller's.

        Returns its queue.
        """
        queue = self._by_name[job.queue]
        queue.leased -= 1
        self.count -= 1
        if job.policy.durable:  # as `weight`, without a call: every job comes here
            size = len(job.body)
            self.bytes -= job.weight - size if size > self._large_body_bytes else job.weight
        if self._same_names:
            self._index.end_run(job)
        if job.timed:
            job.timed = False
            self.ends.discard(job, job.until // LEASE_TICK_MS)
        if job.bound:
            job.bound = False
            session = self.holders.get(job.holder)
            if session is not None:
                session.leases.pop(job.id, None)
        return queue

    def weight(self, job: Job) -> int:
        """What a running job counts for; large bodies and jobs of memory alone count elsewhere."""
        if not job.policy.durable:
            return 0
        is_large = len(job.body) > self._large_body_bytes
        return job.weight - len(job.body) if is_large else job.weight

    def check(self, job: Job, holder: str) -> None:
        """`NotHeld` if somebody else holds the job, or nobody."""
        if job.state is not LEASED or job.holder != holder:
            raise NotHeld(f"job {job.id} is not held by {holder!r}")

    def extend(self, job: Job, holder: str, until: Millis) -> Millis:
        """Let a lease end later; returns when it ends. `NotHeld` if it is another's, or over.

        It never ends earlier by this, and one without an end has none afterwards.
        """
        self.check(job, holder)
        until = min(until, TIME_MAX)
        if job.until and until > job.until:
            if job.timed:
                self.ends.discard(job, job.until // LEASE_TICK_MS)
                self.ends.add(job, until)
            job.until = until
            self._changelog.touch(job)
        return job.until

    def by_holder(self, most: int = LOOKED_AT) -> dict[str, dict[JobId, Job]]:
        """Running jobs by their holders, as far as their leases end by time.

        Those of other leases are in the `leases` of their sessions. Up to `most` are looked at.
        """
        found: dict[str, dict[JobId, Job]] = {}
        for job in islice(chain(self.ends, self.new), most):
            if job.state is LEASED:
                found.setdefault(job.holder, {})[job.id] = job
        return found

    def set_timers(self) -> None:
        """Put leases on the clock that have lasted until now."""
        for job in self.new:
            if job.state is LEASED and job.until and not job.timed:
                job.timed = True
                self.ends.add(job, job.until)
        self.new.clear()
