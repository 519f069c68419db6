"""What jobs weigh: where memory is bounded by bytes, each counts for what it takes, roughly."""

from __future__ import annotations

from franca.core.model import Attempt, Job, NewJob

ATTEMPT_BYTES = 200
"""What an attempt takes in memory beside the text of its error and its trace."""


def weigh(job: Job) -> None:
    """Have `weight` say what a job's bytes and texts take in memory, roughly."""
    job.weight = bare_weight(job) + (attempt_log_bytes(job.attempt_log) if job.attempt_log else 0)


def bare_weight(job: Job | NewJob) -> int:
    """What a job weighs before it has an attempt log."""
    return len(job.body) + len(job.extra) + len(job.name) + len(job.kind) + len(job.key)


def attempt_log_bytes(attempt_log: list[Attempt]) -> int:
    """What the attempts of a job take in memory, roughly."""
    return sum(
        ATTEMPT_BYTES + len(run.error_text) + sum(map(len, run.trace)) for run in attempt_log
    )
