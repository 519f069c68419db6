"""Successors: newer jobs that wait behind a run of the one whose place they take."""

from __future__ import annotations

from franca.core.errors import TooMuch
from franca.core.leases import Leases
from franca.core.limits import Limits
from franca.core.model import Job, JobId, NewJob
from franca.core.weights import bare_weight

SUCCESSOR_BYTES = 1_024
"""What a successor takes in memory beside its texts and bytes, roughly."""
TOO_MANY = "too many jobs wait behind a run that they replace; try again when some are over"


class Successors:
    """A running job may have a successor: a newer one with its key.

    The successor is in no window, and takes the job's place when the run is over, whatever came of
    it. Until then it is in memory, and counts with those that run; `bytes` is what all of them
    count for. `ahead` has the job that each waits behind.
    """

    def __init__(self, limits: Limits, leases: Leases) -> None:
        self._limits = limits
        self._leases = leases
        self.by_job: dict[JobId, Job] = {}
        self.ahead: dict[JobId, JobId] = {}
        self.bytes = 0

    def clear(self) -> None:
        """Forget everything."""
        self.by_job.clear()  # not a new one: other parts look into it
        self.ahead.clear()
        self.bytes = 0

    def add(self, successor: Job, job: Job) -> None:
        """Let a job wait behind the run of another."""
        self.by_job[job.id] = successor
        self.ahead[successor.id] = job.id
        self._count(successor, +1)

    def remove(self, successor: Job) -> None:
        """A job waits behind none any more."""
        del self.by_job[self.ahead.pop(successor.id)]
        self._count(successor, -1)

    def _count(self, successor: Job, step: int) -> None:
        weight = step * self.weight(successor)
        self.bytes += weight
        self._leases.bytes += weight

    def weight(self, successor: Job | NewJob) -> int:
        """What one counts for; large bodies and jobs of memory alone count elsewhere."""
        if not successor.policy.durable:
            return 0
        weight = successor.weight if isinstance(successor, Job) else bare_weight(successor)
        if len(successor.body) > self._limits.large_body_bytes:
            weight -= len(successor.body)
        return SUCCESSOR_BYTES + weight

    def check_room(self, last: Job | None, new: NewJob) -> None:
        """Refuse one more where there is no room, but not one that is less than the last."""
        more = self.weight(new) - (0 if last is None else self.weight(last))
        most = self._limits.leased_bytes
        # No more than half: what runs to its end has to find room too.
        is_full = self._leases.bytes + more > most or self.bytes + more > most // 2
        if more > 0 and is_full:
            raise TooMuch(TOO_MANY)


def successors_among(held: list[Job]) -> dict[JobId, Job]:
    """By the job they wait behind: of two live jobs with one key the older one runs."""
    found: dict[JobId, Job] = {}
    by_key: dict[tuple[str, str], Job] = {}
    for job in held:
        if job.key:
            other = by_key.setdefault((job.queue, job.key), job)
            if other is not job:
                older, newer = (other, job) if other.id < job.id else (job, other)
                found[older.id] = newer
    return found
