"""Jobs on their way out: the body with what a delivery adds to it, in front.

A worker is told when the job was queued last and what its last failure was; the body itself is
forwarded as it lies. Jobs of other protocols are shown as work units too.
"""

from __future__ import annotations

import base64
from typing import Final

import msgspec
from msgspec import Raw

from franca.core.model import Attempt, Job
from franca.protocols.faktory.job import MEDIA, RESERVE_S_DEFAULT
from franca.protocols.faktory.messages import Failure, WireJob
from franca.protocols.faktory.times import Stamps
from franca.protocols.faktory.wire import bulk

_UNCLEAN: Final = ("expired", "lost")
_FAILED: Final = ("failed", *_UNCLEAN)
_HEAD_BYTES: Final = len('{"enqueued_at":"2026-11-15T19:23:23.341Z",')


class Renderer:
    """Writes jobs down for workers and for those who search."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(WireJob).decode
        self._head = b""
        self._head_at = -1

    def reply(self, job: Job) -> bytes:
        """The answer to a FETCH that was given this job."""
        at = job.ready_at
        if at != self._head_at:
            self._head = b'{"enqueued_at":"%b",' % self._stamps.text(at).encode()
            self._head_at = at
        body = job.body
        if job.story is None and job.media == MEDIA and not job.extra:
            return b"$%d\r\n%b%b\r\n" % (len(body) + _HEAD_BYTES - 1, self._head, body[1:])
        if job.media != MEDIA:
            body = self._encode(self._stranger(job))
        failure = self.failure(job)
        if failure:
            return bulk(b'%b"failure":%b,%b' % (self._head, failure, body[1:]))
        return bulk(self._head + body[1:])

    def stored(self, job: Job) -> bytes:
        """The job as the original would keep it, for those who match patterns against that."""
        unit = self._decode(job.body) if job.media == MEDIA else self._stranger(job)
        failure = self.failure(job)
        if failure:
            unit.failure = Raw(failure)
        if job.ready_at:
            unit.enqueued_at = self._stamps.text(job.ready_at)
        return self._encode(unit)

    def failure(self, job: Job) -> bytes:
        """The last failure of a job, or nothing if it never failed.

        `remaining` begins at `retry` with the first failure and ends at 0; a job that goes to
        the dead set at once has -1.
        """
        last = _last_failure(job)
        if last is None:
            return job.extra if job.origin == "faktory" else b""
        policy = job.policy
        count = max(job.failures - 1, 0)
        dies_at_once = policy.failures == 0 and policy.bury
        expired = last.how in _UNCLEAN
        return self._encode(
            Failure(
                retry_count=count,
                remaining=-1 if dies_at_once else max(policy.failures - count, 0),
                failed_at=self._stamps.text(job.failed_at or last.ended_at),
                next_at=self._stamps.text(job.run_at) if policy.failures else None,
                message="Faktory job reservation expired" if expired else last.error_text,
                errtype="ReservationExpired" if expired else last.error_kind,
                backtrace=last.trace or None,
            )
        )

    def _stranger(self, job: Job) -> WireJob:
        """A job of another protocol: its body is the only argument, unless it is a list."""
        return WireJob(
            retry=job.policy.failures,
            jid=job.name,
            queue=job.queue,
            jobtype=job.kind,
            created_at=self._stamps.text(job.created_at),
            args=Raw(self._as_arguments(job.body)),
            reserve_for=job.policy.lease_ms // 1000 or RESERVE_S_DEFAULT,
        )

    def _as_arguments(self, body: bytes) -> bytes:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return self._encode([{"base64": base64.b64encode(body).decode()}])
        try:
            compact = msgspec.json.format(body, indent=-1)
        except (msgspec.DecodeError, RecursionError):
            return self._encode([text])
        return compact if compact[:1] == b"[" else b"[%b]" % compact


def _last_failure(job: Job) -> Attempt | None:
    for attempt in reversed(job.story or ()):
        if attempt.how in _FAILED:
            return attempt
    return None
