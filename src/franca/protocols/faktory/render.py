"""Jobs on their way out: the body with what a delivery adds to it, in front.

A worker is told when the job was queued last and what its last failure was; the body itself is
forwarded as it lies. Jobs of other protocols are shown as work units too.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from franca.core.broker import Broker
from franca.core.model import Attempt, Job, Millis
from franca.protocols.bodies import JSON_JOB, json_args
from franca.protocols.faktory.job import ORIGIN, failures_told, read_told
from franca.protocols.faktory.lenient import Unreadable
from franca.protocols.faktory.messages import Failure, ToldFailure, WireJob
from franca.protocols.faktory.times import Stamps

_UNCLEAN: Final = ("expired", "lost")
_FAILED: Final = ("failed", *_UNCLEAN)
_HEAD_BYTES: Final = len('{"enqueued_at":"2026-11-15T19:23:23.341Z",')
_PLACE: Final = b"\0"
"""Where arguments will stand; nothing else that is written as JSON has such a byte."""
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


class Renderer:
    """Writes jobs down for workers and for those who search."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stamps = Stamps()
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(WireJob).decode
        self._head = b""
        self._head_at = -1

    def reply(self, job: Job) -> bytes:
        """The answer to a FETCH that was given this job."""
        at = job.ready_at
        if at != self._head_at:
            self._set_head(at)
        if job.story is None and job.media == JSON_JOB and not job.extra:
            body = job.body
            return b"$%d\r\n%b%b\r\n" % (len(body) + _HEAD_BYTES - 1, self._head, body[1:])
        return b"".join(self._pieces(job))

    def long_reply(self, job: Job) -> list[bytes]:
        """The same for a long job, in pieces: to join them would be one copy more."""
        if job.ready_at != self._head_at:
            self._set_head(job.ready_at)
        return self._pieces(job)

    def _set_head(self, at: Millis) -> None:
        self._head = b'{"enqueued_at":"%b",' % self._time(at).encode()
        self._head_at = at

    def _pieces(self, job: Job) -> list[bytes]:
        pieces = [self._head]
        failure = self.failure(job)
        if failure:
            pieces += (b'"failure":', failure, b",")
        if job.media == JSON_JOB:
            pieces.append(job.body[1:])
        else:
            before, _, behind = self._encode(self._stranger(job)).partition(_PLACE)
            pieces += (before[1:], *_args_of(job), behind)
        return [b"$%d\r\n" % sum(map(len, pieces)), *pieces, b"\r\n"]

    def stored(self, job: Job) -> bytes:
        """The job as the original would keep it, for those who match patterns against that."""
        is_ours = job.media == JSON_JOB and job.body
        if is_ours:
            unit = self._decode(job.body)
        else:
            unit = self._stranger(job)
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
        the dead set at once has -1. What the producer told of failures elsewhere goes on.
        """
        extra = job.extra if job.origin == ORIGIN else b""
        last = _last_failure(job)
        if last is None:
            return extra
        policy = job.policy
        count = max(job.failures - 1, 0)
        dies_at_once = policy.failures == 0 and policy.bury
        failed_at = self._time(job.failed_at or last.ended_at)
        remaining = -1 if dies_at_once else max(policy.failures - count, 0)
        if extra:
            told = _told(extra)
            failed_at = told.failed_at or failed_at
            if told.remaining is not None:
                since = job.failures - failures_told(told)
                remaining = max(told.remaining - since, min(told.remaining, 0))
        expired = last.how in _UNCLEAN
        return self._encode(
            Failure(
                retry_count=count,
                remaining=remaining,
                failed_at=failed_at,
                next_at=self._stamps.text(job.run_at) if policy.failures else None,
                message="Faktory job reservation expired" if expired else last.error_text,
                errtype="ReservationExpired" if expired else last.error_kind,
                backtrace=last.trace or None,
            )
        )

    def _time(self, at: Millis) -> str:
        """What the clock on the wall showed at a moment that the server counted."""
        return self._stamps.text(self._broker.wall(at))

    def _stranger(self, job: Job) -> WireJob:
        """A job of another protocol, or one whose body is not in memory, as a work unit.

        Its arguments are only a place: they may be long.
        """
        return WireJob(
            retry=job.policy.failures,
            jid=job.name,
            queue=job.queue,
            jobtype=job.kind,
            created_at=self._time(job.created_at),
            args=Raw(_PLACE),
            reserve_for=(job.policy.lease_ms or self._broker.limits.lease_ms) // 1000,
        )


def _args_of(job: Job) -> list[bytes]:
    """The arguments of a job that is a stranger's, in pieces without line ends."""
    if job.media == JSON_JOB and not job.body:
        return [b"[]"]
    return [_on_one_line(piece) for piece in json_args(job.media, job.body)]


def _told(extra: bytes) -> ToldFailure:
    try:
        return read_told(extra)
    except Unreadable:
        return ToldFailure()  # kept by a server that did not look at it


def _last_failure(job: Job) -> Attempt | None:
    for attempt in reversed(job.story or ()):
        if attempt.how in _FAILED:
            return attempt
    return None


def _on_one_line(args: bytes) -> bytes:
    """Some clients find the end of a reply by its line ends: there may be none inside.

    Valid JSON has none inside of a string, so that a space may stand for each.
    """
    if b"\n" not in args and b"\r" not in args:
        return args
    return args.translate(_LINE_ENDS)
