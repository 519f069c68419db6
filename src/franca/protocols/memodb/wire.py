"""Bytes to messages and back: the CBOR headers of memo01 inside of SP's requests."""

from __future__ import annotations

from typing import Final

from franca.protocols.memodb import cbor, messages, sp
from franca.protocols.memodb.cbor import OPEN, Decoder, Malformed
from franca.protocols.memodb.messages import HEARTBEAT, JOB, READY, RESULT, Header, Message
from franca.protocols.memodb.sp import (
    HEAD_BYTES,
    ID_BIT,
    LENGTH_BYTES,
    MESSAGE,
    NOBODY,
    WORD,
    Inbox,
    length_at,
)

VERSION: Final = b"memo01"
_ITEMS: Final = {
    READY: (4, 4),
    JOB: (5, 5),
    RESULT: (3, 4),
    HEARTBEAT: (3, 3),
    messages.DISCONNECT: (3, 3),
}
SERVICES_MAX: Final = 1_024
"""Services that one worker may offer."""
HEADER_PIECES_MAX: Final = 1_024
"""Pieces in which all strings of a header may be written."""
HEADER_BYTES_MAX: Final = 2 * 1024 * 1024
"""No header is longer: that of a READY with as many services as there may be."""
GLANCE_BYTES: Final = 128
"""How much of a message that has only begun to come is looked at: enough for any usual header."""
LARGE_BYTES: Final = 64 * 1024
"""Messages beyond this are treated one by one."""
ID_BYTES: Final = 8
"""The length of a worker's id."""
KNOWN_MAX: Final = 1_024
SHORT_BYTES: Final = 64
"""A JOB's header of more bytes than this is not remembered: there may be no end of them."""
_UINT_BYTES: Final = bytes([*[1] * 24, 2, 3, 5, 9, *[0] * 228])
"""How many bytes a whole number takes, by its first."""


# -- writing --------------------------------------------------------------------------------


def begin(op: int, items: int) -> bytes:
    """The part of a header before the id."""
    return cbor.head(cbor.ARRAY, items) + cbor.of_text(VERSION) + cbor.head(cbor.UINT, op)


def task(service: str, timeout_ms: int) -> bytes:
    """The part of a JOB's header behind the id."""
    return cbor.of_name(service) + cbor.head(cbor.UINT, timeout_ms)


def encode_disconnect(worker_id: bytes) -> bytes:
    """Begin anew with READY."""
    return begin(messages.DISCONNECT, 3) + cbor.of_bytes(worker_id)


RESULT_HEAD: Final = begin(RESULT, 3) + cbor.of_bytes(b"")
"""What stands before a result that a client is sent."""
USUAL_JOB: Final = begin(JOB, 5) + cbor.of_bytes(b"")
USUAL_RESULT: Final = begin(RESULT, 3) + bytes((0x40 | ID_BYTES,))
USUAL: Final = len(USUAL_JOB)
"""Bytes of a header up to where its id or name begins, written as nearly everybody does."""
_RESULT_END: Final = WORD + USUAL + ID_BYTES


# -- reading --------------------------------------------------------------------------------


def read_header(data: bytes, at: int, end: int, name_bytes_max: int) -> Header:
    """The header that begins at `at`; `Malformed` if there is none."""
    decoder = Decoder(data, at, end, HEADER_PIECES_MAX)
    items = decoder.head(cbor.ARRAY)
    if decoder.string(cbor.TEXT, len(VERSION)) != VERSION:
        raise Malformed("another version")
    op = decoder.head(cbor.UINT)
    least, most = _ITEMS.get(op, (0, 0))
    if not most or (items != OPEN and not least <= items <= most):
        raise Malformed(f"message {op} with {items} items")
    header = Header(op, decoder.string(cbor.BYTES, name_bytes_max))
    if op == READY:
        header.services = _read_services(decoder, name_bytes_max)
    elif op == JOB:
        header.service = decoder.name(name_bytes_max)
        header.timeout_ms = decoder.head(cbor.UINT)
    elif op == RESULT and (items == 4 or (items == OPEN and not decoder.is_at_break())):
        header.leaving = decoder.boolean()
    if items == OPEN:
        decoder.end_open()
    header.end = decoder.at
    return header


