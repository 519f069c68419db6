"""Work units on their way in: checked in the original's order, told in its words, kept as JSON.

What is kept as a job's body is the producer's job, compact, its arguments as they were written:
with `retry`, `created_at` and `reserve_for`, without what only a delivery knows (`render.py`).
"""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, field

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import NEVER, Backoff, Millis, NewJob, Policy
from franca.protocols.bodies import JSON_JOB
from franca.protocols.faktory.lenient import BAD_JSON, Reader, Unreadable, check_utf8, is_deeper
from franca.protocols.faktory.messages import WireJob
from franca.protocols.faktory.times import Stamps, parse_rfc3339

ORIGIN: Final = "faktory"
RETRY_DEFAULT: Final = 25
RESERVE_S_DEFAULT: Final = 1800
RESERVE_S_MIN: Final = 60
RESERVE_S_MAX: Final = 86_400
JID_BYTES_MIN: Final = 8
BULK_JOBS: Final = 500
"""Jobs of one PUSHB taken in during one turn: more would hold up everybody else's."""
_POLICIES_MAX: Final = 1_000
_QUEUE_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_NULL: Final = b"null"
_BRACKET: Final = ord("[")
_BRACE: Final = ord("{")
_SPACE: Final = ord(" ")
_TAB: Final = ord("\t")
_CR: Final = ord("\r")


class Unfit(Refused):
    """The text is a job, but not one that may be taken."""

    code = "unfit"


CROWD_BYTES = 64 * 1024
JOB_BYTES_MIN = 32
"""A job with everything it must have is longer than this. Many shorter things are no jobs, and in
memory they would take a hundred times the room that they take on the wire."""
_EMPTY = b"{},"
_NO_JOBS = "most of these are too short to be jobs"


class _Anything(Struct, gc=False):
    """Any JSON object, at the price of an empty one: for counting them."""


class Bulk(Struct):
    """Jobs that came at once: how many were looked at, and why, by jid, which were refused."""

    jobs: list[WireJob]
    taken: int = 0
    refused: dict[str, str] = field(default_factory=dict)


