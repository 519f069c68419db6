"""MemoDB over one blocking socket, small enough to see through: SP's frames, memo01's headers.

It is a witness, not a library: it never reconnects, re-sends or hides an answer. Several clients
and workers may share one connection, as NNG's contexts do: `ask` sends a request and returns its
id, `hear` returns the next reply of any of them. A lost connection and a timeout come out as
`OSError`.
"""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

from tests.support.connection import Connection

READY, JOB, RESULT, HEARTBEAT, DISCONNECT = 1, 2, 3, 4, 5

HELLO = b"\0SP\0\0\x30\0\0"
HELLO_BACK = b"\0SP\0\0\x31\0\0"


# -- memo01 ----------------------------------------------------------------------------------------


class Message(NamedTuple):
    """One message: what it is, whose it is, the rest of its header, its payload."""

    op: int
    worker: bytes
    fields: tuple[object, ...]
    payload: bytes


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


def parse(raw: bytes) -> Message:
    """A message as a server writes it; `ValueError` if it is not written in the one right way."""
    values, end = _take(raw, 0)
    if not isinstance(values, list) or len(values) < 3 or values[0] != "memo01":
        raise ValueError(f"not memo01: {raw[:80]!r}")
    message = Message(values[1], values[2], tuple(values[3:]), raw[end:])
    if _header(message.op, message.worker, *message.fields) != raw[:end]:
        raise ValueError(f"not deterministic CBOR: {raw[:end]!r}")
    return message


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


class MemoDB(Connection):
    """One connection to a listener on a port, or on the path of a unix socket."""

    read_size = 1 << 18

    def __init__(self, where: int | str, *, timeout: float = 10.0) -> None:
        super().__init__(where, timeout=timeout)
        self._lead = b"" if isinstance(where, int) else b"\x01"
        # NNG begins anywhere too: ids of different sockets should not be the same.
        self._last_id = random.getrandbits(31)
        self._socket.sendall(HELLO)
        if self._take(len(HELLO_BACK)) != HELLO_BACK:
            raise ValueError("not an SP server of REP sockets")

    # -- raw -------------------------------------------------------------------------------------

    def ask(self, message: bytes, request_id: int | None = None) -> int:
        """Send a request without waiting for its reply; its id."""
        if request_id is None:
            self._last_id = (self._last_id + 1) % (1 << 31)
            request_id = self._last_id | 1 << 31
        self.send_bytes(self.frame(struct.pack(">I", request_id) + message))
        return request_id

    def frame(self, body: bytes) -> bytes:
        """A body as this kind of connection carries it."""
        return self._lead + struct.pack(">Q", len(body)) + body

    def hear(self) -> tuple[int, Message]:
        """The next reply and the id of its request; `OSError` if the connection ends before."""
        head = self._take(len(self._lead) + 8)
        if head[: len(self._lead)] != self._lead:
            raise ValueError("a message on a unix socket begins with 01")
        (size,) = struct.unpack(">Q", head[-8:])
        body = self._take(size)
        return int.from_bytes(body[:4], "big"), parse(body[4:])

    def call(self, message: bytes) -> Message:
        """Send one request and wait for its reply; nothing else may be under way."""
        asked = self.ask(message)
        heard, reply = self.hear()
        if heard != asked:
            raise ValueError(f"a reply to {heard:x}, not to {asked:x}")
        return reply

    # -- roles -----------------------------------------------------------------------------------

    def run(self, service: str, payload: bytes = b"", timeout_ms: int = 5_000) -> bytes:
        """Have a job done; its result."""
        reply = self.call(job(service, payload, timeout_ms))
        if (reply.op, reply.worker, reply.fields) != (RESULT, b"", ()):
            raise ValueError(f"not a result: {reply!r}")
        return reply.payload

    def work(self, *services: str) -> Message:
        """Offer these services as a worker, and wait through heartbeats for the first job."""
        return self._until_job(self.call(ready(*services)))

    def finish(self, task: Message, payload: bytes = b"") -> Message:
        """Send the result of a job, and wait for the next one."""
        return self._until_job(self.call(result(task.worker, payload)))

    def leave(self, task: Message, payload: bytes = b"") -> Message:
        """Send the result of a job and be gone; the DISCONNECT that answers it."""
        return self.call(result(task.worker, payload, leaving=True))

    def _until_job(self, reply: Message) -> Message:
        while reply.op == HEARTBEAT:
            reply = self.call(heartbeat(reply.worker))
        return reply