def _read_services(decoder: Decoder, name_bytes_max: int) -> tuple[str, ...]:
    """A list of names, in any order; one that is named twice is offered once."""
    count = decoder.head(cbor.ARRAY)
    if count > SERVICES_MAX:
        raise Malformed(f"{count} services")
    services: dict[str, None] = {}
    for _ in range(SERVICES_MAX if count == OPEN else count):
        if count == OPEN and decoder.is_at_break():
            break
        services[decoder.name(name_bytes_max)] = None
    if count == OPEN:
        decoder.end_open()
    return tuple(services)


def job_header_end(data: bytes, at: int, end: int) -> int:
    """Where the header of a usual JOB ends that begins at `at`; 0 if its name is a long one.

    A guess, if what stands there is no header: whoever knows it by its bytes has read it before.
    """
    named = at + USUAL
    number = named + 1 + data[named] - (cbor.TEXT << 5) if named < end else end
    if named < number < end:
        stop = number + _UINT_BYTES[data[number]]
        if stop <= end:
            return stop
    return 0


class MessageReader(Inbox):
    """Cuts what a peer sends into messages.

    `known` has the headers of JOBs that any connection has sent, by the bytes behind their usual
    beginning. Most jobs of a connection have the same, which is compared before the others.
    """

    def __init__(
        self, size_max: int, name_max: int, known: dict[bytes, Header], *, unix: bool
    ) -> None:
        super().__init__(size_max, unix=unix)
        self._name_max = name_max
        self._known = known
        self._job_start, self._job_end = b"", WORD
        self._header: Header | None = None
        self._put_back: Message | None = None

    def put_back(self, message: Message | sp.Parts) -> None:
        """Hand out a message once more, before all others; of one in parts, what has come."""
        if isinstance(message, Message):
            self._put_back = message
            self._is_plain = False
        self.resume()

    def next_message(self, data: bytes = b"") -> Message | None:
        """The next whole message, or None until more bytes come.

        A `WireError` as soon as it is plain that it is none at all.
        """
        if self._is_plain:
            at = self._at
            if not data:
                data = self._data
            elif self._data:
                data, at = self._data[at:] + data, 0
            have = len(data)
            start = at + self._head
            if start <= have and not (self._unix and data[at] != MESSAGE):
                end = start + length_at(data, start - LENGTH_BYTES)[0]
                if end <= have and end - start <= self._size_max:
                    if end < have:
                        self._data, self._at, self.has_input = data, end, True
                    elif self._data:
                        self._data, self._at, self.has_input = b"", 0, False
                    data = data[start:end]
                    have = end - start
                    # Nearly all are such: without a call this takes 3 % less of a request.
                    if have > WORD and data[0] >= ID_BIT:
                        end = self._job_end
                        if self._header is not None and data[WORD:end] == self._job_start:
                            rest, size, last = data[end:], have - end, self._header
                            stack = data[:WORD]
                            return Message(JOB, stack, data, WORD, end, rest, size, True, b"", last)
                        end = _RESULT_END
                        if have >= end and data[WORD : end - ID_BYTES] == USUAL_RESULT:
                            rest, size, name = data[end:], have - end, data[end - ID_BYTES : end]
                            stack = data[:WORD]
                            return Message(RESULT, stack, data, WORD, end, rest, size, True, name)
                    return self._message(data)
            self._data, self._at, data = data, at, b""
        return self._next_of_others(data)

    def _next_of_others(self, data: bytes) -> Message | None:
        """The same of what is not plain: the hello, what was put back, and what comes in parts."""
        if self._put_back is not None:
            if data:
                self.feed(data)
            message, self._put_back = self._put_back, None
            self.has_input = self.has_more()
            self._is_plain = self.parts is None
            return message
        cut = self.cut(data)
        if isinstance(cut, bytes):
            return self._message(cut)
        if isinstance(cut, sp.Parts):
            if cut.size <= LARGE_BYTES and not cut.too_large:
                return self._message(cut.rest(0))
            return self._message(cut.head(HEAD_BYTES), cut)
        if isinstance(cut, sp.Hello):
            return Message(messages.HELLO, b"", b"", 0, 0)
        if self.parts is not None:
            self._glance(self.parts)
        return None

    def _message(self, data: bytes, parts: sp.Parts | None = None) -> Message:
        """The message that stands there; `data` is only its beginning, if it has `parts`."""
        at = WORD
        if len(data) < WORD or data[0] < ID_BIT:
            at = sp.stack_end(data, 0, len(data))
            if at < 0:
                op = messages.NOT_ADDRESSED if at == NOBODY else messages.IGNORED
                return Message(op, b"", data, 0, 0, is_large=parts is not None)
        named = at + USUAL
        usual = data[at:named]
        if usual == USUAL_JOB:
            end = job_header_end(data, at, len(data))
            self._header = header = self._known.get(data[named:end])
            if header is None:
                return self._unusual(data, at, parts)
            self._job_start, self._job_end = data[at:end], end - at + WORD
            op, worker_id = JOB, b""
        elif usual == USUAL_RESULT and named + ID_BYTES <= len(data):
            end = named + ID_BYTES
            op, worker_id, header = RESULT, data[named:end], None
        else:
            return self._unusual(data, at, parts)
        if parts is None:
            size = len(data) - end
            return Message(op, data[:at], data, at, end, data[end:], size, True, worker_id, header)
        payload, size = parts.rest(end), parts.size - end
        return Message(op, data[:at], data, at, end, payload, size, False, worker_id, header, True)

    def _unusual(self, data: bytes, at: int, parts: sp.Parts | None) -> Message:
        """A message that is written in another way than most."""
        try:
            header = read_header(data, at, len(data), self._name_max)
        except Malformed:
            if parts is not None and len(data) == HEAD_BYTES and not parts.too_large:
                # Its header may be longer than what was looked at; no payload follows a READY.
                return self._unusual(parts.head(HEADER_BYTES_MAX), at, parts)
            return Message(messages.IGNORED, b"", data, at, len(data), is_large=parts is not None)
        if header.op == JOB:
            # Only what follows the usual beginning can be found by its bytes next time.
            named = at + USUAL
            self._learn(header, data[named : header.end] if data[at:named] == USUAL_JOB else b"")
        message = Message(header.op, data[:at], data, at, header.end, header=header)
        message.id = header.id
        message.is_large = parts is not None
        message.payload = data[header.end :] if parts is None else parts.rest(header.end)
        message.size = (len(data) if parts is None else parts.size) - header.end
        return message

    def _learn(self, header: Header, said: bytes) -> None:
        if len(header.service) > SHORT_BYTES:
            header.task = cbor.head(cbor.UINT, header.timeout_ms)
            return
        header.task = task(header.service, header.timeout_ms)
        if said and len(said) <= SHORT_BYTES:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[said] = header

    def _glance(self, parts: sp.Parts) -> None:
        """More of a large message has come: see what it is, once. Its payload is gathered apart."""
        is_large = parts.size > LARGE_BYTES or parts.too_large
        if not is_large or parts.op is not None or parts.have < GLANCE_BYTES:
            return
        parts.op = messages.IGNORED
        head = parts.head(GLANCE_BYTES)
        at = sp.stack_end(head, 0, GLANCE_BYTES)
        usual = head[at : at + USUAL]
        if parts.too_large:
            try:
                parts.op = read_header(head, max(at, 0), len(head), self._name_max).op
            except Malformed:
                pass
        elif usual == USUAL_JOB:
            parts.set_body(job_header_end(head, at, GLANCE_BYTES) or at)
            parts.op = JOB
        elif usual == USUAL_RESULT:
            parts.set_body(at + USUAL + ID_BYTES)
