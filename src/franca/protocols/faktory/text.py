"""Text that is not valid Unicode: what is wrong becomes U+FFFD, as the original has it.

Two things can be wrong with the strings of a JSON text: bytes that are no UTF-8, each of which is
replaced, and escapes of half a surrogate pair. All else stays as it is, to the byte. Texts may be
as large as a frame, so the work is cut into steps: whoever has others to serve takes one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, TypeVar

from franca.core.errors import Refused

T = TypeVar("T")

STEP_BYTES: Final = 128 * 1024
"""What is looked at in one step: some tens of milliseconds at worst."""

LARGE_BYTES: Final = 256 * 1024
"""A command larger than this is worked on in steps; others are quickly done with at once."""
QUICK_BYTES: Final = 2 * 1024
"""What may be looked at closely at once, even if a turn's whole share of messages is like it."""
GROWTH_BYTES_MAX: Final = 16 * 1024 * 1024
"""By how much a text may grow."""

Steps = Generator[None, None, T]
"""Work in steps, each up to a `yield`, and what comes of it."""

_REPLACEMENT: Final = "\ufffd".encode()
_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")
_HEX: Final = rb"[0-9a-fA-F]"
_HIGH: Final = rb"\\u[dD][89abAB]%b{2}" % _HEX
_LOW: Final = rb"\\u[dD][c-fC-F]%b{2}" % _HEX
_ESCAPE_BYTES: Final = 6
_REPLACEMENT_COST: Final = 32
"""To replace one takes as long as to look at so many bytes."""
_CHARACTER_BYTES: Final = 4
_FIRST_CONTINUATION: Final = 0x80
_FIRST_LEAD: Final = 0xC0
_SOUND: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])%b{4}|%b%b)*+" % (_HEX, _HIGH, _LOW), re.DOTALL
)
_LONE: Final = re.compile(rb"%b|%b(?!%b)" % (_LOW, _HIGH, _LOW))


class Unreadable(Refused):
    """The text is not JSON, or not of the shape that its command asks for."""

    code = "invalid-json"


def finished(steps: Steps[T]) -> T:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def mended(text: bytes) -> Steps[bytes]:
    """The text, with U+FFFD for whatever in it is not valid Unicode."""
    text = yield from as_utf8(text)
    return (yield from without_lone_surrogates(text)) if b"\\u" in text else text


def as_utf8(text: bytes) -> Steps[bytes]:
    """The text, with U+FFFD for every byte that is not part of a character in UTF-8."""
    if text.isascii():
        return text
    out = _Mended(text)
    start = 0
    while start < len(text):
        end = _character_end(text, start + STEP_BYTES)
        piece = text[start:end]
        try:
            piece.decode()
        except UnicodeDecodeError:
            decoded = piece.decode("utf-8", "surrogateescape")
            out.replace(start, end, _UNDECODABLE.sub("\ufffd", decoded).encode())
        start = end
        if start < len(text):
            yield
    return (yield from out.whole())


def without_lone_surrogates(text: bytes) -> Steps[bytes]:
    """The text, with U+FFFD for every escape of half a surrogate pair."""
    out = _Mended(text)
    start = 0
    pause = STEP_BYTES
    while start < len(text):
        sound = _SOUND.match(text, start, start + STEP_BYTES)
        end = sound.end() if sound else start
        if _LONE.match(text, end):
            start = end + _ESCAPE_BYTES
            out.replace(end, start, _REPLACEMENT)
            pause -= _REPLACEMENT_COST
        elif end == start:
            break  # this is no escape at all, and the text no JSON
        else:
            start = end
        if pause <= start < len(text):
            pause = start + STEP_BYTES
            out.gather()
            yield
    return (yield from out.whole())


def safe_cut(text: bytes, start: int, end: int) -> int:
    """Where the inside of a JSON string may be cut, at most at `end`, so that no escape is."""
    sound = _SOUND.match(text, start, end)
    return sound.end() if sound else start


def _character_end(text: bytes, end: int) -> int:
    """Where a text may be cut, at most at `end`, so that no character is."""
    if end >= len(text):
        return len(text)
    for back in range(1, _CHARACTER_BYTES + 1):
        byte = text[end - back]
        if byte < _FIRST_CONTINUATION:
            break
        if byte >= _FIRST_LEAD:
            return end - back
    return end


class _Mended:
    """A text parts of which are replaced, from front to back."""

    def __init__(self, text: bytes) -> None:
        self._whole = text
        self._text = memoryview(text)
        self._kept = 0
        self._growth = 0
        self._pieces: list[bytes | memoryview] = []
        self._gathered = 0

    def replace(self, start: int, end: int, by: bytes) -> None:
        """Have something else in place of this part."""
        self._pieces += (self._text[self._kept : start], by)
        self._kept = end
        self._growth += len(by) - (end - start)
        if self._growth > GROWTH_BYTES_MAX:
            raise Unreadable("most of it is not UTF-8")

    def gather(self) -> None:
        """Make one piece of those since the last time: there may be as many as there are words."""
        gathered = self._gathered
        if len(self._pieces) > gathered + 1:
            self._pieces[gathered:] = [b"".join(self._pieces[gathered:])]
            self._gathered = gathered + 1

    def whole(self) -> Steps[bytes]:
        """What came of it; the text itself if nothing was replaced."""
        if not self._pieces:
            return self._whole
        if len(self._text) > STEP_BYTES:
            yield
        return b"".join((*self._pieces, self._text[self._kept :]))
