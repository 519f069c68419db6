"""Names between bytes and text: one reversible rule for every protocol.

A queue's name is text, in the store and in every protocol. A name that is UTF-8 is that text. Every
other byte is written as one character of a private range, and the characters of that range as
their bytes, so that two names that differ on the wire differ here too, and the same bytes are the
same queue whichever protocol they came in.
"""

from __future__ import annotations

from typing import Final

_FIRST: Final = 0xEF80
"""The character that stands for the byte 0x80; the one before it stands for no bytes at all."""
_EMPTY: Final = chr(_FIRST - 1)
_CACHED_MAX: Final = 4_096
OLD_MARK: Final = "\ufffd"
"""What the old form of a name begins with; a key may have it behind a prefix and a slash."""

_ESCAPES: Final[dict[int, str]] = {0xDC80 + i: chr(_FIRST + i) for i in range(128)} | {
    _FIRST + i: "".join(chr(_FIRST + byte - 0x80) for byte in chr(_FIRST + i).encode())
    for i in range(-1, 128)
}
_UNESCAPES: Final = {_FIRST + i: 0xDC80 + i for i in range(128)}


def text_of(raw: bytes) -> str:
    """The name as text; never empty, and different for different bytes."""
    if raw.isascii():
        return raw.decode("ascii") or _EMPTY
    return raw.decode("utf-8", "surrogateescape").translate(_ESCAPES)


def raw_of(text: str) -> bytes:
    """The bytes that the text stands for."""
    if text.isascii():
        return text.encode("ascii")
    if text == _EMPTY:
        return b""
    return text.translate(_UNESCAPES).encode("utf-8", "surrogateescape")


def renamed(text: str) -> str:
    """The text of a name that an older server wrote as Latin-1 behind a mark; any other as it is.

    That server marked the names that are no UTF-8, and those that begin with the mark itself.
    """
    if not text.startswith(OLD_MARK):
        return text
    try:
        raw = text[1:].encode("latin-1")
    except UnicodeEncodeError:
        return text
    try:
        is_old = raw.decode().startswith(OLD_MARK)
    except UnicodeDecodeError:
        is_old = True
    return text_of(raw) if is_old else text


class Names:
    """The same, remembered: the names of functions come with every job."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}
        self._raws: dict[str, bytes] = {}

    def text(self, raw: bytes) -> str:
        """The queue of a function."""
        text = self._texts.get(raw)
        if text is None:
            if len(self._texts) >= _CACHED_MAX:
                self._texts.clear()
            text = self._texts[raw] = text_of(raw)
        return text

    def raw(self, text: str) -> bytes:
        """The function of a queue."""
        raw = self._raws.get(text)
        if raw is None:
            if len(self._raws) >= _CACHED_MAX:
                self._raws.clear()
            raw = self._raws[text] = raw_of(text)
        return raw
