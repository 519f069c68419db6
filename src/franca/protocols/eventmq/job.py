"""Requests on their way in and jobs on their way out.

A job's body is the request's last usual frame, to the byte; what else was in it lies in `extra`:
the headers alone where that is all, as nearly always, else everything that a worker must be shown
again, and whom to send the result. A job of another protocol is shown as the call that its kind
and arguments stand for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, Millis, NewJob
from franca.core.names import Names, text_of
from franca.protocols.bodies import BYTES, JSON_CALL, as_json_args, is_utf8, json_args
from franca.protocols.eventmq.headers import HEADERS_BYTES_MAX, Terms, TermsReader
from franca.protocols.eventmq.queues import DEFAULT_QUEUE
from franca.protocols.eventmq.wire import long_request, request, request_in_pieces
from franca.protocols.eventmq.zmtp import LARGE_BYTES
from franca.protocols.eventmq.zmtp import more as framed

ORIGIN: Final = "eventmq"
REQUEST_FRAMES: Final = 7
CACHED: Final = 1_024
CACHED_BYTES: Final = 1_024
"""What many requests of a client have in common is packed and unpacked once, if it is short."""
_APART: Final = b"\0"
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
_ID_PREFIX: Final = "job:"
_HEX_PREFIX: Final = "hex:"
_OWN_PREFIXES: Final = (_ID_PREFIX, _HEX_PREFIX)


class Unfit(Refused):
    """A message that cannot be taken."""

    code = "unfit"


class Address(Struct, array_like=True, frozen=True, gc=False):
    """Whom a result is for: the connection that asked, or else another of the same identity.

    `envelope` is what sockets between a client and us have put around its request.
    """

    link: str
    identity: bytes = b""
    envelope: bytes = b""


class Apart(Struct, array_like=True, frozen=True, gc=False):
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


class _WholeCall(Struct, kw_only=True):
    callable: str
    path: str
    args: Raw
    kwargs: dict[str, None] = {}
    class_args: list[None] = []
    class_kwargs: dict[str, None] = {}


_PLACE: Final = b"\0"
"""Where arguments will stand; nothing else that is written as JSON has such a byte."""
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
    if "\0" in name or (":" in name and name.startswith(_OWN_PREFIXES)):
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
    """Takes in requests. A request for a queue that nobody ever spoke of goes to `default`."""

    def __init__(self, broker: Broker, terms: TermsReader) -> None:
        self._broker = broker
        self._id_max = broker.limits.name_bytes_max // 2
        self._name_max = broker.limits.name_bytes_max
        self._body_max = broker.limits.body_bytes_max
        self._names = Names()
        self._queues = broker.queues
        self._terms_of = terms.of
        self._aparts: dict[tuple[str, bytes, bytes], bytes] = {}

    def new_job(self, frames: list[bytes], terms: Terms, client: Address | None = None) -> NewJob:
        """The job that a REQUEST's frames stand for. `Unfit` where there can be none."""
        msgid, queue_frame, headers, body = frames[3:7]
        if (
            len(msgid) > self._id_max
            or len(queue_frame) > self._name_max
            or len(body) > self._body_max
            or len(headers) > HEADERS_BYTES_MAX
        ):
            raise Unfit(
                f"a request has at most {self._body_max} bytes, its id {self._id_max}, its "
                f"queue {self._name_max}, its headers {HEADERS_BYTES_MAX}; this one has "
                f"{len(body)}, {len(msgid)}, {len(queue_frame)} and {len(headers)}"
            )
        queue = self._names.text(queue_frame)
        is_known = queue in self._queues
        is_usual = is_known and len(frames) == REQUEST_FRAMES
        extra: bytes | None = headers
        if is_usual and client is not None and not client.envelope:
            extra = self._aparts.get((client.link, queue_frame, headers))
        elif not is_usual or client is not None or headers[:1] == _APART:
            extra = None
        if extra is None:
            queue = queue if is_known else DEFAULT_QUEUE
            extra = self._set_apart(frames, queue, client)
        kind = kind_of(body, self._name_max)
        is_call = kind and len(body) <= READ_BYTES_MAX
        return NewJob(
            queue,
            kind,
            body,
            terms.policy if is_call else terms.wary,
            name_of(msgid),
            JSON_CALL if is_call else BYTES,
            ORIGIN,
            extra=extra,
            digest=crc32(body),
            once=True,
        )

    def _set_apart(self, frames: list[bytes], queue: str, client: Address | None) -> bytes:
        """What an unusual request has besides its body."""
        queue_frame, headers, more = frames[4], frames[5], frames[7:]
        size = sum(map(len, more))
        most = min(MORE_BYTES_MAX, self._body_max - len(frames[6]))
        if size > most:
            raise Unfit(f"a request with {size} bytes in further frames, at most {most}")
        if queue_frame == self._names.raw(queue):
            if not more and client is None and headers[:1] != _APART:
                return headers
            apart = _APART + _pack(Apart(headers, None, more, client))
            if not more and client is not None and not client.envelope:
                self._remember(client, queue_frame, headers, apart)
            return apart
        return _APART + _pack(Apart(headers, queue_frame, more, client))

    def _remember(self, client: Address, queue: bytes, headers: bytes, apart: bytes) -> None:
        """The next request of this connection that has the same headers has the same apart."""
        if len(apart) <= CACHED_BYTES:
            if len(self._aparts) >= CACHED:
                self._aparts.clear()
            self._aparts[(client.link, queue, headers)] = apart

    def plain_job(self, queue_frame: bytes, body: bytes) -> NewJob:
        """A job without headers and without an id of its own, for those that a rule makes."""
        frames = [b"", b"", b"", b"", queue_frame, b"", body]
        new = self.new_job(frames, self._terms_of(b""))
        new.once = False
        return new

    def submit(self, frames: list[bytes], client: Address, now: Millis) -> Job:
        """Take in a REQUEST of this client. `Refused`, and nothing happened."""
        if len(frames) < REQUEST_FRAMES:
            raise Unfit("a REQUEST of too few frames")
        terms = self._terms_of(frames[5])
        answered_to = client if terms.wants_result or client.envelope else None
        new = self.new_job(frames, terms, answered_to)
        return self._broker.submit(new, now)


