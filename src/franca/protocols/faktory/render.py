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
from franca.protocols.bodies import JSON_JOB, as_json_args
from franca.protocols.faktory.job import ORIGIN, failures_told, read_told
from franca.protocols.faktory.lenient import Unreadable
from franca.protocols.faktory.messages import Failure, ToldFailure, WireJob
from franca.protocols.faktory.text import LARGE_BYTES
from franca.protocols.faktory.times import Stamps
from franca.protocols.faktory.wire import bulk

_UNCLEAN: Final = ("expired", "lost")
_FAILED: Final = ("failed", *_UNCLEAN)
_HEAD_BYTES: Final = len('{"enqueued_at":"2026-11-15T19:23:23.341Z",')


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
            self._head = b'{"enqueued_at":"%b",' % self._time(at).encode()
            self._head_at = at
        body = job.body
        if job.story is None and job.media == JSON_JOB and not job.extra:
            size = len(body) + _HEAD_BYTES - 1
            if size > LARGE_BYTES:
                # In one copy, and not in two.
                return b"".join((b"$%d\r\n" % size, self._head, memoryview(body)[1:], b"\r\n"))
            return b"$%d\r\n%b%b\r\n" % (size, self._head, body[1:])
        if job.media != JSON_JOB:
            body = self._encode(self._stranger(job))
        failure = self.failure(job)
        if failure:
            return bulk(b'%b"failure":%b,%b' % (self._head, failure, body[1:]))
        return bulk(self._head + body[1:])

    def stored(self, job: Job) -> bytes:
        """The job as the original would keep it, for those who match patterns against that."""
        is_ours = job.media == JSON_JOB and job.body
        unit = self._decode(job.body) if is_ours else self._stranger(job)
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
        """A job of another protocol, or one whose body is not in memory, as a work unit."""
        is_empty = job.media == JSON_JOB and not job.body
        args = b"[]" if is_empty else as_json_args(job.media, job.body)
        return WireJob(
            retry=job.policy.failures,
            jid=job.name,
            queue=job.queue,
            jobtype=job.kind,
            created_at=self._time(job.created_at),
            args=Raw(_on_one_line(args)),
            reserve_for=(job.policy.lease_ms or self._broker.limits.lease_ms) // 1000,
        )


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
    """Some clients find the end of a reply by its line ends: there may be none inside."""
    if b"\n" not in args and b"\r" not in args:
        return args
    return msgspec.json.format(args, indent=-1)
