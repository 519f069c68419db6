"""Large data on its way to peers: kept once, and looked at once for all the frames it goes out in.

A frame's CRC covers an id in front of the data, so each has another; but a CRC of two parts follows
from those of the parts and the size of the second.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

BULK_BYTES: Final = 64 * 1024
"""Data from this size on is not copied into a frame of its own."""
SHARED_BYTES: Final = 512
"""Nor is smaller data from this size on, if it goes to more than one."""
MANY: Final = 64
"""Beginnings from which on tables pay, as making them takes as long as so many products."""
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


def _powers() -> tuple[int, ...]:
    power = _ONE >> 8
    found = [power]
    while len(found) < 40:
        power = _times(power, power)
        found.append(power)
    return tuple(found)


_POWERS: Final = _powers()
"""What a CRC is multiplied by when 1, 2, 4, ... bytes follow."""


def factor_of(size: int) -> int:
    """What a CRC is multiplied by when so many bytes follow."""
    factor = _ONE
    for power in _POWERS[: size.bit_length()]:
        if size & 1:
            factor = _times(power, factor)
        size >>= 1
    return factor


def joined(first: int, second: int, factor: int) -> int:
    """The CRC of two parts; `factor` is that of the second's size."""
    return _times(factor, first) ^ second


def _tables_of(factor: int) -> tuple[list[int], ...]:
    """For each byte of a CRC, what it adds to the product with this factor."""
    images: list[int] = []
    for _ in range(32):
        images.append(factor)
        factor = (factor >> 1) ^ (_POLYNOMIAL if factor & 1 else 0)
    tables: list[list[int]] = []
    for byte in range(4):
        table = [0] * 256
        for value in range(1, 256):
            lowest = value & -value
            table[value] = table[value ^ lowest] ^ images[32 - 8 * byte - lowest.bit_length()]
        tables.append(table)
    return tuple(tables)


class Shared:
    """Data that goes out behind different beginnings."""

    __slots__ = ("_crc", "_factor", "_is_said", "_tables", "_uses", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._is_said = len(data) >= BULK_BYTES
        self._crc = -1
        self._factor = 0
        self._uses = 0
        self._tables: tuple[list[int], ...] | None = None

    def is_for_many(self) -> bool:
        """Whether it should not be copied: it is large, or this is not the first time it is said.

        For one alone a copy of what is not large costs less than the CRC of two parts.
        """
        is_said, self._is_said = self._is_said, True
        return is_said

    def crc_behind(self, front: bytes) -> int:
        """The CRC of the data with this in front of it."""
        if self._crc < 0:
            self._crc = crc32(self.data)
            self._factor = factor_of(len(self.data))
        tables = self._tables
        if tables is None:
            self._uses += 1
            if self._uses < MANY:
                return joined(crc32(front), self._crc, self._factor)
            tables = self._tables = _tables_of(self._factor)
        first = crc32(front)
        one, two, three, four = tables
        product = one[first & 255] ^ two[first >> 8 & 255]
        return product ^ three[first >> 16 & 255] ^ four[first >> 24] ^ self._crc
