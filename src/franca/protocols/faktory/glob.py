"""Redis patterns: `*`, `?`, `[a-z]`, `[^a]`, and `\\` before any of them.

A pattern is cut into pieces at its stars. Each piece is matched at the first place where it fits,
without backtracking, which finds every match; the last piece can only be at the end. A piece of
plain bytes is found by `bytes.find`. One with wildcards is looked for at many places at once: each
place is a bit, and each element of the piece clears the bits where it does not fit. So the time
grows with the text and hardly with the pattern; it is spent in shares, because both may be large.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from msgspec import Struct

PLACES_AT_FIRST: Final = 256
PLACES_AT_ONCE: Final = 16 * 1024
BYTES_AT_ONCE: Final = 1024 * 1024
_FIND_COST: Final = 3
_BITS_COST: Final = 2
_CALL_COST: Final = 500
"""About the nanoseconds that a byte takes to be compared, to become a bit, and a call at most."""
_PLACES_A_NANOSECOND: Final = 32

_NO: Final = b"0"
_YES: Final = b"1"
_ALL: Final = _YES * 256
_SINGLES: Final = [_NO * byte + _YES + _NO * (255 - byte) for byte in range(256)]
_STAR, _ANY, _OPEN, _CLOSE, _ESCAPE = b"*?[]\\"


class Share(Struct):
    """What may be spent before others must be served, in about nanoseconds."""

    left: int = 0


Search = Generator[None, None, bool]
"""Work that pauses whenever the share is used up, and whether the text fits."""


class Glob:
    """A pattern, ready to be matched. `classes` is how many different classes it has."""

    def __init__(self, pattern: bytes) -> None:
        tables: dict[bytes, bytes] = {}
        pieces = [_Piece(piece) for piece in _parsed(pattern, tables)]
        self.classes = len(tables)
        self._bytes_min = sum(piece.size for piece in pieces)
        self._first = pieces[0]
        self._last = pieces[-1] if len(pieces) > 1 else None
        self._middle = [piece for piece in pieces[1:-1] if piece.size]

    def match(self, text: bytes, share: Share) -> Search:
        """Whether all of the text is what the pattern describes."""
        first, last = self._first, self._last
        size = len(text)
        if size < self._bytes_min or (last is None and size > first.size):
            return False
        at = first.size
        if (yield from first.find(text, 0, at, share)) < 0:
            return False
        if last is None:
            return True
        end = size - last.size
        if (yield from last.find(text, end, size, share)) < 0:
            return False
        for piece in self._middle:
            at = yield from piece.find(text, at, end, share)
            if at < 0:
                return False
            at += piece.size
        return True


class _Piece:
    """What stands between two stars: plain bytes, or a table of what fits for some places."""

    def __init__(self, tables: list[bytes]) -> None:
        self.size = len(tables)
        self._literal: bytes | None = None
        if all(table.count(_YES) == 1 for table in tables):
            self._literal = bytes(table.index(_YES) for table in tables)
        self._tables = [(place, table) for place, table in enumerate(tables) if table != _ALL]

    def find(self, text: bytes, start: int, end: int, share: Share) -> Generator[None, None, int]:
        """The first place between these two where all of the piece fits, or -1."""
        literal = self._literal
        # Most pieces with wildcards are found near the start, or not at all.
        most = PLACES_AT_FIRST if literal is None else BYTES_AT_ONCE
        while start + self.size <= end:
            stop = min(start + most + self.size - 1, end)
            if literal is None:
                found = self._find_wild(text[start:stop], share)
                found += start if found >= 0 else 0
            else:
                found = text.find(literal, start, stop)
                looked_at = (stop if found < 0 else found) - start + self.size
                share.left -= _FIND_COST * looked_at + _CALL_COST
            if share.left <= 0:
                yield
            if found >= 0:
                return found
            start += most
            most = PLACES_AT_ONCE if literal is None else BYTES_AT_ONCE
        return -1

    def _find_wild(self, window: bytes, share: Share) -> int:
        count = len(window) - self.size + 1
        places = (1 << count) - 1
        backwards = window[::-1]  # so that the first byte becomes the lowest bit
        bits: dict[bytes, int] = {}
        tried = 0
        for offset, table in self._tables:
            fitting = bits.get(table)
            if fitting is None:
                fitting = bits[table] = int(backwards.translate(table), 2)
            places &= fitting >> offset
            tried += 1
            if not places:
                break
        share.left -= len(bits) * (_CALL_COST + _BITS_COST * len(window))
        share.left -= (tried + 1) * (_CALL_COST + count // _PLACES_A_NANOSECOND)
        return (places & -places).bit_length() - 1


def _parsed(pattern: bytes, tables: dict[bytes, bytes]) -> list[list[bytes]]:
    """The pieces of a pattern, each a table for each of its places; those of classes are shared."""
    pieces: list[list[bytes]] = [[]]
    at = 0
    while at < len(pattern):
        byte = pattern[at]
        at += 1
        if byte == _STAR:
            pieces.append([])
        elif byte == _ANY:
            pieces[-1].append(_ALL)
        elif byte == _OPEN:
            table, at = _class(pattern, at)
            pieces[-1].append(tables.setdefault(table, table))
        else:
            if byte == _ESCAPE and at < len(pattern):
                byte = pattern[at]
                at += 1
            pieces[-1].append(_SINGLES[byte])
    return pieces


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The table of the class that begins behind a `[`, and where the pattern goes on."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    no, yes = (_YES, _NO) if negated else (_NO, _YES)
    table = bytearray(no * 256)
    while at < len(pattern) and pattern[at] != _CLOSE:
        low = high = pattern[at]
        if low == _ESCAPE and at + 1 < len(pattern):
            at += 1
            low = high = pattern[at]
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            at += 2
            low, high = sorted((low, pattern[at]))
        at += 1
        table[low : high + 1] = yes * (high + 1 - low)
    return bytes(table), at + 1
