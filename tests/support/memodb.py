"""MemoDB over one connection, small enough to see through: SP's frames, memo01's headers.

It is a witness, not a library: it never reconnects, re-sends or hides an answer. Several clients
and workers may share one connection, as NNG's contexts do: `ask` sends a request and returns its
id, `read` returns the next reply to any of them. A lost connection and a timeout come out as
`OSError`.
"""

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from tests.support import peer
from tests.support.connection import Connection, messages_in, taken

READY, JOB, RESULT, HEARTBEAT, DISCONNECT = 1, 2, 3, 4, 5

HELLO = b"\0SP\0\0\x30\0\0"
HELLO_BACK = b"\0SP\0\0\x31\0\0"


# -- memo01 ----------------------------------------------------------------------------------------


class Reply(NamedTuple):
    """What the server said: to which request, and what. The last two are of a JOB."""

    request: int
    op: int
    worker: bytes
    payload: bytes
    service: str = ""
    timeout_ms: int = 0


def ready(*services: str) -> bytes:
    """A worker offers itself."""
    return _header(READY, b"", list(services))


def job(service: str, payload: bytes = b"", timeout_ms: int = 5_000) -> bytes:
    """A client's job."""
    return _header(JOB, b"", service, timeout_ms) + payload


def result(worker: bytes, payload: bytes = b"", leaving: bool | None = None) -> bytes:
    """A worker's result, with the bool that says that it leaves if there is one."""
    return _header(RESULT, worker, *([] if leaving is None else [leaving])) + payload


def heartbeat(worker: bytes) -> bytes:
    """A worker's sign of life."""
    return _header(HEARTBEAT, worker)


def leaving(worker: bytes) -> bytes:
    """A worker goes without a result."""
    return _header(DISCONNECT, worker)


def parse(request: int, raw: bytes) -> Reply:
    """A message as a server writes it; `ValueError` if it is not written in the one right way."""
    values, end = _take(raw, 0)
    if not isinstance(values, list) or len(values) < 3 or values[0] != "memo01":
        raise ValueError(f"not memo01: {raw[:80]!r}")
    if _cbor(values) != raw[:end]:
        raise ValueError(f"not deterministic CBOR: {raw[:end]!r}")
    return Reply(request, values[1], values[2], raw[end:], *values[3:])


def _header(*values: object) -> bytes:
    return _cbor(["memo01", *values])


def _cbor(value: object) -> bytes:
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _number(0, value)
    if isinstance(value, bytes):
        return _number(2, len(value)) + value
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        return _number(3, len(raw)) + raw
    assert isinstance(value, list)
    return _number(4, len(value)) + b"".join(_cbor(item) for item in value)


