"""Why runs and jobs end, where nobody else says why, and what is remembered of a run."""

from __future__ import annotations

from franca.core.limits import Limits
from franca.core.model import Attempt, Failure, Job, Millis, Outcome
from franca.core.weights import attempt_log_bytes, bare_weight

NO_FAILURE = Failure()
REPLACED = Failure("Replaced", "replaced by a newer job")
RELEASED = Failure("Released", "its worker put it off")
UNWATCHED = Failure("Unwatched", "nobody waits for it")
NOT_STARTED = Failure("NotStarted", "no worker took it in time")

FAILURES = {
    Outcome.EXPIRED: Failure("LeaseExpired", "its lease expired before a worker reported back"),
    Outcome.LOST: Failure("WorkerLost", "its worker went away without a word"),
}
"""Of a lease that ended without a word from its holder."""


def note_attempt(job: Job, outcome: Outcome, failure: Failure, now: Millis, limits: Limits) -> int:
    """Remember a run with its job, which keeps the last few, the newest with its trace.

    Returns what all that are kept take in memory.
    """
    attempt_log = job.attempt_log
    if attempt_log is None:
        attempt_log = job.attempt_log = []
    elif attempt_log:
        attempt_log[-1].trace = []
        del attempt_log[: max(0, len(attempt_log) - limits.story_attempts + 1)]
    said = failure.kind, failure.text, failure.trace
    attempt_log.append(Attempt(job.holder, job.started_at, now, outcome, *said, job.by))
    while (size := attempt_log_bytes(attempt_log)) > limits.story_bytes and len(attempt_log) > 1:
        del attempt_log[0]
    job.weight = bare_weight(job) + size
    return size
