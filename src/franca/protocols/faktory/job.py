"""Work units on their way in: checked in the original's order, told in its words, kept as JSON.

What is kept as a job's body is the producer's job, compact, its arguments as they were written:
with `retry`, `created_at` and `reserve_for`, without what only a delivery knows (`render.py`).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, cast
from zlib import adler32, crc32

import msgspec
from msgspec import UNSET, Raw

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import NEVER, Backoff, Millis, NewJob, Policy
from franca.protocols.bodies import JSON_JOB
from franca.protocols.faktory.lenient import BAD_JSON, Reader, Unreadable
from franca.protocols.faktory.messages import LargeJob, ToldFailure, WireJob
from franca.protocols.faktory.scan import DIGITS_MAX, Unfit, check, may_be_unfit
from franca.protocols.faktory.text import (
    LARGE_BYTES,
    QUICK_BYTES,
    Steps,
    as_utf8,
    finished,
    mended,
    without_lone_surrogates,
)
from franca.protocols.faktory.times import TIME_CHARS_MAX, Stamps, parse_rfc3339

ORIGIN: Final = "faktory"
RETRY_DEFAULT: Final = 25
RESERVE_S_DEFAULT: Final = 1800
RESERVE_S_MIN: Final = 60
RESERVE_S_MAX: Final = 86_400
JID_BYTES_MIN: Final = 8
TOLD_FAILURES_MAX: Final = 1_000_000
FAILURE_BYTES_MAX: Final = 64 * 1024
QUOTED_CHARS_MAX: Final = 40
"""As much as a reason repeats of what was said: there may be a reason for each of many jobs."""
_POLICIES_MAX: Final = 1_000
_SAYS_NOTHING: Final = (RETRY_DEFAULT, RESERVE_S_DEFAULT, None, None, None)
_QUEUE_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_LOW_HALF: Final = 2**32 - 1
_NULL: Final = b"null"
_NOTHING: Final = b"{}"
_BRACKET: Final = ord("[")
_BRACE: Final = ord("{")
_LOWER_E: Final = ord("e")
_UPPER_E: Final = ord("E")
_SPACE: Final = ord(" ")
_TAB: Final = ord("\t")
_CR: Final = ord("\r")

Work = Generator[None, Millis, bytes | None]
"""A command that takes several turns: it is sent the time of each, and ends with the answer, or
with None if the answer comes later still."""

read_told: Final = Reader(ToldFailure).read


class TakesLong(Refused):
    """What was asked for takes more than this turn, and has not begun."""

    code = "takes-long"


class Intake:
    """Takes in pushed jobs. Keeps nothing but the policies that they share.

    `refusal_bytes` is what those who push many have yet to be told of jobs that were not taken.
    """

    def __init__(self, broker: Broker) -> None:
        limits = broker.limits
        self.refusal_bytes = 0
        self._broker = broker
        self._stamps = Stamps()
        self._now = NEVER
        self._now_text = ""
        self._args_depth_max = limits.nesting_max - 1
        self._name_max = limits.name_bytes_max
        self._name_chars = limits.name_bytes_max // 4
        self._body_max = limits.body_bytes_max
        missing = {"jid": Raw(b'""'), "jobtype": Raw(b'""'), "args": Raw(_NULL)}
        self._reader = Reader(WireJob, missing)
        self._decode = self._reader.strict
        self._decode_large = msgspec.json.Decoder(LargeJob).decode
        self._encode = msgspec.json.Encoder().encode
        self._policies: dict[tuple[int, int], Policy] = {}
        self._usual = self._policy(RETRY_DEFAULT, RESERVE_S_DEFAULT)

    # -- jobs as they come -------------------------------------------------------------------

    def push(self, text: bytes, now: Millis) -> None:
        """Take in one job. `Unreadable` or another `Refused`, and nothing happened.

        `TakesLong` if all of its text must be looked at closely: then it is for `push_closely`.
        """
        try:
            if not text.isascii():
                text.decode()
            job = self._decode(text)
        except BAD_JSON:
            if len(text) > QUICK_BYTES:
                raise TakesLong("its text must be looked at closely") from None
            job = self._reader.read_leniently(text)
        self.take(job, now)

    def push_closely(self, text: bytes, reply: bytes) -> Work:
        """The same for one that is not large but must be looked at closely."""
        yield
        yield
        text = yield from mended(text)
        now = yield
        self.take(self._reader.read(text), now)
        return reply

    def push_large(self, text: bytes, reply: bytes) -> Work:
        """The same for one that takes several turns; ends with the reply."""
        yield
        yield  # to bring together a large line took long enough
        text = yield from as_utf8(text)
        try:
            job = self._decode(text)
        except BAD_JSON:
            text = yield from without_lone_surrogates(text)
            job = self._read_large(text)
        del text
        yield from self.check_large(job)
        now = yield
        self.take(job, now, checked=True)
        return reply

    def read(self, text: Raw) -> WireJob:
        """One of many jobs, or `Unreadable`."""
        view = memoryview(text)
        return self._read_large(view) if len(view) > LARGE_BYTES else self._reader.read(bytes(text))

    def _read_large(self, text: bytes | memoryview) -> WireJob:
        """A job so large that its members must be written as the document writes them."""
        try:
            found = self._decode_large(text)
        except RecursionError:
            raise Unreadable("nested too deep") from None
        except BAD_JSON as error:
            raise Unreadable(str(error)) from None
        return WireJob(**msgspec.structs.asdict(found))

    def check_large(self, job: WireJob) -> Steps[None]:
        """Look through what a job brings, as `take` does, but in steps. Nothing is compacted.

        First at what must be short: of that, no more than is allowed is ever looked at.
        """
        self._check(job)
        if job.at is not None:
            _run_at(job)
        self._check_length(job.queue or "")
        _check_times(job)
        _check_failure(job)
        for part in (job.args, job.custom, job.failure):
            if isinstance(part, Raw):
                yield from check(memoryview(part), self._args_depth_max)

    def take(self, job: WireJob, now: Millis, *, checked: bool = False) -> None:
        """Take in a job that was read. Of a large one, which is `checked`, a view is as good."""
        args = cast(bytes, memoryview(job.args)) if checked else bytes(job.args)
        jid, kind = job.jid, job.jobtype
        is_plain = job.custom is UNSET and job.failure is UNSET
        extra = b"" if is_plain else self._set_apart(job, checked)
        most = self._name_chars
        if (
            args[0] != _BRACKET
            or not JID_BYTES_MIN <= len(jid) <= most
            or not 0 < len(kind) <= most
            or "\0" in jid
            or "\0" in kind
        ):
            self._check(job)
        if job.retry is None and job.reserve_for is None:
            job.retry = RETRY_DEFAULT
            job.reserve_for = RESERVE_S_DEFAULT
            policy = self._usual
        else:
            policy = self._policy_of(job)
            is_plain = False
        run_at = NEVER if job.at is None else _run_at(job)
        queue = job.queue = job.queue or "default"
        line = self._broker.queues.get(queue)
        if line is None or not line.listed:
            self._check_queue(queue)
        if not checked:
            if len(args) > DIGITS_MAX or _LOWER_E in args or _UPPER_E in args:
                self._check_fit(args)
            if _SPACE in args or _CR in args or _TAB in args:
                args = _compact(args)
                job.args = Raw(args)
        digest = crc32(args) | adler32(args) << 32
        if job.created_at or job.enqueued_at or job.backtrace or run_at or not is_plain:
            digest = self._digest(job, extra, digest)
        if not job.created_at:
            job.created_at = self._now_text if now == self._now else self._stamp(now)
        job.enqueued_at = None
        job.backtrace = job.backtrace or None
        job.priority = UNSET
        body = self._encode(job)
        if len(body) > self._body_max:
            raise Unfit(f"jobs cannot be larger than {self._body_max} bytes")
        new = NewJob(queue, kind, body, policy, jid, JSON_JOB, ORIGIN, digest=digest, once=True)
        new.run_at = run_at
        if extra:
            new.extra = extra
            new.failures = failures_told(read_told(extra))
        self._broker.submit(new, now)

    def _digest(self, job: WireJob, extra: bytes, digest: int) -> int:
        """For what few jobs say: a push that differs in any of it is not the same, said again."""
        _check_times(job)
        said = (job.retry, job.reserve_for, job.at, job.created_at or None, job.backtrace or None)
        custom = memoryview(b"" if job.custom is UNSET else job.custom)
        if said == _SAYS_NOTHING and not custom and not extra:
            return digest
        low, high = digest & _LOW_HALF, digest >> 32
        # Not joined: it may be long.
        for piece in (self._encode(said), b"\n", custom, b"\n", extra):
            low, high = crc32(piece, low), adler32(piece, high)
        return low | high << 32

    def _stamp(self, now: Millis) -> str:
        self._now = now
        self._now_text = self._stamps.text(self._broker.wall(now))
        return self._now_text

    # -- checks, in the original's order ------------------------------------------------------

    def _check(self, job: WireJob) -> None:
        """Look closely at a job that the quick look did not pass."""
        check_shape(job)
        most = self._name_max
        jid, kind = job.jid[: most + 1].encode(), job.jobtype[: most + 1].encode()
        if len(jid) < JID_BYTES_MIN:
            raise Unfit("jobs must have a reasonable jid parameter")
        if not kind:
            raise Unfit("jobs must have a jobtype parameter")
        if _is_null(job.args):
            raise Unfit("jobs must have an args parameter")
        if len(jid) > most or len(kind) > most:
            raise Unfit(f"jid and jobtype cannot be longer than {most} bytes")
        if b"\0" in jid or b"\0" in kind:
            raise Unfit("jid and jobtype cannot contain NUL")

    def _check_queue(self, name: str) -> None:
        """A new queue's name; those that exist were checked by whoever made them."""
        self._check_length(name)
        if not _QUEUE_NAME.fullmatch(name):
            raise Unfit(
                f"cannot get {_quoted(name)} queue: queue names must match \\A[a-zA-Z0-9._-]+\\z"
            )

    def _check_length(self, name: str) -> None:
        if len(name) > self._name_max:
            raise Unfit(f"queue names cannot be longer than {self._name_max} bytes")

    def _set_apart(self, job: WireJob, checked: bool) -> bytes:
        """Tidy the two objects that few jobs have; returns the failure, which is no part of it."""
        check_shape(job)
        if isinstance(job.custom, Raw):
            if not checked:
                job.custom = Raw(self._tidied(bytes(job.custom)))
            if _is_null(job.custom) or bytes(memoryview(job.custom)[:3]) == _NOTHING:
                job.custom = UNSET
        if not isinstance(job.failure, Raw):
            return b""
        _check_failure(job)
        failure = bytes(job.failure)
        job.failure = UNSET
        return b"" if failure == _NULL else self._tidied(failure)

    def _tidied(self, text: bytes) -> bytes:
        self._check_fit(text)
        return _compact(text)

    def _check_fit(self, text: bytes) -> None:
        """`Refused` if nobody should be given this JSON."""
        if may_be_unfit(text, self._args_depth_max):
            finished(check(text, self._args_depth_max))

    # -- policies -----------------------------------------------------------------------------

    def _policy_of(self, job: WireJob) -> Policy:
        if job.retry is None:
            job.retry = RETRY_DEFAULT
        if not job.reserve_for:
            job.reserve_for = RESERVE_S_DEFAULT
        if job.reserve_for > RESERVE_S_MAX:
            raise Unfit("jobs cannot be reserved for more than one day")
        return self._policy(job.retry, job.reserve_for)

    def _policy(self, retry: int, reserve_s: int) -> Policy:
        """`retry` 0 lets a failed job vanish, below 0 it goes straight to the dead set."""
        key = (retry, reserve_s)
        policy = self._policies.get(key)
        if policy is None:
            policy = Policy(
                failures=max(retry, 0),
                losses=-1,
                loss_is_failure=True,
                bury=retry != 0,
                backoff=Backoff.POWER,
                lease_ms=1000 * max(reserve_s, RESERVE_S_MIN),
            )
            if len(self._policies) >= _POLICIES_MAX:
                self._policies.clear()
            self._policies[key] = policy
        return policy


