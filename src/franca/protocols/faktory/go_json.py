"""JSON as the original reads it, which is written in Go.

Members are found in any case, unknown ones are dropped, null is the same as absent, and of two
alike the last one counts. What is not valid Unicode becomes U+FFFD: bytes that are no UTF-8, each
of which is replaced, and escapes of half a surrogate pair. All else stays as it is, to the byte.

Arguments are kept as they were written and not decoded here; but workers decode them. What most
decoders refuse is refused: deep nesting, and numbers that are no doubles.

Texts may be as large as a frame, so the work is cut into steps: the caller may serve other
peers between two of them.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Generator, Iterator, Mapping
from math import isinf
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from franca.core.errors import Refused
from franca.protocols.bodies import depth_in, outside_strings

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

STEP_BYTES: Final = 128 * 1024
"""What is looked at in one step: some tens of milliseconds at worst."""
LARGE_BYTES: Final = 256 * 1024
"""A larger command is worked on in steps."""
QUICK_BYTES: Final = 2 * 1024
"""What may be repaired at once, even if all messages of a turn's share need it."""
GROWTH_BYTES_MAX: Final = 16 * 1024 * 1024
"""By how much a text may grow."""
NUMBER_CHARS_MAX: Final = 1_000
DIGITS_MAX: Final = 208
"""A number of no more digits than this is a double whatever exponent of two digits it has."""
BAD_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""All that a decoder raises for bytes that are not what it reads."""

Steps = Generator[None, None, T]
"""Work in steps, each up to a `yield`, that returns a result."""

_REPLACEMENT: Final = "\ufffd"
_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")
_HEX: Final = rb"[0-9a-fA-F]"
_HIGH: Final = rb"\\u[dD][89abAB]%b{2}" % _HEX
_LOW: Final = rb"\\u[dD][c-fC-F]%b{2}" % _HEX
_ESCAPE_BYTES: Final = 6
_REPLACEMENT_COST: Final = 32
"""To replace one takes as long as to look at so many bytes."""
_SOUND: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])%b{4}|%b%b)*+" % (_HEX, _HIGH, _LOW), re.DOTALL
)
_LONE: Final = re.compile(rb"%b|%b(?!%b)" % (_LOW, _HIGH, _LOW))
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE: Final = (b"0e000", b"0e+000", b"0" * (DIGITS_MAX + 1))
_NUMERALS: Final = b"+-.0123456789eE"
_LONG_NUMBER: Final = re.compile(rb"[-+.0-9eE]{5,}")


class Unreadable(Refused):
    """The text is not JSON, or not of the shape that its command asks for."""

    code = "invalid-json"


class Unfit(Refused):
    """The text is a job, but not one that may be taken."""

    code = "unfit"


def unreadable(error: Exception) -> Unreadable:
    """What to raise for one of `BAD_JSON`."""
    # The text of a RecursionError is about the interpreter.
    return Unreadable("nested too deep" if isinstance(error, RecursionError) else str(error))


def run_steps(steps: Steps[T]) -> T:
    """Take all steps at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        value: T = end.value
        return value


# -- text that is not valid Unicode ----------------------------------------------------------------


def repaired(text: bytes) -> Steps[bytes]:
    """The text, with U+FFFD for whatever in it is not valid Unicode."""
    text = yield from as_utf8(text)
    return (yield from without_lone_surrogates(text)) if b"\\u" in text else text


def as_utf8(text: bytes) -> Steps[bytes]:
    """The text, with U+FFFD for every byte that is not part of a character in UTF-8."""
    if text.isascii():
        return text
    out = _Edited(text)
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    start = 0
    for at in range(0, len(text), STEP_BYTES):
        is_last = at + STEP_BYTES >= len(text)
        decoded = decoder.decode(text[at : at + STEP_BYTES], is_last)
        # The decoder keeps the beginning of a character that is cut here.
        end = min(at + STEP_BYTES, len(text)) - len(decoder.getstate()[0])
        try:
            decoded.encode()
        except UnicodeEncodeError:
            out.replace(start, end, _UNDECODABLE.sub(_REPLACEMENT, decoded).encode())
        start = end
        if not is_last:
            yield
    return (yield from out.whole())


def without_lone_surrogates(text: bytes) -> Steps[bytes]:
    """The text, with U+FFFD for every escape of half a surrogate pair."""
    out = _Edited(text)
    start = 0
    pause = STEP_BYTES
    while start < len(text):
        end = safe_cut(text, start, start + STEP_BYTES)
        if _LONE.match(text, end):
            start = end + _ESCAPE_BYTES
            out.replace(end, start, _REPLACEMENT.encode())
            pause -= _REPLACEMENT_COST
        elif end == start:
            break  # this is no escape at all, and the text no JSON
        else:
            start = end
        if pause <= start < len(text):
            pause = start + STEP_BYTES
            out.join()
            yield
    return (yield from out.whole())


