"""Requests on their way in and jobs on their way out.

A job's body is the request's last usual frame, to the byte; what else was in it lies in `extra`:
the headers alone where that is all, as nearly always, else everything that a worker must be shown
again. A job of another protocol is shown as the call that its kind and arguments stand for.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.limits import Limits
from franca.core.model import Job, Millis, NewJob
from franca.protocols.bodies import BYTES, JSON_CALL, as_json_args
from franca.protocols.eventmq.headers import HEADERS_BYTES_MAX, Terms, TermsReader
from franca.protocols.eventmq.queues import DEFAULT_QUEUE
from franca.protocols.eventmq.wire import long_request, request

ORIGIN: Final = "eventmq"
REQUEST_FRAMES: Final = 7
_APART: Final = b"\0"
"""What `extra` begins with where it is more than the headers."""
_ID_PREFIX: Final = "job:"
_HEX_PREFIX: Final = "hex:"
_OWN_PREFIXES: Final = (_ID_PREFIX, _HEX_PREFIX)


class Unfit(Refused):
    """A message that cannot be taken."""

    code = "unfit"


class Apart(Struct, array_like=True, gc=False):
    """What a worker is shown besides the body, where it is not the usual."""

    headers: bytes
    queue: bytes
    more: list[bytes] = []


class Call(Struct, gc=False):
    """The part of a message that says what is to be called."""

    path: str
    callable: str


class _WholeCall(Struct, kw_only=True):
    callable: str
    path: str
    args: Raw
    kwargs: dict[str, None] = {}
    class_args: list[None] = []
    class_kwargs: dict[str, None] = {}


_decode_call = msgspec.json.Decoder(tuple[str, Call]).decode
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Apart).decode


# -- names ---------------------------------------------------------------------------------


def name_of(msgid: bytes) -> str:
    """A message's id as the name of its job: itself where it is text, else written as digits."""
    try:
        name = msgid.decode()
    except UnicodeDecodeError:
        return _HEX_PREFIX + msgid.hex()
    if "\0" in name or name.startswith(_OWN_PREFIXES):
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


def is_suspect(job: Job) -> bool:
    """Whether a job manager may have died of this job: a message that is no call it can read."""
    return job.origin == ORIGIN and job.media == BYTES


def named(broker: Broker, msgid: bytes) -> list[Job]:
    """Every job in memory that goes by this id."""
    if msgid.startswith(b"job:") and msgid[4:].isdigit() and len(msgid) < 24:
        job = broker.jobs.get(int(msgid[4:]))
        if job is not None and not job.name:
            return [job]
    jobs = broker.named(name_of(msgid))
    try:
        return jobs or broker.named(msgid.decode())
    except UnicodeDecodeError:
        return jobs


# -- in ------------------------------------------------------------------------------------