def check_shape(job: WireJob) -> None:
    """What the original's decoder would not decode."""
    if memoryview(job.args)[0] != _BRACKET and not _is_null(job.args):
        raise Unreadable("args must be an array")
    for name, value in (("custom", job.custom), ("failure", job.failure)):
        if isinstance(value, Raw) and memoryview(value)[0] != _BRACE and not _is_null(value):
            raise Unreadable(f"{name} must be an object")


def size_of(job: WireJob) -> int:
    """How long that of a job is which may be long."""
    size = memoryview(job.args).nbytes
    if job.custom is UNSET and job.failure is UNSET:
        return size
    return size + sum(
        memoryview(part).nbytes for part in (job.custom, job.failure) if isinstance(part, Raw)
    )


def _check_failure(job: WireJob) -> None:
    if isinstance(job.failure, Raw) and memoryview(job.failure).nbytes > FAILURE_BYTES_MAX:
        raise Unfit(f"a failure cannot be larger than {FAILURE_BYTES_MAX} bytes")


def _check_times(job: WireJob) -> None:
    """A moment that nobody reads may be any text, but not a long one."""
    if len(job.created_at or "") > TIME_CHARS_MAX or len(job.enqueued_at or "") > TIME_CHARS_MAX:
        raise Unfit(f"created_at and enqueued_at cannot be longer than {TIME_CHARS_MAX} characters")


def _is_null(value: Raw) -> bool:
    return bytes(memoryview(value)[:5]) == _NULL


def failures_told(told: ToldFailure) -> int:
    """How often a job has failed elsewhere: its count begins at 0 with the first failure."""
    return min(max(told.retry_count + 1, 0), TOLD_FAILURES_MAX)


def _run_at(job: WireJob) -> Millis:
    """When a job wants to run; a moment in the past is kept, so that saying it again is known."""
    if not job.at:
        job.at = None
        return NEVER
    moment = parse_rfc3339(job.at)
    if moment is None:
        text = _quoted(job.at)
        raise Unfit(f"invalid timestamp for 'at': {text}: parsing time {text} as RFC3339")
    return max(moment, NEVER + 1)


def _compact(text: bytes) -> bytes:
    """The same JSON without the spaces between its parts; numbers and keys stay as they are."""
    return msgspec.json.format(text, indent=-1)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text[:QUOTED_CHARS_MAX]).decode()