def safe_cut(text: bytes, start: int, end: int) -> int:
    """Where the inside of a JSON string may be cut, at most at `end`, so that no escape is."""
    sound = _SOUND.match(text, start, end)
    return sound.end() if sound else start


class _Edited:
    """A text parts of which are replaced, from front to back."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._kept = 0
        self._growth = 0
        self._pieces: list[bytes | memoryview] = []
        self._joined = 0

    def replace(self, start: int, end: int, by: bytes) -> None:
        """Replace a part of the text."""
        self._pieces += (memoryview(self._text)[self._kept : start], by)
        self._kept = end
        self._growth += len(by) - (end - start)
        if self._growth > GROWTH_BYTES_MAX:
            raise Unreadable("most of it is not UTF-8")

    def join(self) -> None:
        """Join the pieces since the last time: there may be very many."""
        if len(self._pieces) > self._joined + 1:
            self._pieces[self._joined :] = [b"".join(self._pieces[self._joined :])]
            self._joined += 1

    def whole(self) -> Steps[bytes]:
        """The result; the text itself if nothing was replaced."""
        if not self._pieces:
            return self._text
        if len(self._text) > STEP_BYTES:
            yield
        return b"".join((*self._pieces, memoryview(self._text)[self._kept :]))


# -- what stands outside of strings ----------------------------------------------------------------


def may_be_unfit(text: bytes, depth_max: int) -> bool:
    """Whether valid JSON must be looked at closely; most of it need not."""
    if len(text) > 2 * depth_max and text.count(b"[") + text.count(b"{") > depth_max:
        return True
    if len(text) <= DIGITS_MAX and ord("e") not in text and ord("E") not in text:
        return False
    return _may_be_large(text)


def _may_be_large(text: bytes) -> bool:
    """Whether a number in it has many digits, or three of them in its exponent."""
    digits = text.translate(_DIGITS)
    return any(large in digits for large in _LARGE)


def check(text: bytes | memoryview, depth_max: int) -> Steps[None]:
    """`Unfit` if valid JSON is nested deeper than that, or has a number that is no double.

    The original reads every number as a double and refuses those that are none, too.
    """
    depth = 0
    number = b""
    for _, outside in outside_strings(text, 0, STEP_BYTES):
        deepest, depth = depth_in(outside, depth)
        if deepest > depth_max:
            raise Unfit(f"jobs cannot be nested deeper than {depth_max + 1} levels")
        outside = number + outside
        whole = outside.rstrip(_NUMERALS)
        number = outside[len(whole) :]  # it may go on in the next piece
        if len(number) > NUMBER_CHARS_MAX:
            raise _no_double(number)
        if _may_be_large(whole):
            for match in _LONG_NUMBER.finditer(whole):
                if len(match[0]) > NUMBER_CHARS_MAX or isinf(float(match[0])):
                    raise _no_double(match[0])
        yield


def _no_double(number: bytes) -> Unreadable:
    return Unreadable(f"cannot read number {number[:40].decode()} as a double")


def ends_of_elements(text: bytes, start: int, depth_max: int) -> Iterator[int]:
    """Where each array or object ends that is an element of the array that begins at `start`.

    The last is where that array's own bracket stands, as a negative number less one; 0 is a pause.
    """
    level = 0
    for begin, outside in outside_strings(text, start, STEP_BYTES):
        for match in _BRACKET.finditer(outside):
            if match[0] in b"[{":
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


# -- messages --------------------------------------------------------------------------------------


class Reader(Generic[S]):
    """Decodes one kind of message: strictly first, as the original does if that fails."""

    def __init__(self, shape: type[S], missing: Mapping[str, Raw] | None = None) -> None:
        self.strict = msgspec.json.Decoder(shape).decode
        self._encode = msgspec.json.Encoder().encode
        self._members = msgspec.json.Decoder(dict[str, Raw] | None).decode
        self._fields = frozenset(shape.__struct_fields__)
        self._missing = dict(missing or {})

    def read(self, text: bytes) -> S:
        """The message in `text`, or `Unreadable`."""
        try:
            return self.strict(text)
        except BAD_JSON:
            return self.read_leniently(text)

    def read_leniently(self, text: bytes) -> S:
        """The same with members in any case, and unknown ones; null is an empty object."""
        text = run_steps(repaired(text))
        try:
            found = dict(self._missing)
            for key, value in (self._members(text) or {}).items():
                field = key.casefold()
                if field in self._fields and bytes(value) != b"null":
                    found[field] = value
            return self.strict(self._encode(found))
        except BAD_JSON as error:
            raise unreadable(error) from None
