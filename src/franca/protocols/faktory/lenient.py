"""Reading JSON as forgivingly as the original does, and refusing what would hurt.

The original is written in Go: members are found in any case, unknown ones are dropped, null is
the same as absent, of two alike the last one counts. Only what the strict decoders refuse comes
here, so nothing in this file is fast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from franca.core.errors import Refused

T = TypeVar("T", bound=Struct)

BAD_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""All that a decoder raises for bytes that are not what it reads."""

# Possessive, so that a string without an end costs no second look at any byte.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_OPENING: Final = frozenset(b"[{")


class Unreadable(Refused):
    """The text is not JSON, or not of the shape that its command asks for."""

    code = "invalid-json"


class Reader(Generic[T]):
    """Decodes one kind of message: strictly first, forgivingly if that fails."""

    __slots__ = ("_encode", "_fields", "_members", "_missing", "strict")

    def __init__(self, shape: type[T], missing: Mapping[str, Raw] | None = None) -> None:
        self.strict = msgspec.json.Decoder(shape).decode
        self._encode = msgspec.json.Encoder().encode
        self._members = msgspec.json.Decoder(dict[str, Raw] | None).decode
        self._fields = frozenset(shape.__struct_fields__)
        self._missing = dict(missing or {})

    def read(self, text: bytes) -> T:
        """The message in `text`, or `Unreadable`."""
        try:
            return self.strict(text)
        except BAD_JSON:
            return self.read_leniently(text)

    def read_leniently(self, text: bytes | Raw) -> T:
        """The same for members in any case and company; null stands for an empty object."""
        try:
            found = dict(self._missing)
            for key, value in (self._members(text) or {}).items():
                field = key.casefold()
                if field in self._fields and bytes(value) != b"null":
                    found[field] = value
            return self.strict(self._encode(found))
        except RecursionError:
            raise Unreadable("nested too deep") from None
        except BAD_JSON as error:
            raise Unreadable(str(error)) from None


def check_utf8(text: bytes) -> None:
    """Refuse what is not UTF-8: the decoder does not look into parts that it leaves as they are."""
    try:
        text.decode()
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None


def is_deeper(text: bytes, most: int) -> bool:
    """Whether valid JSON is nested deeper than `most` levels."""
    # Nobody can nest deeper than there are brackets; only who has many is looked at closely.
    return (
        len(text) > 2 * most and text.count(b"[") + text.count(b"{") > most and depth(text) > most
    )


def depth(text: bytes) -> int:
    """How deep arrays and objects lie in one another; brackets inside strings do not count."""
    brackets = _STRING.sub(b"", text).translate(None, _NOT_BRACKETS)
    return max(accumulate(1 if b in _OPENING else -1 for b in brackets), default=0)
