"""Requests on their way in and jobs on their way out.

A job's body is the request's last usual frame, to the byte; what else was in it lies in `extra`:
the headers alone where that is all, as nearly always, else everything that a worker must be shown
again, and whom to send the result. A job of another protocol is shown as the call that its kind
and arguments stand for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from franca.core.broker import Broker
from franca.core.model import Job, Millis, NewJob
from franca.core.names import Names, raw_of, text_of
from franca.protocols.bodies import BYTES, JSON_CALL, is_utf8, json_args
from franca.protocols.eventmq.texts import DEFAULT_QUEUE, HEADERS_BYTES_MAX, Terms, Unfit, terms_of
from franca.protocols.eventmq.wire import long_request, request, request_in_pieces
from franca.protocols.eventmq.zmtp import LARGE_BYTES, more

ORIGIN: Final = "eventmq"
HOLDERS: Final = "eventmq "
"""What the holder's name of every worker of this protocol begins with."""
REQUEST_FRAMES: Final = 7
CACHED: Final = 1_024
CACHED_BYTES: Final = 1_024
"""What many requests of a client have in common is packed and unpacked once, if it is short."""
_PACKED: Final = b"\0"
"""What `extra` begins with where it is more than the headers."""
MORE_BYTES_MAX: Final = 64 * 1024
"""What the frames behind a request's last usual one may have together: they stay in memory."""
READ_BYTES_MAX: Final = 1024 * 1024
"""A longer message is not read to its end, which would hold up everybody: it may be no call."""
_HEAD: Final = re.compile(
    rb"""\[\s?"run",\s?\{
    \s?"(?P<first>path|callable)"\s?:\s?"(?P<one>[^"\\]{0,1024})"\s?,
    \s?"(?P<second>path|callable)"\s?:\s?"(?P<other>[^"\\]{0,1024})"
    """,
    re.VERBOSE,
)
_HEX_PREFIX: Final = "hex:"


class Address(Struct, array_like=True, frozen=True, gc=False):
    """Whom a result is for: the connection that asked, or else another of the same identity.

    `envelope` is what sockets between a client and us have put around its request.
    """

    link: str
    identity: bytes = b""
    envelope: bytes = b""

    @property
    def key(self) -> bytes | str:
        """What a client is known by: its identity, or its connection if it has none."""
        return self.identity or self.link


class Extra(Struct, array_like=True, frozen=True, gc=False):
    """What a job has besides its body, where that is more than its headers.

    `queue` is the one that was asked for, where that is another than the one it is in.
    """

    headers: bytes
    queue: bytes | None
    more: list[bytes] = []
    client: Address | None = None


class Call(Struct, gc=False):
    """The part of a message that says what is to be called."""

    path: str
    callable: str


NO_MORE: Final[Mapping[str, object]] = {"kwargs": {}, "class_args": [], "class_kwargs": {}}
_PLACE: Final = b"\0"
"""Where arguments will stand; nothing else that is written as JSON has such a byte."""
_decode_call = msgspec.json.Decoder(tuple[str, Call]).decode
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Extra).decode


# -- names ---------------------------------------------------------------------------------


def name_of(msgid: bytes) -> str:
    """A message's id as the name of its job: itself where it is text, else written as digits."""
    try:
        name = msgid.decode()
    except UnicodeDecodeError:
        return _HEX_PREFIX + msgid.hex()
    if "\0" in name or (":" in name and name.startswith(("job:", _HEX_PREFIX))):
        return _HEX_PREFIX + msgid.hex()
    return name


def msgid_of(job: Job) -> bytes:
    """The id under which a client knows its job: its own bytes."""
    name = job.name
    if job.origin == ORIGIN and name.startswith(_HEX_PREFIX):
        return bytes.fromhex(name[len(_HEX_PREFIX) :])
    return name.encode()


def shown_msgid(job: Job) -> bytes:
    """The id under which a worker knows a job. Always text: job managers die of anything else."""
    return job.name.encode() if job.name else b"job:%d" % job.id


def may_kill_worker(job: Job) -> bool:
    """Whether a job manager may have died of this job: a message that is no call it can read."""
    return job.origin == ORIGIN and job.media == BYTES