def _number(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for info, form in ((24, ">B"), (25, ">H"), (26, ">I"), (27, ">Q")):
        if number < 1 << 8 * struct.calcsize(form):
            return bytes([major << 5 | info]) + struct.pack(form, number)
    raise ValueError(number)


def _take(raw: bytes, at: int) -> tuple[object, int]:
    major, info = raw[at] >> 5, raw[at] & 31
    at += 1
    if major == 7:
        return info == 21, at
    number = info
    if info >= 24:
        width = 1 << (info - 24)
        number, at = int.from_bytes(raw[at : at + width], "big"), at + width
    if major == 0:
        return number, at
    if major in (2, 3):
        piece = raw[at : at + number]
        return piece if major == 2 else piece.decode("utf-8", "surrogateescape"), at + number
    items: list[object] = []
    for _ in range(number):
        item, at = _take(raw, at)
        items.append(item)
    return items, at


# -- SP --------------------------------------------------------------------------------------------


_ID_BIT = 1 << 31
"""The highest bit of a word says that it is the request's id, and not that of a device on the way."""


def numbers(last: int) -> Iterator[int]:
    """Ids of requests. NNG begins anywhere too: those of different sockets should not be the same."""
    while True:
        last = (last + 1) % _ID_BIT
        yield last


def stack(request: int, *hops: int) -> bytes:
    """The words before a message: those of devices on the way, and the request's id."""
    return b"".join(struct.pack(">I", word) for word in (*hops, request | _ID_BIT))


def framed(body: bytes, lead: bytes = b"") -> bytes:
    """A body as a connection carries it; on a unix socket it begins with `lead`."""
    return lead + struct.pack(">Q", len(body)) + body


def take_frame(unread: bytearray, lead: bytes = b"") -> bytes | None:
    """Take the body of a whole frame off the front; None until it is there."""
    head = len(lead) + 8
    end = head + int.from_bytes(unread[len(lead) : head], "big")
    if len(unread) < end:
        return None
    if not unread.startswith(lead):
        raise ValueError("a message on a unix socket begins with 01")
    return taken(unread, end)[head:]


def take_reply(unread: bytearray, lead: bytes = b"") -> Reply | None:
    """Take a whole reply off the front; None until it is there."""
    body = take_frame(unread, lead)
    if body is None:
        return None
    at = next(at for at in range(0, len(body), 4) if body[at] & 0x80) + 4
    return parse(int.from_bytes(body[at - 4 : at], "big") - _ID_BIT, body[at:])


class MemoDB(Connection[Reply]):
    """One connection to a listener on a port, or on the path of a unix socket."""

    read_size = 1 << 18
    lead = b""
    _ids = numbers(random.getrandbits(31))

    def __init__(self, where: int | str, *, timeout: float = 10.0) -> None:
        super().__init__(where, timeout=timeout)
        if not isinstance(where, int):
            self.lead = b"\x01"
        self.open()

    def open(self) -> Self:
        """Both say what they are."""
        self.send_bytes(HELLO)
        if self._take(len(HELLO_BACK)) != HELLO_BACK:
            raise ValueError("not an SP server of REP sockets")
        return self

    # -- raw -------------------------------------------------------------------------------------

    def frame(self, body: bytes) -> bytes:
        """A body as this kind of connection carries it."""
        return framed(body, self.lead)

    def asking(self, request: int, message: bytes) -> bytes:
        """The bytes of a request."""
        return self.frame(stack(request) + message)

    def ask(self, message: bytes, request: int | None = None, *hops: int) -> int:
        """Send a request without waiting for its reply; its id."""
        if request is None:
            request = next(self._ids)
        self.send_bytes(self.frame(stack(request, *hops) + message))
        return request

    def cut(self) -> Reply | None:
        return take_reply(self.unread, self.lead)

    def hear(self) -> Reply | None:
        """The next reply if it has come already."""
        reply = self.cut()
        assert reply or not self.unread, "half a reply"
        return reply

    # -- roles -----------------------------------------------------------------------------------

    def run(self, service: str, payload: bytes = b"", timeout_ms: int = 5_000) -> bytes:
        """Have a job done; its result. Nothing else may be under way."""
        asked = self.job(payload, service, timeout_ms)
        reply = self.answer()
        if reply != Reply(asked, RESULT, b"", reply.payload):
            raise ValueError(f"not the result of {asked:x}: {reply!r}")
        return reply.payload

    def job(
        self, payload: bytes = b"x", service: str = "s", timeout_ms: int = 5_000,
        request: int | None = None,
    ) -> int:  # fmt: skip
        return self.ask(job(service, payload, timeout_ms), request)

    def ready(self, *services: str) -> int:
        return self.ask(ready(*services or ("s",)))

    def result(self, task: Reply, payload: bytes = b"y", leaving: bool | None = None) -> int:
        return self.ask(result(task.worker, payload, leaving))

    def heartbeat(self, task: Reply) -> int:
        return self.ask(heartbeat(task.worker))

    def given(self) -> Reply:
        return self._read_of(JOB)

    def answer(self) -> Reply:
        return self._read_of(RESULT)

    def work_off(self, count: int, result: bytes = b"y") -> list[Reply]:
        """So many jobs, one after the other, each done as soon as it is given."""
        given: list[Reply] = []
        for _ in range(count):
            given.append(self.given())
            self.result(given[-1], result)
        return given

    def asked_to_beat(self) -> Reply:
        return self._read_of(HEARTBEAT)

    def disconnected(self) -> Reply:
        return self._read_of(DISCONNECT)

    def _read_of(self, op: int) -> Reply:
        reply = self.read()
        assert reply.op == op, reply
        return reply


def said(data: bytes) -> Iterator[bytes]:
    """All that a server said behind its hello, frame by frame; `ValueError` if it cannot be read."""
    if not data.startswith(HELLO_BACK) and not HELLO_BACK.startswith(data):
        raise ValueError(f"no hello: {data[:40]!r}")
    return messages_in(take_frame, data[len(HELLO_BACK) :])


# -- in common words -------------------------------------------------------------------------------

_FOREVER_MS = 2**32 - 1


class Peer(peer.Peer):
    """Requests by their ids, as the contexts of an NNG socket: each is said again on the next connection.

    Every request of a worker asks for a job, so that the answer to a report brings the next one.
    """

    protocol = "memodb"
    lasts = True
    report_asks = True

    def __init__(self, *arguments: Any, **who: Any) -> None:
        super().__init__(*arguments, **who)
        self.requests: dict[int, Request] = {}
        self._ids = numbers(self.rng.getrandbits(30))

    def open(self) -> None:
        self.is_open = False
        self.unread.clear()
        self.say(HELLO)

    def cut(self) -> Reply | None:
        if not self.is_open:
            if len(self.unread) < len(HELLO_BACK):
                return None
            assert self.unread.startswith(HELLO_BACK), self.unread
            del self.unread[: len(HELLO_BACK)]
            self.is_open = True
            for number in list(self.requests):
                self.say_again(number)
        return take_reply(self.unread)

    def answers(self, reply: Reply) -> Iterable[peer.Answer]:
        request = self.requests.pop(reply.request, None)
        if request is None:
            return  # nobody asks for it any more
        if isinstance(request.what, peer.Offer):
            assert (reply.op, reply.worker) == (RESULT, b""), reply
            yield peer.Result(request.what, reply.payload)
            return
        if request.what is not None:
            # What is said of a report says nothing of whether it came in time.
            yield peer.Done(request.what, "maybe" if reply.op == DISCONNECT else "ok")
        if reply.op == HEARTBEAT:
            self._ask(heartbeat(reply.worker))
        elif reply.op == JOB:
            yield peer.Granted(_granted(reply))
        else:
            assert reply.op == DISCONNECT, reply
            yield peer.Nothing("maybe")

    def _ask(self, message: bytes, what: peer.Offer | peer.Grant | None = None) -> None:
        number = next(self._ids)
        self.requests[number] = Request(message, what)
        self.say_again(number)

    def say_again(self, number: int) -> None:
        """Say a request that was not answered."""
        if self.is_open:
            self.say(framed(stack(number) + self.requests[number].message))

    def unanswered(self) -> Sequence[peer.Offer]:
        asked = [request.what for request in self.requests.values()]
        return [what for what in asked if isinstance(what, peer.Offer)]

    def give_up(self, offers: Iterable[peer.Offer]) -> None:
        given_up = set(offers)
        self.requests = {n: r for n, r in self.requests.items() if r.what not in given_up}

    def submit(self, *offers: peer.Offer) -> None:
        for offer in offers:
            self._ask(job(offer.queue, offer.body, offer.reserve * 1_000), offer)

    @staticmethod
    def handle_of(name: str) -> bytes:
        return b"nobody"

    def take(self) -> None:
        self.rng.shuffle(self.queues)
        self._ask(ready(*self.queues))

    def report(self, grant: peer.Grant, word: str, result: bytes = b"") -> None:
        if word == "release":
            self._ask(leaving(grant.handle), grant)
        else:
            goes = True if word == "goodbye" else self.rng.choice((None, False))
            header = _header(RESULT, grant.handle, *([] if goes is None else [goes]))
            self._ask(header + result, grant)


class Request(NamedTuple):
    """What was asked, and for what: the offer, the grant that it reports, or just a job."""

    message: bytes
    what: peer.Offer | peer.Grant | None


def _granted(job: Reply) -> peer.Grant:
    reserve = None if job.timeout_ms in (0, _FOREVER_MS) else job.timeout_ms / 1_000
    return peer.Grant(job.worker, "", job.service, job.payload, reserve, holder=job.worker.hex())


def _vary(offer: peer.Offer, rng: random.Random) -> None:
    offer.reserve = rng.choice((1, 5, 30, 150))


Peer.behaviour = peer.Behaviour(
    vary=_vary,
    producers=(0, 1),
    waiters=(1, 4),
    workers=(1, 4),
    words={"ack": 80, "goodbye": 6, "release": 6, "vanish": 8},
    spans=((1, 800), (1_000, 4_000), (5_000, 50_000), (150_000, 200_000)),
    usual=(70, 20, 9, 1),
    sleepy=(20, 30, 40, 10),
    slots=(1, 1, 3),
    keeps_nothing=True,
    ways=(("wait", ""),),
    has_reserve=True,
    volatile_waits=True,
    waits_at_once=(1, 1, 4),
)