# -- out -----------------------------------------------------------------------------------


class Renderer:
    """Writes jobs down for workers, as pieces of which a long one is not copied."""

    def __init__(self, terms: TermsReader) -> None:
        self._terms_of = terms.of
        self._names = Names()
        self._middles: dict[tuple[str, bytes], bytes] = {}
        """The frames of queue and headers that were written lately, by what a job has of them."""

    def terms(self, job: Job) -> Terms:
        """What the headers of a job say."""
        if job.origin != ORIGIN:
            return self._terms_of(_headers_of(job))
        extra = job.extra
        return self._terms_of(_apart_in(extra).headers if extra[:1] == _APART else extra)

    def request(self, job: Job) -> list[bytes]:
        """The REQUEST that gives a worker this job."""
        known = self._middles.get((job.queue, job.extra)) if job.origin == ORIGIN else None
        if known is None or len(job.body) > LARGE_BYTES:
            return self._written_anew(job)
        return [request(shown_msgid(job), known, job.body)]

    def _written_anew(self, job: Job) -> list[bytes]:
        queue = self._names.raw(job.queue)
        extra = job.extra
        body = job.body
        more: list[bytes] = []
        if job.origin != ORIGIN:
            if len(body) > LARGE_BYTES:
                return self._long_stranger(job, queue)
            extra, body = _headers_of(job), _as_call(job)
        elif extra[:1] == _APART:
            apart = _APARTS.get(extra) or _apart_in(extra)
            extra, more = apart.headers, apart.more
            if apart.queue is not None and is_utf8(apart.queue):
                queue = apart.queue
        headers = self._terms_of(extra).forwarded
        if more or len(body) > LARGE_BYTES:
            return long_request([shown_msgid(job), queue, headers, body, *more])
        middle = framed(queue) + framed(headers)
        if job.origin == ORIGIN and len(job.extra) <= CACHED_BYTES:
            if len(self._middles) >= CACHED:
                self._middles.clear()
            self._middles[(job.queue, job.extra)] = middle
        return [request(shown_msgid(job), middle, body)]

    def _long_stranger(self, job: Job, queue: bytes) -> list[bytes]:
        """A long job of another protocol, of which nothing is joined."""
        headers = self._terms_of(_headers_of(job)).forwarded
        middle = framed(queue) + framed(headers)
        return request_in_pieces(shown_msgid(job), middle, _as_long_call(job))


_APARTS: Final[dict[bytes, Apart]] = {}
"""What was unpacked lately."""


def _apart_in(extra: bytes) -> Apart:
    apart = _APARTS.get(extra)
    if apart is None:
        apart = _unpack(extra[1:])
        if len(extra) <= CACHED_BYTES:
            if len(_APARTS) >= CACHED:
                _APARTS.clear()
            _APARTS[extra] = apart
    return apart


def client_of(job: Job) -> Address | None:
    """Whom the result of a job is for, if anybody asked for it."""
    extra = job.extra
    if not extra:
        return None
    apart = _APARTS.get(extra)
    if apart is None:
        if extra[:1] != _APART:
            return None
        apart = _apart_in(extra)
    return apart.client


def wished_queue(new: NewJob) -> str:
    """The queue that a job was meant for, where that is not the one it is in."""
    wished = _apart_in(new.extra).queue if new.extra[:1] == _APART else None
    return "" if wished is None else text_of(wished)


def _headers_of(job: Job) -> bytes:
    """The headers that a job of another protocol would have had."""
    seconds = job.policy.lease_ms // 1000
    return b"timeout:%d" % seconds if seconds else b""


def _as_call(job: Job) -> bytes:
    return _call(job, Raw(as_json_args(job.media, job.body)))


def _as_long_call(job: Job) -> list[bytes]:
    """The same in pieces."""
    before, _, behind = _call(job, Raw(_PLACE)).partition(_PLACE)
    return [before, *json_args(job.media, job.body), behind]


def _call(job: Job, args: Raw) -> bytes:
    path, _, name = job.kind.rpartition(".")
    return _encode(["run", _WholeCall(callable=name, path=path or name, args=args)])