def known_as(broker: Broker, msgid: bytes, look: Callable[[str], Iterable[Job]]) -> list[Job]:
    """The jobs in memory that go by this id, of those that `look` finds by their name."""
    if msgid.startswith(b"job:") and msgid[4:].isdigit() and len(msgid) < 24:
        job = broker.jobs.get(int(msgid[4:]))
        if job is not None and not job.name:
            return [job]
    jobs = list(look(name_of(msgid)))
    try:
        return jobs or list(look(msgid.decode()))
    except UnicodeDecodeError:
        return jobs


# -- in ------------------------------------------------------------------------------------


def kind_of(body: bytes, bytes_max: int) -> str:
    """What a message calls, as one dotted name; nothing if it is no call that can be read."""
    if len(body) > READ_BYTES_MAX:
        return _kind_at_head(body, bytes_max)
    if not body.isascii() and not is_utf8(body):
        return ""
    try:
        call = _decode_call(body)[1]
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return _joined(call.path, call.callable, bytes_max)


def _kind_at_head(body: bytes, bytes_max: int) -> str:
    """What a long message calls, if that is said first, as the client library does."""
    found = _HEAD.match(body)
    if found is None or found["first"] == found["second"]:
        return ""
    said = {found["first"]: found["one"], found["second"]: found["other"]}
    path, name = said[b"path"], said[b"callable"]
    return _joined(path.decode("utf-8", "ignore"), name.decode("utf-8", "ignore"), bytes_max)


def _joined(path: str, name: str, bytes_max: int) -> str:
    if len(path) + len(name) < bytes_max // 4:
        return f"{path}.{name}"
    kind = f"{path[:bytes_max]}.{name[:bytes_max]}"
    return kind.encode()[:bytes_max].decode("utf-8", "ignore")


class Intake:
    """Takes in requests. A request for a queue that nobody ever named goes to `default`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._id_max = broker.limits.name_bytes_max // 2
        self._name_max = broker.limits.name_bytes_max
        self._body_max = broker.limits.body_bytes_max
        self._names = Names()
        self._queues = broker.queues

    def submit(self, frames: list[bytes], client: Address, now: Millis) -> Job:
        """Take in a REQUEST of this client. `Refused`, and nothing happened."""
        if len(frames) < REQUEST_FRAMES:
            raise Unfit("a REQUEST of too few frames")
        terms = terms_of(frames[5])
        answered_to = client if terms.wants_result or client.envelope else None
        return self._broker.submit(self._new_job(frames, terms, answered_to), now)

    def plain_job(self, queue_frame: bytes, body: bytes) -> NewJob:
        """A job without headers and without an id of its own, for those that a rule makes."""
        new = self._new_job([b"", b"", b"", b"", queue_frame, b"", body], terms_of(b""), None)
        new.once = False
        return new

    def _new_job(self, frames: list[bytes], terms: Terms, client: Address | None) -> NewJob:
        """The job that a REQUEST's frames stand for. `Unfit` where there can be none."""
        msgid, queue_frame, headers, body = frames[3:7]
        long_names = len(msgid) > self._id_max or len(queue_frame) > self._name_max
        if long_names or len(body) > self._body_max or len(headers) > HEADERS_BYTES_MAX:
            raise Unfit(
                f"a request has at most {self._body_max} bytes, its id {self._id_max}, its "
                f"queue {self._name_max}, its headers {HEADERS_BYTES_MAX}; this one has "
                f"{len(body)}, {len(msgid)}, {len(queue_frame)} and {len(headers)}"
            )
        queue = self._names.text(queue_frame)
        intended = None
        if queue not in self._queues:
            intended = queue_frame if queue != DEFAULT_QUEUE else None
            queue = DEFAULT_QUEUE
        extra = headers
        is_usual = intended is None and len(frames) == REQUEST_FRAMES
        if client is not None or not is_usual or headers[:1] == _PACKED:
            extra = self._extra_of(frames, intended, client)
        kind = kind_of(body, self._name_max)
        is_call = kind and len(body) <= READ_BYTES_MAX
        policy, media = (terms.policy, JSON_CALL) if is_call else (terms.no_call_policy, BYTES)
        new = NewJob(queue, kind, body, policy, name_of(msgid), media, ORIGIN, extra=extra)
        new.digest, new.once = crc32(body), True
        return new

    def _extra_of(
        self, frames: list[bytes], intended: bytes | None, client: Address | None
    ) -> bytes:
        """What a request has besides its body, where that is more than its headers."""
        headers, others = frames[5], frames[REQUEST_FRAMES:]
        is_usual = intended is None and not others and len(headers) <= CACHED_BYTES
        if is_usual and client is not None and not client.envelope:
            return _usual_extra(headers, client.link, client.identity)
        size = sum(map(len, others))
        most = min(MORE_BYTES_MAX, self._body_max - len(frames[6]))
        if size > most:
            raise Unfit(f"a request with {size} bytes in further frames, at most {most}")
        return _PACKED + _pack(Extra(headers, intended, others, client))


