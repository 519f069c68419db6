"""As much CBOR (RFC 8949) as a header needs: written in its one deterministic way, read in any.

Reading is told what must come next and takes nothing else: no tags, no maps, nothing nested that
was not asked for. Lengths may be written longer than need be, or left open. Every function is
given where to begin and where to stop, and returns what it read and where that ends.
"""

from __future__ import annotations

from typing import Final

from franca.core.names import raw_of, text_of

UINT: Final = 0
BYTES: Final = 2
TEXT: Final = 3
ARRAY: Final = 4
OPEN: Final = -1
"""The length of something that goes on until a break."""

PIECES_MAX: Final = 64
"""Pieces of one string whose length is left open."""
_BREAK: Final = 0xFF
_FALSE: Final = 0xF4
_TRUE: Final = 0xF5
_WIDTHS: Final = {24: 1, 25: 2, 26: 4, 27: 8}
_OPEN_INFO: Final = 31


class Malformed(Exception):
    """Not what must stand here."""


class Pieces:
    """How many more pieces the strings of one header may be written in."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


# -- writing --------------------------------------------------------------------------------


def head(major: int, number: int) -> bytes:
    """The shortest way to write a type and its number."""
    first = major << 5
    if number < 24:
        return bytes((first | number,))
    for info, width in _WIDTHS.items():
        if number < 1 << (8 * width):
            return bytes((first | info,)) + number.to_bytes(width, "big")
    raise ValueError(f"{number} is too large for CBOR")


def of_bytes(value: bytes) -> bytes:
    """A byte string."""
    return head(BYTES, len(value)) + value


def of_text(value: str) -> bytes:
    """A text."""
    raw = value.encode()
    return head(TEXT, len(raw)) + raw


def of_name(name: str) -> bytes:
    """A name as the text that it stands for."""
    raw = raw_of(name)
    return head(TEXT, len(raw)) + raw


def of_bool(value: bool) -> bytes:
    """True or false."""
    return bytes((_TRUE if value else _FALSE,))


# -- reading --------------------------------------------------------------------------------


def read_head(data: bytes, at: int, end: int, major: int) -> tuple[int, int]:
    """The number of an item of this type; `OPEN` where its length is left open."""
    if at >= end:
        raise Malformed("the header ends too early")
    first = data[at]
    info = first & 31
    at += 1
    if first >> 5 != major:
        raise Malformed(f"an item of type {first >> 5} where {major} belongs")
    if info < 24:
        return info, at
    if info == _OPEN_INFO and major != UINT:
        return OPEN, at
    width = _WIDTHS.get(info, 0)
    if not width or end - at < width:
        raise Malformed("an item without its length")
    return int.from_bytes(data[at : at + width], "big"), at + width


def at_break(data: bytes, at: int, end: int) -> bool:
    """Whether something of open length ends here."""
    if at >= end:
        raise Malformed("the header ends too early")
    return data[at] == _BREAK


def read_bytes(data: bytes, at: int, end: int, most: int, pieces: Pieces) -> tuple[bytes, int]:
    """A byte string of at most that many bytes."""
    return _read_string(data, at, end, BYTES, most, pieces)


def read_text(data: bytes, at: int, end: int, most: int, pieces: Pieces) -> tuple[str, int]:
    """A text of at most that many bytes of UTF-8."""
    raw, at = _read_string(data, at, end, TEXT, most, pieces)
    try:
        return raw.decode(), at
    except UnicodeDecodeError:
        raise Malformed("a text that is not UTF-8") from None


def read_name(data: bytes, at: int, end: int, most: int, pieces: Pieces) -> tuple[str, int]:
    """The name that a text of at most that many bytes stands for, UTF-8 or not."""
    raw, at = _read_string(data, at, end, TEXT, most, pieces)
    if not raw:
        raise Malformed("an empty name")
    return text_of(raw), at


def _read_string(
    data: bytes, at: int, end: int, major: int, most: int, pieces: Pieces
) -> tuple[bytes, int]:
    size, at = read_head(data, at, end, major)
    if size != OPEN:
        return _read_piece(data, at, end, size, most)
    read: list[bytes] = []
    while not at_break(data, at, end):
        size, at = read_head(data, at, end, major)
        if size == OPEN:
            raise Malformed("an open string inside of an open string")
        if len(read) >= PIECES_MAX or not pieces.left:
            raise Malformed("strings of too many pieces")
        piece, at = _read_piece(data, at, end, size, most)
        most -= size
        pieces.left -= 1
        read.append(piece)
    return b"".join(read), at + 1


def _read_piece(data: bytes, at: int, end: int, size: int, most: int) -> tuple[bytes, int]:
    if size > most or size > end - at:
        raise Malformed("a string that is too long")
    return data[at : at + size], at + size


def read_uint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A whole number that is not negative."""
    return read_head(data, at, end, UINT)


def read_bool(data: bytes, at: int, end: int) -> tuple[bool, int]:
    """True or false."""
    if at >= end or data[at] not in (_FALSE, _TRUE):
        raise Malformed("neither true nor false")
    return data[at] == _TRUE, at + 1
