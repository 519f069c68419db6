"""What stands outside of the strings of a JSON text, found without decoding it.

Arguments are kept as they were written, so nothing decodes them here; but others will. What no
reader should be given is refused: arrays in arrays without end, and numbers that are none to most
of them. The original reads every number as a double and refuses those that are none, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from math import isinf
from typing import Final

from franca.core.errors import Refused
from franca.protocols.faktory.text import STEP_BYTES, Steps, Unreadable

NUMBER_CHARS_MAX: Final = 1_000
DIGITS_MAX: Final = 208
"""A number of no more digits than this is a double whatever exponent of two digits it has."""

_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_LEVELS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_OPENING: Final = frozenset((b"[", b"{"))
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE: Final = (b"0e000", b"0e+000", b"0" * (DIGITS_MAX + 1))
_NUMERALS: Final = b"+-.0123456789eE"
_LONG_NUMBER: Final = re.compile(rb"[-+.0-9eE]{5,}")


class Unfit(Refused):
    """The text is a job, but not one that may be taken."""

    code = "unfit"


def may_be_unfit(text: bytes, depth_max: int) -> bool:
    """Whether valid JSON must be looked at closely; most of it need not."""
    if len(text) > 2 * depth_max and text.count(b"[") + text.count(b"{") > depth_max:
        return True
    if len(text) <= DIGITS_MAX and ord("e") not in text and ord("E") not in text:
        return False
    digits = text.translate(_DIGITS)
    return any(large in digits for large in _LARGE)


def check(text: bytes | memoryview, depth_max: int) -> Steps[None]:
    """`Unfit` if valid JSON is nested deeper than that, or has a number that is no double."""
    depth = 0
    number = b""
    for _, outside in _outside(text):
        levels = memoryview(outside.translate(_LEVELS, _NOT_BRACKETS)).cast("b")
        if max(accumulate(levels, initial=depth)) > depth_max:
            raise Unfit(f"jobs cannot be nested deeper than {depth_max + 1} levels")
        depth += sum(levels)
        outside = number + outside
        whole = outside.rstrip(_NUMERALS)
        number = outside[len(whole) :]  # it may go on in the next piece
        if len(number) > NUMBER_CHARS_MAX:
            raise Unreadable(_no_double(number))
        _check_numbers(whole)
        yield


def _check_numbers(outside: bytes) -> None:
    digits = outside.translate(_DIGITS)
    if any(large in digits for large in _LARGE):
        for match in _LONG_NUMBER.finditer(outside):
            number = match[0]
            if len(number) > NUMBER_CHARS_MAX or isinf(float(number)):
                raise Unreadable(_no_double(number))


def _no_double(number: bytes) -> str:
    return f"cannot read number {number[:40].decode()} as a double"


def ends_of_elements(text: bytes, start: int, depth_max: int) -> Iterator[int]:
    """Where each array or object ends that is an element of the array that begins at `start`.

    The last is where that array's own bracket stands, as a negative number less one; 0 is a pause.
    """
    level = 0
    for begin, outside in _outside(text, start):
        for match in _BRACKET.finditer(outside):
            if match[0] in _OPENING:
                level += 1
                if level > depth_max:
                    raise Unreadable("nested too deep")
            else:
                level -= 1
                if level == 1:
                    yield begin + match.end()
                elif level <= 0:
                    yield -1 - begin - match.start()
                    return
        yield 0


def _outside(text: bytes | memoryview, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The text in pieces and where each begins, the insides of strings blotted out."""
    inside = 0
    while start < len(text):
        piece = bytes(text[start : start + STEP_BYTES])
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2:
            piece += bytes(text[start + len(piece) : start + len(piece) + 1])
        size = len(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        parts = piece.split(b'"')
        for i in range(1 - inside, len(parts), 2):
            parts[i] = b"_" * len(parts[i])
        inside = (inside + len(parts) - 1) % 2
        yield start, b'"'.join(parts)
        start += size
