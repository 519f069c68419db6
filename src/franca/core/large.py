"""Large bodies: those of jobs that run or wait for their time need not be in memory.

The store keeps them apart from the state of their jobs. When there are too many, the oldest leave
memory: their jobs are `away`, and come back through the store before they are given to anybody.
"""

from __future__ import annotations

from franca.core.changes import Totals
from franca.core.ledger import NOWHERE, Ledger
from franca.core.limits import Limits
from franca.core.model import Job, JobId


class LargeBodies(Ledger):
    """The ledger, and which of its jobs have large bodies that could leave memory."""

    __slots__ = ("_large", "_large_bytes")

    def __init__(self, limits: Limits, totals: Totals) -> None:
        super().__init__(limits, totals)
        self._large: dict[JobId, Job] = {}
        self._large_bytes = 0

    def _may_leave(self, job: Job) -> bool:
        """Whether a job may live in the store alone: if it is there, whoever waits for it."""
        return job.policy.durable

    def _keep_large(self, job: Job) -> None:
        """A job with a large body runs, or waits for its time: the body may leave memory.

        Not that of a job that only memory has: it counts elsewhere, and would be looked at in vain.
        """
        if job.policy.durable and job.id not in self._large:
            self._large[job.id] = job
            self._large_bytes += len(job.body)

    def _drop_large(self, job: Job) -> None:
        kept = self._large.pop(job.id, None)
        if kept is not None:
            self._large_bytes -= len(kept.body)

    def _lighten(self) -> None:
        """Leave large bodies to the store until few enough are in memory, the oldest first."""
        for job in list(self._large.values()):
            if self._large_bytes <= self.limits.large_bytes:
                return
            written = job.shelf is not NOWHERE and job.id not in self._dirty
            if written:
                self._drop_large(job)
                self.waiting.lighten(job)
                job.weight -= len(job.body)
                job.body = b""
                job.away = True
