"""Jobs on their way out: the body with what a delivery adds to it, in front.

A worker is told when the job was queued last and what its last failure was; the body itself is
forwarded unchanged. Jobs of other protocols are shown as work units too.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from franca.core.broker import Broker
from franca.core.model import Job, Millis, Outcome
from franca.protocols.bodies import JSON_JOB, json_args
from franca.protocols.faktory.go_json import Unreadable
from franca.protocols.faktory.jobs import ORIGIN, earlier_failures, read_earlier_failure
from franca.protocols.faktory.messages import EarlierFailure, Failure, WireJob
from franca.protocols.faktory.times import Stamps

_UNCLEAN: Final = (Outcome.EXPIRED, Outcome.LOST)
_FAILED: Final = (Outcome.FAILED, *_UNCLEAN)
_HEAD_BYTES: Final = len('{"enqueued_at":"2026-11-15T19:23:23.341Z",')
_PLACE: Final = b"\0"
"""Where arguments will stand; nothing else that is written as JSON has such a byte."""
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


class Renderer:
    """Writes jobs for workers, and for patterns to be matched against."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stamps = Stamps()
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(WireJob).decode
        self._head = b""
        self._head_at = -1

    def reply(self, job: Job) -> bytes:
        """The answer to a FETCH that was given this job."""
        if job.attempt_log is None and job.media == JSON_JOB and not job.extra:
            if job.ready_at != self._head_at:
                self._set_head(job.ready_at)
            body = job.body
            return b"$%d\r\n%b%b\r\n" % (len(body) + _HEAD_BYTES - 1, self._head, body[1:])
        return b"".join(self.long_reply(job))

    def long_reply(self, job: Job) -> list[bytes]:
        """The same for a long job, in pieces: to join them would be one copy more."""
        self._set_head(job.ready_at)
        pieces = [self._head]
        failure = self.failure(job)
        if failure:
            pieces += (b'"failure":', failure, b",")
        if job.media == JSON_JOB:
            pieces.append(job.body[1:])
        else:
            before, _, behind = self._encode(self._foreign(job)).partition(_PLACE)
            pieces += (before[1:], *_args_of(job), behind)
        return [b"$%d\r\n" % sum(map(len, pieces)), *pieces, b"\r\n"]

    def _set_head(self, at: Millis) -> None:
        self._head = b'{"enqueued_at":"%b",' % self._time(at).encode()
        self._head_at = at

    def stored(self, job: Job) -> bytes:
        """The job as the original would keep it, for patterns to be matched against."""
        if job.media == JSON_JOB and job.body:
            unit = self._decode(job.body)
        else:
            unit = self._foreign(job)
            unit.args = Raw(b"".join(_args_of(job)))
        failure = self.failure(job)
        if failure:
            unit.failure = Raw(failure)
        if job.ready_at:
            unit.enqueued_at = self._time(job.ready_at)
        return self._encode(unit)

    def failure(self, job: Job) -> bytes:
        """The last failure of a job, or nothing if it never failed.

        `remaining` begins at `retry` with the first failure and ends at 0; a job that goes to
        the dead set at once has -1. Failures that the producer reported are counted on.
        """
        extra = job.extra if job.origin == ORIGIN else b""
        runs = reversed(job.attempt_log or ())
        last = next((run for run in runs if run.outcome in _FAILED), None)
        if last is None:
            return extra
        policy = job.policy
        count = max(job.failures - 1, 0)
        dies_at_once = policy.max_failures == 0 and policy.bury
        failed_at = self._time(job.failed_at or last.ended_at)
        remaining = -1 if dies_at_once else max(policy.max_failures - count, 0)
        if extra:
            earlier = _earlier_failure(extra)
            failed_at = earlier.failed_at or failed_at
            if earlier.remaining is not None:
                since = job.failures - earlier_failures(earlier)
                remaining = max(earlier.remaining - since, min(earlier.remaining, 0))
        expired = last.outcome in _UNCLEAN
        return self._encode(
            Failure(
                retry_count=count,
                remaining=remaining,
                failed_at=failed_at,
                next_at=self._stamps.text(job.run_at) if policy.max_failures else None,
                message="Faktory job reservation expired" if expired else last.error_text,
                errtype="ReservationExpired" if expired else last.error_kind,
                backtrace=last.trace or None,
            )
        )

    def _time(self, at: Millis) -> str:
        """The wall clock time at a moment of the server."""
        return self._stamps.text(self._broker.wall(at))

    def _foreign(self, job: Job) -> WireJob:
        """A job of another protocol, or one whose body is not in memory, as a work unit.

        A placeholder stands for its arguments: they may be long.
        """
        return WireJob(
            retry=job.policy.max_failures,
            jid=job.name,
            queue=job.queue,
            jobtype=job.kind,
            created_at=self._time(job.created_at),
            args=Raw(_PLACE),
            reserve_for=(job.policy.lease_ms or self._broker.limits.lease_ms) // 1000,
        )


def _args_of(job: Job) -> list[bytes]:
    """The arguments of a foreign job, in pieces without line ends.

    Some clients find the end of a reply by its line ends: there may be none inside. Valid JSON has
    none inside of a string, so that a space may stand for each.
    """
    if job.media == JSON_JOB and not job.body:
        return [b"[]"]
    pieces = json_args(job.media, job.body)
    return [p.translate(_LINE_ENDS) if b"\n" in p or b"\r" in p else p for p in pieces]


def _earlier_failure(extra: bytes) -> EarlierFailure:
    try:
        return read_earlier_failure(extra)
    except Unreadable:
        return EarlierFailure()  # kept by a server that did not look at it
