"""Work units on their way in: checked in the original's order and words, kept as JSON.

What is kept as a job's body is the producer's job, compact, its arguments as they were written:
with `retry`, `created_at` and `reserve_for`, without what only a delivery knows (`render.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from zlib import adler32, crc32

import msgspec
from msgspec import UNSET, Raw

from franca.core.broker import Broker
from franca.core.model import NEVER, Backoff, Millis, NewJob, Policy
from franca.protocols.bodies import JSON_JOB
from franca.protocols.conversation import Task
from franca.protocols.faktory import go_json
from franca.protocols.faktory.go_json import BAD_JSON, LARGE_BYTES, Unfit, Unreadable
from franca.protocols.faktory.messages import EarlierFailure, LargeJob, WireJob
from franca.protocols.faktory.times import TIME_CHARS_MAX, Stamps, parse_rfc3339

ORIGIN: Final = "faktory"
RETRY_DEFAULT: Final = 25
RESERVE_S_DEFAULT: Final = 1800
RESERVE_S_MIN: Final = 60
RESERVE_S_MAX: Final = 86_400
JID_BYTES_MIN: Final = 8
EARLIER_FAILURES_MAX: Final = 1_000_000
FAILURE_BYTES_MAX: Final = 64 * 1024
QUOTED_CHARS_MAX: Final = 40
"""How much of a value a reason repeats: there may be a reason for each of many jobs."""
_POLICIES_MAX: Final = 1_000
_SAYS_NOTHING: Final = (RETRY_DEFAULT, RESERVE_S_DEFAULT, None, None, None)
_QUEUE_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_NULL: Final = b"null"
_BRACKET, _BRACE = b"[{"
# To look for a byte by its number takes a tenth of the time that it takes as `b"e" in args`.
_LOWER_E, _UPPER_E, _SPACE, _TAB, _CR = b"eE \t\r"

read_earlier_failure: Final = go_json.Reader(EarlierFailure).read


class Intake:
    """Takes in pushed jobs.

    `refusal_bytes` is the size of the answers to PUSHB that are not yet written.
    """

    def __init__(self, broker: Broker) -> None:
        limits = broker.limits
        self.refusal_bytes = 0
        self._broker = broker
        self._stamps = Stamps()
        self._now = NEVER
        self._now_text = ""
        self._args_depth_max = limits.nesting_max - 1
        # Shorter arguments cannot be nested too deep, nor have a number of too many digits.
        self._fit_bytes = min(go_json.DIGITS_MAX, 2 * self._args_depth_max)
        self._name_max = limits.name_bytes_max
        self._name_chars = limits.name_bytes_max // 4
        self._body_max = limits.body_bytes_max
        missing = {"jid": Raw(b'""'), "jobtype": Raw(b'""'), "args": Raw(_NULL)}
        self._reader = go_json.Reader(WireJob, missing)
        self._decode = self._reader.strict
        self._decode_large = msgspec.json.Decoder(LargeJob).decode
        self._encode = msgspec.json.Encoder().encode
        self._usual = self._policy_of(WireJob(jid="", jobtype="", args=Raw(_NULL)))

    # -- jobs as they come -------------------------------------------------------------------

    def push(self, text: bytes, now: Millis) -> bool:
        """Take in one job. `Unreadable` or another `Refused`, and nothing happened.

        False, and nothing happened, if all of its text must be looked at closely: then it is
        for `push_slowly`.
        """
        try:
            if not text.isascii():
                text.decode()
            job = self._decode(text)
        except BAD_JSON:
            if len(text) > go_json.QUICK_BYTES:
                return False
            job = self._reader.read_leniently(text)
        self.take(job, now)
        return True

    def push_slowly(self, text: bytes, reply: bytes) -> Task:
        """The same for a job that takes several turns; ends with the reply."""
        is_large = len(text) > LARGE_BYTES
        yield
        yield  # reading a large line took long enough
        text = yield from go_json.as_utf8(text)
        try:
            job = self._decode(text)
        except BAD_JSON:
            text = yield from go_json.without_lone_surrogates(text)
            job = self._read_large(text) if is_large else self._reader.read(text)
        if is_large:
            yield from self.check_large(job)
        now = yield
        self.take(job, now, checked=is_large)
        return reply

    def read(self, text: Raw) -> WireJob:
        """One of many jobs, or `Unreadable`."""
        view = memoryview(text)
        return self._read_large(view) if len(view) > LARGE_BYTES else self._reader.read(bytes(text))

    def _read_large(self, text: bytes | memoryview) -> WireJob:
        """A job so large that its members must be written as the document writes them."""
        try:
            return WireJob(**msgspec.structs.asdict(self._decode_large(text)))
        except BAD_JSON as error:
            raise go_json.unreadable(error) from None

    def check_large(self, job: WireJob) -> go_json.Steps[None]:
        """Check a job as `take` does, but in steps. Nothing is compacted.

        What must be short comes first: no more of it than is allowed is ever looked at.
        """
        self._check(job)
        if job.at is not None:
            _run_at(job)
        self._check_length(job.queue or "")
        _check_times(job)
        _check_failure(job)
        for part in (job.args, job.custom, job.failure):
            if isinstance(part, Raw):
                yield from go_json.check(memoryview(part), self._args_depth_max)

    def take(self, job: WireJob, now: Millis, *, checked: bool = False) -> None:
        """Take in a job that was read. A large one was `checked`, and is not copied."""
        args: bytes | memoryview = memoryview(job.args) if checked else bytes(job.args)
        jid, kind = job.jid, job.jobtype
        is_plain = job.custom is UNSET and job.failure is UNSET
        extra = b"" if is_plain else self._set_apart(job, checked)
        most = self._name_chars
        sizes_fit = JID_BYTES_MIN <= len(jid) <= most and 0 < len(kind) <= most
        if args[0] != _BRACKET or not sizes_fit or "\0" in jid or "\0" in kind:
            self._check(job)
        if job.retry is None and job.reserve_for is None:
            job.retry, job.reserve_for = RETRY_DEFAULT, RESERVE_S_DEFAULT
            policy = self._usual
        else:
            policy = self._policy_of(job)
            is_plain = False
        run_at = NEVER if job.at is None else _run_at(job)
        queue = job.queue = job.queue or "default"
        line = self._broker.queues.get(queue)
        if line is None or not line.listed:
            self._check_queue(queue)
        if isinstance(args, bytes):
            if len(args) > self._fit_bytes or _LOWER_E in args or _UPPER_E in args:
                self._check_fit(args)
            if _SPACE in args or _CR in args or _TAB in args:
                args = msgspec.json.format(args, indent=-1)
                job.args = Raw(args)
        digest = crc32(args) | adler32(args) << 32
        if job.created_at or job.enqueued_at or job.backtrace or run_at or not is_plain:
            digest = self._digest(job, extra, digest)
        if not job.created_at:
            job.created_at = self._now_text if now == self._now else self._stamp(now)
        odd = job.enqueued_at is not None or job.backtrace is not None
        if odd or job.priority is not UNSET:  # to set a member takes longer than to look at it
            job.enqueued_at, job.backtrace, job.priority = None, job.backtrace or None, UNSET
        body = self._encode(job)
        if len(body) > self._body_max:
            raise Unfit(f"jobs cannot be larger than {self._body_max} bytes")
        new = NewJob(queue, kind, body, policy, jid, JSON_JOB, ORIGIN, digest=digest, once=True)
        if run_at:
            new.run_at = run_at
        if extra:
            new.extra = extra
            new.failures = earlier_failures(read_earlier_failure(extra))
        self._broker.submit(new, now)

    def _digest(self, job: WireJob, extra: bytes, digest: int) -> int:
        """The digest with members that few jobs have: a push that differs in any is another."""
        _check_times(job)
        said = (job.retry, job.reserve_for, job.at, job.created_at or None, job.backtrace or None)
        custom = memoryview(b"" if job.custom is UNSET else job.custom)
        if said == _SAYS_NOTHING and not custom and not extra:
            return digest
        low, high = digest & 0xFFFFFFFF, digest >> 32
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
        """Find out what is wrong with a job that did not pass the quick check."""
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
            rule = "queue names must match \\A[a-zA-Z0-9._-]+\\z"
            raise Unfit(f"cannot get {_quoted(name)} queue: {rule}")

    def _check_length(self, name: str) -> None:
        if len(name) > self._name_max:
            raise Unfit(f"queue names cannot be longer than {self._name_max} bytes")

    def _set_apart(self, job: WireJob, checked: bool) -> bytes:
        """Compact the two objects that few jobs have; takes the failure out and returns it."""
        check_shape(job)
        if isinstance(job.custom, Raw):
            if not checked:
                job.custom = Raw(self._tidied(bytes(job.custom)))
            if _is_null(job.custom) or bytes(memoryview(job.custom)[:3]) == b"{}":
                job.custom = UNSET
        if not isinstance(job.failure, Raw):
            return b""
        _check_failure(job)
        failure = bytes(job.failure)
        job.failure = UNSET
        return b"" if failure == _NULL else self._tidied(failure)

    def _tidied(self, text: bytes) -> bytes:
        """The same JSON without the spaces between its parts; numbers and keys stay as they are."""
        self._check_fit(text)
        return msgspec.json.format(text, indent=-1)

    def _check_fit(self, text: bytes) -> None:
        """`Refused` if workers could not decode this JSON."""
        if go_json.may_be_unfit(text, self._args_depth_max):
            go_json.run_steps(go_json.check(text, self._args_depth_max))

    def _policy_of(self, job: WireJob) -> Policy:
        """With `retry` 0 a failed job is dropped, below 0 it goes to the dead set at once."""
        retry = job.retry = RETRY_DEFAULT if job.retry is None else job.retry
        reserve_s = job.reserve_for = job.reserve_for or RESERVE_S_DEFAULT
        if reserve_s > RESERVE_S_MAX:
            raise Unfit("jobs cannot be reserved for more than one day")
        return _policy(retry, reserve_s)


@lru_cache(_POLICIES_MAX)
def _policy(retry: int, reserve_s: int) -> Policy:
    """One for all jobs that say the same."""
    return Policy(
        max_failures=max(retry, 0),
        max_losses=-1,
        loss_is_failure=True,
        bury=retry != 0,
        backoff=Backoff.POWER,
        lease_ms=1000 * max(reserve_s, RESERVE_S_MIN),
    )


def check_shape(job: WireJob) -> None:
    """`Unreadable` for what the original's decoder would not decode."""
    if memoryview(job.args)[0] != _BRACKET and not _is_null(job.args):
        raise Unreadable("args must be an array")
    if job.custom is UNSET and job.failure is UNSET:
        return
    for name, value in (("custom", job.custom), ("failure", job.failure)):
        if isinstance(value, Raw) and memoryview(value)[0] != _BRACE and not _is_null(value):
            raise Unreadable(f"{name} must be an object")


