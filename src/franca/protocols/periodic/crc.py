"""Large data that is sent to peers: kept once, and its CRC computed once for all its frames.

A frame's CRC covers an id in front of the data, so each frame has another one. But the CRC of two
parts follows from the CRCs of the parts and the size of the second.
"""

from __future__ import annotations

from functools import cache
from typing import Final
from zlib import crc32

BULK_BYTES: Final = 64 * 1024
"""Data from this size on is not copied into a frame of its own."""
SHARED_BYTES: Final = 512
"""Nor is smaller data from this size on, if it is sent more than once."""
MANY: Final = 64
"""Frames from which on tables pay: making them takes as long as so many products."""
_POLYNOMIAL: Final = 0xEDB8_8320
_ONE: Final = 1 << 31


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo the CRC's; the highest bit is the lowest power."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = (a << 1) & 0xFFFF_FFFF
        b = (b >> 1) ^ (_POLYNOMIAL if b & 1 else 0)
    return product


@cache
def _power(bit: int) -> int:
    """What a CRC is multiplied by when 2 ** bit bytes follow."""
    return _times(_power(bit - 1), _power(bit - 1)) if bit else _ONE >> 8


def _factor_of(size: int) -> int:
    """What a CRC is multiplied by when so many bytes follow."""
    factor = _ONE
    for bit in range(size.bit_length()):
        if size >> bit & 1:
            factor = _times(_power(bit), factor)
    return factor


def _tables_of(factor: int) -> list[list[int]]:
    """For each byte of a CRC, what its values add to the product with this factor."""
    tables: list[list[int]] = []
    for byte in range(4):
        table = [0]
        for bit in range(8 * byte, 8 * byte + 8):
            product = _times(factor, 1 << bit)
            table += [product ^ entry for entry in table]
        tables.append(table)
    return tables


class Shared:
    """Data of one or more frames. Of data in several pieces only `size` and `crc` are given."""

    def __init__(self, data: bytes, size: int = 0, crc: int = -1) -> None:
        self.data = data
        self.size = size or len(data)
        self._crc = crc
        self._factor = 0
        self._frames = 0
        self._is_for_many = self.size >= BULK_BYTES
        self._tables: list[list[int]] | None = None

    def is_for_many(self) -> bool:
        """Whether it should not be copied: it is large, or it has been sent before.

        To send it once, a copy of data that is not large costs less than the CRC of two parts.
        """
        is_for_many, self._is_for_many = self._is_for_many, True
        return is_for_many

    def crc_behind(self, front: bytes) -> int:
        """The CRC of the data with this in front of it."""
        if not self._frames:
            self._factor = _factor_of(self.size)
            if self._crc < 0:
                self._crc = crc32(self.data)
        self._frames += 1
        first = crc32(front)
        if self._frames < MANY:
            return _times(self._factor, first) ^ self._crc
        if self._tables is None:
            self._tables = _tables_of(self._factor)
        one, two, three, four = self._tables
        product = one[first & 255] ^ two[first >> 8 & 255]
        return product ^ three[first >> 16 & 255] ^ four[first >> 24] ^ self._crc
