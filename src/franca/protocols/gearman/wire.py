"""Gearman's bytes: packets and lines as a server reads and writes them.

A packet is twelve bytes of header (magic, type, size) and arguments with a NUL between two of
them. The last argument has no NUL behind it and may be any bytes. What begins with any other
byte than NUL is a line of text.
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from typing import Final

from franca.core.errors import WireError
from franca.protocols.buffer import HTTP_METHODS, PartialBytes

HEADER: Final = struct.Struct(">III")
HEADER_SIZE: Final = 12
REQ: Final = int.from_bytes(b"\0REQ", "big")
RES: Final = int.from_bytes(b"\0RES", "big")
TYPES: Final = 43
"""One more than the highest packet type."""

LINE_BYTES_MAX: Final = 8_192
UNIQUE_BYTES_MAX: Final = 64
HANDLE_BYTES_MAX: Final = 63
OPTION_BYTES_MAX: Final = 63
CLIENT_ID_BYTES_KEPT: Final = 127
SPARE_BYTES: Final = 64
"""How many bytes beyond its limit are searched for the end of a handle or id. Longer ones are of no
use, and to search millions of bytes would delay all other peers."""
LONG_BYTES: Final = 4_096
"""Longer data is written by itself, not copied behind its header."""

SEARCHED_AT_ONCE: Final = 64
"""Functions, or clients, that are looked at in about the time that most packets take."""

_pack = HEADER.pack
_unpack = HEADER.unpack_from
_HANDLE_LOOK: Final = HANDLE_BYTES_MAX + SPARE_BYTES


class Packet(IntEnum):
    """The packet types."""

    CAN_DO = 1
    CANT_DO = 2
    RESET_ABILITIES = 3
    PRE_SLEEP = 4
    NOOP = 6
    SUBMIT_JOB = 7
    JOB_CREATED = 8
    GRAB_JOB = 9
    NO_JOB = 10
    JOB_ASSIGN = 11
    WORK_STATUS = 12
    WORK_COMPLETE = 13
    WORK_FAIL = 14
    GET_STATUS = 15
    ECHO_REQ = 16
    ECHO_RES = 17
    SUBMIT_JOB_BG = 18
    ERROR = 19
    STATUS_RES = 20
    SUBMIT_JOB_HIGH = 21
    SET_CLIENT_ID = 22
    CAN_DO_TIMEOUT = 23
    ALL_YOURS = 24
    WORK_EXCEPTION = 25
    OPTION_REQ = 26
    OPTION_RES = 27
    WORK_DATA = 28
    WORK_WARNING = 29
    GRAB_JOB_UNIQ = 30
    JOB_ASSIGN_UNIQ = 31
    SUBMIT_JOB_HIGH_BG = 32
    SUBMIT_JOB_LOW = 33
    SUBMIT_JOB_LOW_BG = 34
    SUBMIT_JOB_SCHED = 35
    SUBMIT_JOB_EPOCH = 36
    SUBMIT_REDUCE_JOB = 37
    SUBMIT_REDUCE_JOB_BACKGROUND = 38
    GRAB_JOB_ALL = 39
    JOB_ASSIGN_ALL = 40
    GET_STATUS_UNIQUE = 41
    STATUS_RES_UNIQUE = 42


# -- what is in arguments ------------------------------------------------------------------

_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_PLAIN_NUMBER: Final = re.compile(rb"[+-]?[0-9]+(\.[0-9]+)?")
_NUMBER_BYTES: Final = 40
_INT64_MAX: Final = (1 << 63) - 1
_ON_ONE_LINE: Final = bytes(byte if byte > 31 or byte == 9 else 63 for byte in range(256))


def number_in(text: bytes) -> int:
    """The number at the front of a text as C reads it: 0 if there is none, 64 bits at most."""
    match = _NUMBER.match(text[:_NUMBER_BYTES])
    return max(min(int(match[1]), _INT64_MAX), -_INT64_MAX - 1) if match else 0


def number_text(text: bytes) -> bytes:
    """A number as it was sent; other text as the original keeps it."""
    if len(text) <= _NUMBER_BYTES and _PLAIN_NUMBER.fullmatch(text):
        return text
    return b"%d" % (number_in(text) & 0xFFFFFFFF)


def on_one_line(text: bytes) -> bytes:
    """The text with `?` for control characters, which would break a list."""
    return text.translate(_ON_ONE_LINE)


def without_nuls(text: bytes, most: int) -> bytes:
    """A text that should have `most` bytes, without NULs behind it; a long one as it is."""
    return text.rstrip(b"\0") if len(text) <= most + SPARE_BYTES else text


def split_handle(body: bytes) -> tuple[bytes, bytes]:
    """A handle and what follows it; the beginning of one that is too long for any job."""
    if len(body) > LONG_BYTES and body.find(b"\0", 0, _HANDLE_LOOK) < 0:
        return body[:_HANDLE_LOOK], b""
    handle, _, rest = body.partition(b"\0")
    return handle, rest


# -- reading ---------------------------------------------------------------------------------

LARGE_BYTES: Final = 1024 * 1024
"""A packet so large that it is gathered by itself, to be copied as little as can be."""
LINE: Final = 0
"""The type of a message that is a line of text, with its end."""
NOT_A_REQUEST: Final = -1
"""The type of a packet that only a server sends."""
TOO_LARGE: Final = "too-large"
_MAGICS: Final = (b"\0REQ", b"\0RES")


class PacketReader:
    """Cuts packets and lines, each handed out as its type and its body.

    `is_first` of a message that came when nothing else was unread: its sender had read what it was
    answered before. `_needed` is how many bytes the message in front has, if not all are there;
    the body of a large one is gathered in `_large`, with its header in front of what follows it.
    """

    __slots__ = ("_at", "_body_max", "_data", "_large", "_needed", "_part", "has_input", "is_first")

    def __init__(self, body_max: int) -> None:
        self.is_first = False
        self._body_max = body_max
        self._needed = 0
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self._data = b""
        self._at = 0
        self._part = bytearray()
        self._large: PartialBytes | None = None
        self.has_input = False

    def __len__(self) -> int:
        large = self._large
        kept = len(self._data) - self._at + len(self._part)
        return kept if large is None else kept + large.have

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self._large is not None:
            data = data[self._large.feed(data) :]
            self._part += data
            self.has_input = self._large.is_whole
        elif self._part:
            self._part += data
            self.has_input = len(self._part) >= self._needed
        elif self._data:
            self._wait(self._data, self._at, 0)
            self._part += data
            self.has_input = True
        else:
            self._data = data
            self.has_input = self.is_first = True

    def next_message(self, data: bytes = b"") -> tuple[int, bytes] | None:
        """The next message; None until more bytes come."""
        if data and not (self._part or self._data):  # as nearly always: nothing need be kept
            at, self.is_first = 0, True
        else:
            if data:
                self.feed(data)
                if not self.has_input:
                    return None
            if self._part:
                if self._large is not None:
                    return self._take_large(self._large)
                self._data = bytes(self._part)
                self._part.clear()
            data, at = self._data, self._at
        have = len(data)
        if data[at]:
            end = self._line_end(data, at)
            if end < 0:
                return None
            message = LINE, data[at:end]
        else:
            start = at + HEADER_SIZE
            if start > have:
                self._await_header(data, at)
                return None
            magic, number, length = _unpack(data, at)
            end = start + length
            if magic != REQ or not 0 < number < TYPES or end > have or length > self._body_max:
                self._check(magic, number, length)
                if end > have:
                    self._wait(data, at, end - at)
                    return None
                number = NOT_A_REQUEST
            message = number, data[start:end]
        if end < have:
            self._data, self._at, self.has_input = data, end, True
        elif self._data:
            self._data, self._at, self.has_input = b"", 0, False
        return message

    def _wait(self, data: bytes, at: int, needed: int) -> None:
        """Keep what is there of a message until it has as many bytes as are needed."""
        self._part += memoryview(data)[at:]
        self._data = b""
        self._at = 0
        self._needed = needed
        self.has_input = False
        if needed > LARGE_BYTES:
            self._large = PartialBytes(needed - HEADER_SIZE)
            self._large.feed(bytes(self._part[HEADER_SIZE:]))
            del self._part[HEADER_SIZE:]

    def _take_large(self, large: PartialBytes) -> tuple[int, bytes] | None:
        if not large.is_whole:
            self.has_input = False
            return None
        magic, number, _ = _unpack(self._part)
        self._data = bytes(self._part[HEADER_SIZE:])
        self._part.clear()
        self._large = None
        self.has_input = len(self._data) > 0
        return number if magic == REQ else NOT_A_REQUEST, large.value()

    def _await_header(self, data: bytes, at: int) -> None:
        """WireError as soon as the first bytes of a packet show that it is not Gearman's."""
        if not any(magic.startswith(data[at : at + 4]) for magic in _MAGICS):
            raise WireError("not-gearman", "")
        # Four bytes show whether it is a packet at all.
        self._wait(data, at, HEADER_SIZE if len(data) - at >= 4 else len(data) - at + 1)

    def _check(self, magic: int, number: int, length: int) -> None:
        """WireError if a packet with this header would be refused in any case."""
        if magic not in (REQ, RES) or not 0 < number < TYPES:
            raise WireError("not-gearman", "")
        if length > self._body_max:
            raise WireError(TOO_LARGE, f"a packet may have {self._body_max} bytes, not {length}")

    def _line_end(self, data: bytes, at: int) -> int:
        """Where the line that begins at `at` ends, or -1 until that is known."""
        if data.startswith(HTTP_METHODS, at):
            raise WireError("http", "")  # a web page must not be able to send commands
        end = data.find(b"\n", at, at + LINE_BYTES_MAX) + 1
        if end:
            return end
        if len(data) - at >= LINE_BYTES_MAX:
            raise WireError("line-too-long", "")
        self._wait(data, at, len(data) - at + 1)
        return -1


# -- what a server writes ------------------------------------------------------------------


class ErrorReply(Exception):
    """A message is not acted on; this is the answer to it."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply


def response(number: int, body: bytes = b"") -> bytes:
    """A packet from the server."""
    return _pack(RES, number, len(body)) + body


def error(code: str, text: str) -> bytes:
    """An ERROR packet."""
    return response(Packet.ERROR, code.encode() + b"\0" + text.encode("utf-8", "replace"))


MISSING: Final = error("INVALID_PACKET", "The packet has too few arguments")
NOOP: Final = response(Packet.NOOP)
NO_JOB: Final = response(Packet.NO_JOB)
FUNCTION_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Function name too large")
