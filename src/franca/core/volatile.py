"""Jobs that only memory has, because somebody waits for them: what they may take of it."""

from __future__ import annotations

from franca.core.errors import TooMuch
from franca.core.limits import Limits
from franca.core.model import NEVER, Job, Millis
from franca.core.weights import bare_weight

JOB_BYTES = 1_024
"""What a job in memory costs besides its body, roughly."""
SMALL_BODY_BYTES = 16 * 1024
TOO_MANY_WAITED_FOR = "too many jobs are waited for; try again when some are done"


class VolatileJobs:
    """What these jobs take together, and when the last one came."""

    def __init__(self, limits: Limits) -> None:
        self.bytes = 0
        self.last_at: Millis = NEVER
        self._most = limits.fleeting_bytes

    def add(self, job: Job, now: Millis) -> None:
        """Take the room of a new job; `TooMuch` if there is none."""
        size = job.weight + JOB_BYTES + self.bytes
        if size > self._most and self.bytes:
            self._check_small(job, size)
        self.last_at = now
        self.bytes = size

    def _check_small(self, job: Job, size: int) -> None:
        """Take a small job also if there is a little too much: a large one may have come first."""
        if len(job.body) > SMALL_BODY_BYTES or size > self._most + self._most // 8:
            raise TooMuch(TOO_MANY_WAITED_FOR)

    def remove(self, job: Job) -> None:
        """A job is gone, or the store has it from now on."""
        weight = job.weight if job.attempt_log is None else bare_weight(job)
        self.bytes -= weight + JOB_BYTES
