"""Large bodies: those of jobs that run or wait for their time need not be in memory.

The store keeps them apart from the state of their jobs. When there are too many, the oldest leave
memory: their jobs are `away`, and come back through the store before they are given to anybody.
"""

from __future__ import annotations

from franca.core.changelog import NOWHERE
from franca.core.limits import Limits
from franca.core.model import Job, JobId
from franca.core.waiting import Waiting


class LargeBodies:
    """Jobs whose large bodies could leave memory, and the bytes of these."""

    def __init__(self, limits: Limits, dirty: dict[JobId, Job], waiting: Waiting) -> None:
        self._limits = limits
        self._dirty = dirty
        self._waiting = waiting
        self.jobs: dict[JobId, Job] = {}
        self.bytes = 0

    def clear(self) -> None:
        """Forget everything."""
        self.jobs.clear()  # not a new one: other parts look into it
        self.bytes = 0

    def add(self, job: Job) -> None:
        """A job with a large body runs, or waits for its time: the body may leave memory.

        Not that of a job that only memory has: it counts elsewhere, and would be looked at in vain.
        """
        if job.policy.durable and job.id not in self.jobs:
            self.jobs[job.id] = job
            self.bytes += len(job.body)

    def drop(self, job: Job) -> None:
        """The body of a job stays in memory, or its job has ended."""
        kept = self.jobs.pop(job.id, None)
        if kept is not None:
            self.bytes -= len(kept.body)

    def shrink(self) -> None:
        """Leave large bodies to the store until few enough are in memory, the oldest first."""
        if self.bytes <= self._limits.large_bytes:
            return
        for job in list(self.jobs.values()):
            if self.bytes <= self._limits.large_bytes:
                return
            written = job.shelf is not NOWHERE and job.id not in self._dirty
            if written:
                self.drop(job)
                self._waiting.lighten(job)
                job.weight -= len(job.body)
                job.body = b""
                job.away = True

    def put_back(self, job: Job, body: bytes, *, in_memory: bool) -> None:
        """The store has brought the body of a job that was away."""
        job.body, job.away = body, False
        job.weight += len(body)
        if in_memory:
            self.add(job)
            self._waiting.burden(job)