class Intake:
    """Takes in pushed jobs. Keeps nothing but the policies that they share."""

    def __init__(self, broker: Broker) -> None:
        limits = broker.limits
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
        self._decode_all = msgspec.json.Decoder(list[WireJob]).decode
        self._decode_shapes = msgspec.json.Decoder(list[_Anything] | None).decode
        self._decode_each = msgspec.json.Decoder(list[Raw] | None).decode
        self._encode = msgspec.json.Encoder().encode
        self._policies: dict[tuple[int, int], Policy] = {}
        self._usual = self._policy(RETRY_DEFAULT, RESERVE_S_DEFAULT)

    def push(self, text: bytes, now: Millis) -> None:
        """Take in one job. `Unreadable` or another `Refused`, and nothing happened."""
        if not text.isascii():
            check_utf8(text)
        try:
            job = self._decode(text)
        except BAD_JSON:
            job = self._reader.read_leniently(text)
        self._submit(job, now)

    def read_many(self, text: bytes) -> Bulk:
        """Many jobs that are to be taken in. `Unreadable` if any has not even a job's shape."""
        check_utf8(text)
        if len(text) > CROWD_BYTES and text.count(_EMPTY) * 2 * len(_EMPTY) > len(text):
            raise Unreadable(_NO_JOBS)
        try:
            jobs = self._decode_all(text)
        except BAD_JSON:
            jobs = self._read_each(text)
        for job in jobs:
            unusual = job.custom is not UNSET or job.failure is not UNSET
            if unusual or bytes(job.args)[0] != _BRACKET:
                _check_shape(job)
        return Bulk(jobs)

    def push_some(self, bulk: Bulk, now: Millis) -> bool:
        """Take in a turn's share of many jobs; True when there are no more."""
        taken = bulk.taken
        bulk.taken += BULK_JOBS
        for job in bulk.jobs[taken : bulk.taken]:
            try:
                self._submit(job, now)
            except Refused as refusal:
                bulk.refused[job.jid] = refusal.text
        return bulk.taken >= len(bulk.jobs)

    def _read_each(self, text: bytes) -> list[WireJob]:
        try:
            # What is no object ends a crowd here, before anything is kept of the rest.
            crowd = self._decode_shapes(text) if len(text) > CROWD_BYTES else None
            if crowd and len(crowd) * JOB_BYTES_MIN > len(text):
                raise Unreadable(_NO_JOBS)
            del crowd
            texts = self._decode_each(text) or []
        except RecursionError:
            raise Unreadable("nested too deep") from None
        except BAD_JSON as error:
            raise Unreadable(str(error)) from None
        return [self._reader.read(bytes(each)) for each in texts]

    def _submit(self, job: WireJob, now: Millis) -> None:
        args = bytes(job.args)
        jid = job.jid
        kind = job.jobtype
        is_plain = job.custom is UNSET and job.failure is UNSET
        extra = b"" if is_plain else self._set_apart(job)
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
        run_at = NEVER if job.at is None else _run_at(job)
        queue = job.queue
        if not queue:
            queue = job.queue = "default"
        line = self._broker.queues.get(queue)
        if line is None or not line.listed:
            self._check_queue(queue)
        if len(args) > 2 * self._args_depth_max:
            self._check_depth(args)
        if _SPACE in args or _CR in args or _TAB in args:
            args = _compact(args)
            job.args = Raw(args)
        if not job.created_at:
            job.created_at = self._now_text if now == self._now else self._stamp(now)
        job.enqueued_at = None
        if not job.backtrace:
            job.backtrace = None
        job.priority = UNSET
        body = self._encode(job)
        if len(body) > self._body_max:
            raise Unfit(f"jobs cannot be larger than {self._body_max} bytes")
        new = NewJob(
            queue, kind, body, policy, jid, JSON_JOB, ORIGIN, digest=crc32(args), once=True
        )
        if extra:
            new.extra = extra
        if run_at:
            new.run_at = run_at
        self._broker.submit(new, now)

    def _stamp(self, now: Millis) -> str:
        self._now = now
        self._now_text = self._stamps.text(self._broker.wall(now))
        return self._now_text

    # -- checks, in the original's order ------------------------------------------------------

    def _check(self, job: WireJob) -> None:
        """Look closely at a job that the quick look did not pass."""
        _check_shape(job)
        most = self._name_max
        jid, kind = job.jid.encode(), job.jobtype.encode()
        if len(jid) < JID_BYTES_MIN:
            raise Unfit("jobs must have a reasonable jid parameter")
        if not kind:
            raise Unfit("jobs must have a jobtype parameter")
        if bytes(job.args) == _NULL:
            raise Unfit("jobs must have an args parameter")
        if len(jid) > most or len(kind) > most:
            raise Unfit(f"jid and jobtype cannot be longer than {most} bytes")
        if b"\0" in jid or b"\0" in kind:
            raise Unfit("jid and jobtype cannot contain NUL")

    def _check_queue(self, name: str) -> None:
        """A new queue's name; those that exist were checked by whoever made them."""
        if not _QUEUE_NAME.fullmatch(name):
            raise Unfit(
                f"cannot get {_quoted(name)} queue: queue names must match \\A[a-zA-Z0-9._-]+\\z"
            )
        if len(name) > self._name_max:
            raise Unfit(f"queue names cannot be longer than {self._name_max} bytes")

    def _check_depth(self, text: bytes) -> None:
        if is_deeper(text, self._args_depth_max):
            raise Unfit(f"jobs cannot be nested deeper than {self._args_depth_max + 1} levels")

    def _set_apart(self, job: WireJob) -> bytes:
        """Tidy the two objects that few jobs have; returns the failure, which is no part of it."""
        _check_shape(job)
        if job.custom is not UNSET:
            self._check_depth(bytes(job.custom))
            custom = _compact(bytes(job.custom))
            job.custom = UNSET if custom in (_NULL, b"{}") else Raw(custom)
        if job.failure is UNSET:
            return b""
        self._check_depth(bytes(job.failure))
        failure = _compact(bytes(job.failure))
        job.failure = UNSET
        return b"" if failure == _NULL else failure

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


def _check_shape(job: WireJob) -> None:
    """What the original's decoder would not decode."""
    if bytes(job.args)[0] != _BRACKET and bytes(job.args) != _NULL:
        raise Unreadable("args must be an array")
    for name, value in (("custom", job.custom), ("failure", job.failure)):
        if isinstance(value, Raw) and bytes(value)[0] != _BRACE and bytes(value) != _NULL:
            raise Unreadable(f"{name} must be an object")


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
    return msgspec.json.encode(text[:200]).decode()
