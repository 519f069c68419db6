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


class Shared:
    """Data that goes out behind different beginnings."""

    __slots__ = ("_crc", "_factor", "_is_said", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._is_said = len(data) >= BULK_BYTES
        self._crc = -1
        self._factor = 0

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
        return joined(crc32(front), self._crc, self._factor)
