"""Jobs as `shapes.py` has them, made of what the core knows."""

from __future__ import annotations

import base64

from msgspec import UNSET
from msgspec.structs import asdict

from franca.control import shapes
from franca.control.arguments import beginning_of, has_envelope, whole_of
from franca.control.grouping import class_of
from franca.control.states import public_state
from franca.control.views import moment
from franca.core.model import (
    HISTORY_BODY_BYTES,
    HISTORY_RESULT_BYTES,
    Attempt,
    Job,
    State,
)
from franca.protocols.numbers import name_of

ARGS_CHARS = 120
ROW_BYTES = 1_024
"""Of a body, as much as a line of a list is made of."""
SHOWN_BYTES = 1024 * 1024
"""What is shown of a body or a result."""
ARGS_SHOWN_BYTES = 64 * 1024
"""And of what a schedule submits."""
CURRENT = {State.LEASED: "running", State.DONE: "done"}
"""States whose last run is not in the log of those that did not end their job."""
REMEMBERED = (State.DONE, State.CANCELLED)
"""States of which the history has less: no policy, and long bodies cut."""


def by_of(job: Job | Attempt) -> str:
    """The protocol of the worker that ran it last; empty where that is not known."""
    return name_of(job.by)


def last_error(job: Job) -> str | None:
    """Kind and text of the error of a job's last run."""
    last = job.attempt_log[-1] if job.attempt_log else None
    if last is None or not (last.error_kind or last.error_text):
        return None
    return ": ".join(filter(None, (last.error_kind, last.error_text)))


def progress_of(job: Job) -> shapes.Progress | None:
    """How far a run has come, whatever its protocol lets it say."""
    said = job.progress
    return None if said is None else shapes.Progress(said.n, said.of, said.text, moment(said.at))


def ran_ms(job: Job) -> int | None:
    """How long the last run of an ended job took."""
    if job.started_at and job.ended_at:
        return max(0, job.ended_at - job.started_at)
    return None


def row_of(job: Job) -> shapes.JobRow:
    """One line of a list."""
    return shapes.JobRow(
        id=job.id,
        name=job.name,
        queue=job.queue,
        type=job.kind,
        state=public_state(job),
        via=job.origin,
        by=by_of(job),
        attempts=job.attempts,
        failures=job.failures,
        losses=job.losses,
        retries=None if job.state in REMEMBERED else job.policy.max_failures,
        created_at=moment(job.created_at),
        run_at=moment(job.run_at) if job.state is State.WAITING else None,
        ready_at=moment(job.ready_at),
        started_at=moment(job.started_at),
        ended_at=moment(job.ended_at),
        ran_ms=ran_ms(job),
        worker=job.holder or None,
        progress=progress_of(job),
        error=last_error(job),
        args=_args(job),
    )


def _args(job: Job) -> str | None:
    args, _ = beginning_of(job.media, job.body[:ROW_BYTES])
    return args[: 4 * ARGS_CHARS].decode("utf-8", "replace")[:ARGS_CHARS] or None


def job_of(job: Job) -> shapes.Job:
    """Everything that is known of a job."""
    is_remembered = job.state in REMEMBERED
    body_max = HISTORY_BODY_BYTES if is_remembered else 0
    result_max = HISTORY_RESULT_BYTES if is_remembered else 0
    return shapes.Job(
        **asdict(row_of(job)),
        key=job.key,
        priority=job.priority,
        durable=job.policy.durable,
        lease_until=moment(job.until) if job.state is State.LEASED else None,
        failed_at=moment(job.failed_at),
        body=None if job.away else _arguments_of(job, body_max),
        envelope=(
            content_of(job.body, job.media, body_max)
            if has_envelope(job.media) and not job.away
            else None
        ),
        result=content_of(job.result, "bytes", result_max) if job.result else None,
        attempt_log=attempts_of(job),
        policy=None if is_remembered else policy_of(job),
        error_class=class_of(job),
    )


def _arguments_of(job: Job, most: int) -> shapes.Body:
    """What was submitted, without what its protocol puts around it."""
    media, data, is_whole = whole_of(job.media, job.body)
    if media == job.media:
        return content_of(data, media, most)
    # Arguments that end are all there, even if what was behind them is not remembered.
    return content_of(data, media, 0 if is_whole else len(data))


def policy_of(job: Job) -> shapes.JobPolicy:
    """What its submitter chose."""
    policy = job.policy
    return shapes.JobPolicy(
        max_failures=policy.max_failures,
        max_losses=policy.max_losses,
        lease_ms=policy.lease_ms,
        backoff=policy.backoff.name.lower(),
        bury=policy.bury,
        keep_dead=policy.keep_dead,
    )


def content_of(data: bytes, media: str, most: int = 0) -> shapes.Body:
    """Bytes as text if they are UTF-8, else as base64.

    One as long as the `most` that is remembered may have been longer.
    """
    shown = data[:SHOWN_BYTES]
    is_cut = len(shown) < len(data) or 0 < most <= len(data)
    text = base64_text = None
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        # A character may have been cut in two.
        if is_cut and error.start >= len(shown) - 3 and error.reason == "unexpected end of data":
            text = shown[: error.start].decode()
        else:
            base64_text = base64.b64encode(shown).decode()
    return shapes.Body(
        media=media,
        text=UNSET if text is None else text,
        base64=UNSET if base64_text is None else base64_text,
        bytes=len(data),
        cut=is_cut,
    )


def attempts_of(job: Job) -> list[shapes.Attempt]:
    """The runs of a job that are remembered, the newest last; one that goes on is one of them."""
    log = job.attempt_log or []
    current = CURRENT.get(job.state) if job.started_at else None
    first = max(1, job.attempts - len(log) - (current is not None) + 1)
    found = [_attempt(attempt, first + place) for place, attempt in enumerate(log)]
    if current is not None:
        found.append(
            shapes.Attempt(
                number=max(job.attempts, 1),
                worker=job.holder,
                by=by_of(job),
                started_at=moment(job.started_at),
                ended_at=moment(job.ended_at),
                outcome=current,
                error="",
                text="",
                trace=[],
            )
        )
    return found


def _attempt(attempt: Attempt, number: int) -> shapes.Attempt:
    return shapes.Attempt(
        number=number,
        worker=attempt.holder,
        by=by_of(attempt),
        started_at=moment(attempt.started_at),
        ended_at=moment(attempt.ended_at),
        outcome=str(attempt.outcome),
        error=attempt.error_kind,
        text=attempt.error_text,
        trace=attempt.trace,
    )