def size_of(job: WireJob) -> int:
    """The size of those members of a job that may be long."""
    size = memoryview(job.args).nbytes
    if job.custom is UNSET and job.failure is UNSET:
        return size
    parts = (job.custom, job.failure)
    return size + sum(memoryview(part).nbytes for part in parts if isinstance(part, Raw))


def _check_failure(job: WireJob) -> None:
    if isinstance(job.failure, Raw) and memoryview(job.failure).nbytes > FAILURE_BYTES_MAX:
        raise Unfit(f"a failure cannot be larger than {FAILURE_BYTES_MAX} bytes")


def _check_times(job: WireJob) -> None:
    """Times that are not parsed may be any text, but not a long one."""
    if len(job.created_at or "") > TIME_CHARS_MAX or len(job.enqueued_at or "") > TIME_CHARS_MAX:
        raise Unfit(f"created_at and enqueued_at cannot be longer than {TIME_CHARS_MAX} characters")


def _is_null(value: Raw) -> bool:
    return bytes(memoryview(value)[:5]) == _NULL


def earlier_failures(failure: EarlierFailure) -> int:
    """How often a job has failed elsewhere: its count begins at 0 with the first failure."""
    return min(max(failure.retry_count + 1, 0), EARLIER_FAILURES_MAX)


def _run_at(job: WireJob) -> Millis:
    """When a job is to run; one in the past is kept, so that the same push is recognised."""
    if not job.at:
        job.at = None
        return NEVER
    moment = parse_rfc3339(job.at)
    if moment is None:
        text = _quoted(job.at)
        raise Unfit(f"invalid timestamp for 'at': {text}: parsing time {text} as RFC3339")
    return max(moment, NEVER + 1)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text[:QUOTED_CHARS_MAX]).decode()
