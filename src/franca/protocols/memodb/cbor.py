"""As much CBOR (RFC 8949) as a header needs: written in its one deterministic way, read in any.

Reading is told what must come next and takes nothing else: no tags, no maps, nothing nested that
was not asked for. Lengths may be written longer than need be, or left open.
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


def of_text(value: bytes) -> bytes:
    """A text, of which the UTF-8 is given."""
    return head(TEXT, len(value)) + value


def of_name(name: str) -> bytes:
    """A name as the text that it stands for."""
    return of_text(raw_of(name))


# -- reading --------------------------------------------------------------------------------


class Decoder:
    """Reads items from `at` on, and nothing from `end` on. `Malformed` if one is something else.

    All strings together may be written in so many `pieces`.
    """

    __slots__ = ("_data", "_end", "_pieces", "at")

    def __init__(self, data: bytes, at: int, end: int, pieces: int) -> None:
        self.at = at
        self._data = data
        self._end = end
        self._pieces = pieces

    def head(self, major: int) -> int:
        """The number of an item of this type; `OPEN` where its length is left open."""
        first = self._peek()
        info = first & 31
        self.at += 1
        if first >> 5 != major:
            raise Malformed(f"an item of type {first >> 5} where {major} belongs")
        if info < 24:
            return info
        if info == _OPEN_INFO and major != UINT:
            return OPEN
        width = _WIDTHS.get(info, 0)
        if not width:
            raise Malformed("an item without its length")
        return int.from_bytes(self._take(width), "big")

    def is_at_break(self) -> bool:
        """Whether something of open length ends here."""
        return self._peek() == _BREAK

    def end_open(self) -> None:
        """Read the break that ends something of open length."""
        if not self.is_at_break():
            raise Malformed("too many items")
        self.at += 1

    def string(self, major: int, most: int) -> bytes:
        """A byte string, or the bytes of a text, of at most that many."""
        size = self.head(major)
        if size != OPEN:
            return self._take(size, most)
        read: list[bytes] = []
        while not self.is_at_break():
            size = self.head(major)
            if size == OPEN:
                raise Malformed("an open string inside of an open string")
            if len(read) >= PIECES_MAX or not self._pieces:
                raise Malformed("strings of too many pieces")
            read.append(self._take(size, most))
            most -= size
            self._pieces -= 1
        self.at += 1
        return b"".join(read)

    def name(self, most: int) -> str:
        """The name that a text of at most that many bytes stands for, UTF-8 or not."""
        raw = self.string(TEXT, most)
        if not raw:
            raise Malformed("an empty name")
        return text_of(raw)

    def boolean(self) -> bool:
        """True or false."""
        first = self._peek()
        if first not in (_FALSE, _TRUE):
            raise Malformed("neither true nor false")
        self.at += 1
        return first == _TRUE

    def _peek(self) -> int:
        if self.at >= self._end:
            raise Malformed("the header ends too early")
        return self._data[self.at]

    def _take(self, size: int, most: int = 8) -> bytes:
        start = self.at
        if size > most or size > self._end - start:
            raise Malformed("an item that is too long")
        self.at = start + size
        return self._data[start : start + size]
