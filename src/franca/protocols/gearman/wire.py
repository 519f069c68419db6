"""Gearman's bytes, for both roles: what a server writes, what a client or worker writes and reads.

A packet is twelve bytes of header (magic, type, size) and arguments with a NUL between two of
them. The last argument has no NUL behind it and may be any bytes. What begins with any other
byte than NUL is a line of text.
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from typing import Final, NamedTuple

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
"""How many bytes beyond the longest that it may be are looked at to find where a handle or id ends.
Longer ones are of no use to anybody, and looking through millions of bytes holds everybody up."""
LONG_BYTES: Final = 4_096
"""Data beyond this is not copied only to stand behind its header."""

SEARCHED_AT_ONCE: Final = 64
"""Functions, or clients, that are looked at in about the time that most packets take."""

_pack = HEADER.pack
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
    """A number as it was sent; what is none, as the original keeps it."""
    if len(text) <= _NUMBER_BYTES and _PLAIN_NUMBER.fullmatch(text):
        return text
    return b"%d" % (number_in(text) & 0xFFFFFFFF)


def on_one_line(text: bytes) -> bytes:
    """The text without what would break the list in which it is shown."""
    return text.translate(_ON_ONE_LINE)


def without_nuls(text: bytes, most: int) -> bytes:
    """A text that should have `most` bytes, without NULs behind it; a long one as it is."""
    return text.rstrip(b"\0") if len(text) <= most + SPARE_BYTES else text


def part_handle(body: bytes) -> tuple[bytes, bytes]:
    """A handle and what stands behind it; the front of one that is too long for any job."""
    if len(body) > LONG_BYTES and body.find(b"\0", 0, _HANDLE_LOOK) < 0:
        return body[:_HANDLE_LOOK], b""
    handle, _, rest = body.partition(b"\0")
    return handle, rest


# -- the server's words --------------------------------------------------------------------


def response(number: int, body: bytes = b"") -> bytes:
    """A packet from the server."""
    return _pack(RES, number, len(body)) + body


def error(code: str, text: str) -> bytes:
    """An ERROR packet."""
    return response(Packet.ERROR, code.encode() + b"\0" + text.encode("utf-8", "replace"))


MISSING: Final = error("INVALID_PACKET", "The packet has too few arguments")
NOOP: Final = response(Packet.NOOP)
NO_JOB: Final = response(Packet.NO_JOB)


# -- the words of clients and workers --------------------------------------------------------


def request(number: int, *arguments: bytes) -> bytes:
    """A packet to the server."""
    body = b"\0".join(arguments)
    return _pack(REQ, number, len(body)) + body


class Message(NamedTuple):
    """What a server said: a packet's type and body, or a line of text with type 0."""

    number: int
    body: bytes

    @property
    def arguments(self) -> list[bytes]:
        """The body cut at every NUL."""
        return self.body.split(b"\0")


def parse_response(unread: bytearray) -> Message | None:
    """Take the first packet or line off `unread`, or None until all of it is there."""
    if not unread:
        return None
    if unread[0]:
        end = unread.find(b"\n") + 1
        if not end:
            return None
        message = Message(0, bytes(unread[:end]))
    else:
        if len(unread) < HEADER_SIZE:
            return None
        magic, number, size = HEADER.unpack_from(unread)
        if magic != RES:
            raise ValueError(f"not a response: {bytes(unread[:80])!r}")
        end = HEADER_SIZE + size
        if len(unread) < end:
            return None
        message = Message(number, bytes(unread[HEADER_SIZE:end]))
    del unread[:end]
    return message