def kind_of(body: bytes) -> str:
    """What a message calls, as one dotted name; nothing if it is no call that can be read."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return ""
    try:
        call = _decode_call(body)[1]
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return f"{call.path}.{call.callable}"


class Intake:
    """Takes in requests. A request for a queue that nobody ever spoke of goes to `default`."""

    def __init__(self, broker: Broker, terms: TermsReader) -> None:
        self._broker = broker
        self._limits: Limits = broker.limits
        self._id_max = broker.limits.name_bytes_max // 2
        self._kind_chars = broker.limits.name_bytes_max // 4
        self._queues = broker.queues
        self._terms_of = terms.of

    def new_job(self, frames: list[bytes], terms: Terms) -> NewJob:
        """The job that a REQUEST's frames stand for. `Unfit` where there can be none."""
        msgid, queue_frame, headers, body = frames[3:7]
        limits = self._limits
        if (
            len(msgid) > self._id_max
            or len(queue_frame) > limits.name_bytes_max
            or len(body) > limits.body_bytes_max
            or len(headers) > HEADERS_BYTES_MAX
        ):
            raise Unfit(
                f"a request has at most {limits.body_bytes_max} bytes, its id {self._id_max}, its "
                f"queue {limits.name_bytes_max}, its headers {HEADERS_BYTES_MAX}"
            )
        try:
            queue = queue_frame.decode()
            is_known = queue in self._queues
        except UnicodeDecodeError:
            is_known = False
        extra = headers
        if not is_known or len(frames) > REQUEST_FRAMES or headers[:1] == _APART:
            queue = queue if is_known else DEFAULT_QUEUE
            extra = self._set_apart(frames, queue)
        kind = kind_of(body)
        if len(kind) > self._kind_chars:
            kind = kind.encode()[: limits.name_bytes_max].decode("utf-8", "ignore")
        return NewJob(
            queue,
            kind,
            body,
            terms.policy if kind else terms.wary,
            name_of(msgid),
            JSON_CALL if kind else BYTES,
            ORIGIN,
            extra=extra,
            digest=crc32(body),
            once=True,
        )

    def _set_apart(self, frames: list[bytes], queue: str) -> bytes:
        """What a worker must be shown of an unusual request besides its body."""
        queue_frame, headers, more = frames[4], frames[5], frames[7:]
        if sum(map(len, more)) > self._limits.body_bytes_max:
            raise Unfit(f"more than {self._limits.body_bytes_max} bytes")
        if not more and headers[:1] != _APART and queue_frame == queue.encode():
            return headers
        return _APART + _pack(Apart(headers, queue_frame, more))

    def plain_job(self, queue_frame: bytes, body: bytes) -> NewJob:
        """A job without headers and without an id of its own, for those that a rule makes."""
        frames = [b"", b"", b"", b"", queue_frame, b"", body]
        new = self.new_job(frames, self._terms_of(b""))
        new.once = False
        return new

    def submit(self, frames: list[bytes], now: Millis) -> tuple[Job, Terms]:
        """Take in a REQUEST. `Refused`, and nothing happened."""
        if len(frames) < REQUEST_FRAMES:
            raise Unfit("a REQUEST of too few frames")
        terms = self._terms_of(frames[5])
        return self._broker.submit(self.new_job(frames, terms), now), terms


# -- out -----------------------------------------------------------------------------------


class Renderer:
    """Writes jobs down for workers."""

    def __init__(self, terms: TermsReader) -> None:
        self._terms_of = terms.of

    def terms(self, job: Job) -> Terms:
        """What the headers of a job say."""
        if job.origin != ORIGIN:
            return self._terms_of(_headers_of(job))
        extra = job.extra
        return self._terms_of(_unpack(extra[1:]).headers if extra[:1] == _APART else extra)

    def request(self, job: Job) -> bytes:
        """The REQUEST that gives a worker this job."""
        if job.origin != ORIGIN:
            headers = self._terms_of(_headers_of(job)).forwarded
            return request(shown_msgid(job), job.queue.encode(), headers, _as_call(job))
        extra = job.extra
        if extra[:1] != _APART:
            headers = self._terms_of(extra).forwarded
            return request(shown_msgid(job), job.queue.encode(), headers, job.body)
        apart = _unpack(extra[1:])
        headers = self._terms_of(apart.headers).forwarded
        queue = apart.queue if _is_text(apart.queue) else job.queue.encode()
        return long_request([shown_msgid(job), queue, headers, job.body, *apart.more])


def _is_text(frame: bytes) -> bool:
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def wished_queue(new: NewJob) -> str:
    """The queue that a job was meant for, where that is not the one it is in."""
    if new.extra[:1] != _APART:
        return ""
    return _unpack(new.extra[1:]).queue.decode("utf-8", "replace")


def _headers_of(job: Job) -> bytes:
    """The headers that a job of another protocol would have had."""
    seconds = job.policy.lease_ms // 1000
    return b"timeout:%d" % seconds if seconds else b""


def _as_call(job: Job) -> bytes:
    path, _, name = job.kind.rpartition(".")
    args = Raw(as_json_args(job.media, job.body))
    return _encode(["run", _WholeCall(callable=name, path=path or name, args=args)])
