"""Gearman's bytes as clients and workers write and read them."""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEADER = struct.Struct(">4sII")


def request(number: int, *arguments: bytes) -> bytes:
    """A packet to the server."""
    body = b"\0".join(arguments)
    return _HEADER.pack(b"\0REQ", number, len(body)) + body


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
        if len(unread) < _HEADER.size:
            return None
        magic, number, size = _HEADER.unpack_from(unread)
        if magic != b"\0RES":
            raise ValueError(f"not a response: {bytes(unread[:80])!r}")
        end = _HEADER.size + size
        if len(unread) < end:
            return None
        message = Message(number, bytes(unread[_HEADER.size : end]))
    del unread[:end]
    return message
