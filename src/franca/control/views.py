"""Jobs, queues and workers as operators see them: plain values with stable names."""

from __future__ import annotations

import base64
import datetime

import msgspec
from msgspec import Raw
from msgspec.structs import asdict

from franca.control.port import LARGE_BYTES
from franca.core.model import Attempt, Job, Millis, State
from franca.core.queues import Queue
from franca.protocols.bodies import is_utf8
from franca.protocols.service import WorkerView

View = dict[str, object]
_QUEUE_COUNTS = ("paused", "ready", "leased", "scheduled", "retrying", "dead")
_WORKER_MOMENTS = ("started_at", "seen_at", "fetched_at")
_LEAVING = {"faktory": "terminate", "eventmq": "leaving"}
STATES = {state.name.lower(): state for state in State}


def moment(at: Millis) -> str | None:
    """A moment as RFC 3339 in UTC, or None if there is none."""
    if not at:
        return None
    try:
        when = datetime.datetime.fromtimestamp(at // 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(at)  # beyond the year 9999: a peer may ask for that
    return f"{when:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def summary(job: Job) -> View:
    """One line of a list."""
    last = job.attempt_log[-1] if job.attempt_log else None
    return {
        "id": job.id,
        "name": job.name,
        "queue": job.queue,
        "type": job.kind,
        "state": job.state.name.lower(),
        "attempts": job.attempts,
        "failures": job.failures,
        "created_at": moment(job.created_at),
        "run_at": moment(job.run_at) if job.state is State.WAITING else None,
        "started_at": moment(job.started_at),
        "ended_at": moment(job.ended_at),
        "error": f"{last.error_kind}: {last.error_text}" if last and last.error_kind else None,
    }


def whole(job: Job) -> View:
    """Everything that is known of a job."""
    policy = job.policy
    return summary(job) | {
        "origin": job.origin,
        "priority": job.priority,
        "key": job.key,
        "losses": job.losses,
        "retries": policy.max_failures,
        "durable": policy.durable,
        "ready_at": moment(job.ready_at),
        "holder": job.holder,
        "lease_until": moment(job.until) if job.state is State.LEASED else None,
        "failed_at": moment(job.failed_at),
        "media": job.media,
        "body": content(job.body),
        "progress": content(job.progress.said) if job.progress else None,
        "result": content(job.result),
        "story": [_attempt(attempt) for attempt in job.attempt_log or ()],
    }


def _attempt(attempt: Attempt) -> View:
    return {
        "holder": attempt.holder,
        "started_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "how": attempt.outcome,
        "error": attempt.error_kind,
        "text": attempt.error_text,
        "trace": attempt.trace,
    }


def content(data: bytes) -> object:
    """Bytes in the most readable form that is true: JSON as it is, else text, else base64."""
    if not data:
        return None
    if not is_utf8(data):
        return {"base64": base64.b64encode(data).decode()}
    try:
        if len(data) > LARGE_BYTES and b"\n" not in data and b"\r" not in data:
            msgspec.json.decode(data, type=Raw)
            return Raw(data)
        # Only white space is taken out: numbers and the order of keys stay as they were sent.
        return Raw(msgspec.json.format(data, indent=-1))
    except (msgspec.DecodeError, RecursionError):
        return data.decode()


def queue_view(queue: Queue, now: Millis) -> View:
    """A queue's counts. `oldest_ms` is for how long its next job has been ready."""
    first = queue.first()
    counts = {name: getattr(queue, name) for name in _QUEUE_COUNTS}
    oldest_ms = max(0, now - first.ready_at) if first else None
    return {"queue": queue.name, **counts, "oldest_ms": oldest_ms}


def worker_view(worker: WorkerView) -> View:
    """A worker, whatever its protocol. Its state is in the words of earlier versions."""
    moments = {name: moment(getattr(worker, name)) for name in _WORKER_MOMENTS}
    runs = [asdict(run) | {"started_at": moment(run.started_at)} for run in worker.running]
    leaving = _LEAVING.get(worker.protocol, "quiet")
    state = {"stopping": leaving, "quiet": "quiet"}.get(worker.state, "running")
    return asdict(worker) | moments | {"state": state, "running": runs}
