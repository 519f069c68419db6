"""Why runs and jobs end, where nobody else says why, and what is remembered of a run."""

from __future__ import annotations

from franca.core.limits import Limits
from franca.core.model import Attempt, Failure, Job, Millis, Outcome, bare_weight, story_bytes

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


def note_attempt(job: Job, how: Outcome, failure: Failure, now: Millis, limits: Limits) -> int:
    """Remember a run with its job, which keeps the last few, the newest with its trace.

    Returns what all that are kept take in memory.
    """
    story = job.story
    if story is None:
        story = job.story = []
    elif story:
        story[-1].trace = []
        del story[: max(0, len(story) - limits.story_attempts + 1)]
    story.append(
        Attempt(job.holder, job.started_at, now, how, failure.kind, failure.text, failure.trace)
    )
    while (size := story_bytes(story)) > limits.story_bytes and len(story) > 1:
        del story[0]
    job.weight = bare_weight(job) + size
    return size
