"""Reading JSON as forgivingly as the original does.

The original is written in Go: members are found in any case, unknown ones are dropped, null is
the same as absent, of two alike the last one counts, and text that is not Unicode is mended. Only
what the strict decoders refuse comes here, so nothing in this file is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from franca.protocols.faktory.text import Unreadable, finished, mended

__all__ = ["BAD_JSON", "Reader", "Unreadable"]

T = TypeVar("T", bound=Struct)

BAD_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""All that a decoder raises for bytes that are not what it reads."""


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
        text = finished(mended(bytes(text)))
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