@lru_cache(CACHED)
def _usual_extra(headers: bytes, link: str, identity: bytes) -> bytes:
    """The same for each request of a client that has these headers."""
    return _PACKED + _pack(Extra(headers, None, [], Address(link, identity)))


def _extra_in(packed: bytes) -> Extra:
    return _remembered_extra(packed) if len(packed) <= CACHED_BYTES else _read_extra(packed)


def _read_extra(packed: bytes) -> Extra:
    """What `extra` says. Whatever does not begin as packed is the headers alone."""
    return _unpack(packed[1:]) if packed[:1] == _PACKED else Extra(packed, None)


_remembered_extra = lru_cache(CACHED)(_read_extra)


def client_of(job: Job) -> Address | None:
    """Whom the result of a job is for, if anybody asked for it."""
    extra = job.extra
    if not extra:
        return None
    # As `_extra_in`, without a call: asked twice of every job whose result somebody waits for.
    return (_remembered_extra(extra) if len(extra) <= CACHED_BYTES else _read_extra(extra)).client


def intended_queue(new: NewJob) -> str:
    """The queue that a job was meant for, where that is not the one it is in."""
    queue = _extra_in(new.extra).queue if new.extra else None
    return "" if queue is None else text_of(queue)


# -- out -----------------------------------------------------------------------------------


def terms_of_job(job: Job) -> Terms:
    """What the headers of a job say; those that a job of another protocol would have had."""
    if job.origin == ORIGIN:
        return terms_of(_extra_in(job.extra).headers)
    seconds = job.policy.lease_ms // 1000
    return terms_of(b"timeout:%d" % seconds if seconds else b"")


def request_of(job: Job) -> list[bytes]:
    """The REQUEST that gives a worker this job, in pieces of which a long one is not copied."""
    if job.origin != ORIGIN:
        return _request_of_foreign_job(job)
    extra = job.extra
    body = job.body
    if len(extra) > CACHED_BYTES:
        middle, others = _middle_of(job.queue, extra)
    else:
        middle, others = _usual_middle(job.queue, extra)
    if others or len(body) > LARGE_BYTES:
        return long_request(shown_msgid(job), middle, [body, *others])
    return [request(shown_msgid(job), middle, body)]


def _middle_of(queue: str, extra: bytes) -> tuple[bytes, list[bytes]]:
    """The frames of a job's queue and headers, and those behind its body."""
    unpacked = _extra_in(extra)
    name = unpacked.queue
    if name is None or not is_utf8(name):
        name = raw_of(queue)
    return more(name) + more(terms_of(unpacked.headers).forwarded), unpacked.more


_usual_middle = lru_cache(CACHED)(_middle_of)


def _request_of_foreign_job(job: Job) -> list[bytes]:
    """A job of another protocol, as the call that its kind and arguments stand for."""
    path, _, name = job.kind.rpartition(".")
    call = {"callable": name, "path": path or name, "args": Raw(_PLACE), **NO_MORE}
    before, _, behind = _encode(["run", call]).partition(_PLACE)
    body = [before, *json_args(job.media, job.body), behind]
    middle = more(raw_of(job.queue)) + more(terms_of_job(job).forwarded)
    if len(job.body) > LARGE_BYTES:
        return request_in_pieces(shown_msgid(job), middle, body)
    return [request(shown_msgid(job), middle, b"".join(body))]
