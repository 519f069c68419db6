"""Unread bytes, handed out as lines, with or without a body, or counted pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from franca.core.errors import WireError
from franca.protocols.gathering import Gathering

LARGE_PIECE = 64 * 1024
HTTP_METHODS: Final = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"DELETE ", b"PATCH ",
                       b"CONNECT ", b"TRACE ", b"PRI ")  # fmt: skip
"""What a browser's request begins with: a web page must not be able to speak to us."""
_CR = 0x0D
_CRLF: Final = b"\r\n"


class LineReader:
    """Cuts lines, each into its first word and the rest.

    A line of more than `limit` bytes is a WireError. Nearly always one line comes alone, and is cut
    out of the bytes as they came. Others are kept in a buffer.
    """

    __slots__ = ("_buffer", "_is_empty", "has_input", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.has_input = False
        self._is_empty = True
        self._buffer = ByteBuffer()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        self._buffer.feed(data)
        self._is_empty = False
        self.has_input = True

    def next_message(self, data: bytes = b"") -> tuple[bytes, bytes] | None:
        """The next line without its LF or CRLF, cut at its first space; None until it is there."""
        if data:
            size = len(data)
            if self._is_empty and data.find(b"\n") == size - 1 and 1 < size <= self.limit:
                word, _, rest = data[: -2 if data[-2] == _CR else -1].partition(b" ")
                return word, rest
            self.feed(data)
        line = self._buffer.take_line(self.limit)
        self._is_empty = not len(self._buffer)
        self.has_input = not self._is_empty and line is not None
        return line

    def clear(self) -> None:
        """Let go of everything."""
        self._buffer = ByteBuffer()
        self._is_empty = True
        self.has_input = False


class LineWithBody(NamedTuple):
    """A line and the body behind it: None if that was too large, and was dropped as it came.

    It `is_ended` if CRLF stood behind the body, as it must.
    """

    word: bytes
    rest: bytes
    body: bytes | None
    is_ended: bool


class LineTooLong(NamedTuple):
    """A line of more bytes than may be, which was dropped as it came."""


class BodyReader:
    """Cuts lines, and bodies with CRLF behind them, whose size the line before them gives.

    `size_of` a line's word and rest is how many bytes its body has, None if it has none. A body of
    more than `body_max` bytes is skipped, and so is a line that is too long: what follows is read.
    """

    def __init__(
        self, limit: int, body_max: int, size_of: Callable[[bytes, bytes], int | None]
    ) -> None:
        self.has_input = False
        self._limit = limit
        self._body_max = body_max
        self._size_of = size_of
        self._buffer = ByteBuffer()
        self._skips = False  # the rest of a line that is too long
        self._line = b"", b""
        self._body: Gathering | None = None

    def __len__(self) -> int:
        return len(self._buffer) + (0 if self._body is None else 1 + self._body.kept)

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        body = self._body
        self._buffer.feed(data if body is None else data[body.feed(data) :])
        self.has_input = body is None or body.is_whole

    def next_message(
        self, data: bytes = b""
    ) -> tuple[bytes, bytes] | LineWithBody | LineTooLong | None:
        """The next line, cut at its first space, with its body; None until it is there."""
        if data:
            self.feed(data)
        message = self._cut() if self.has_input else None
        self.has_input = message is not None and len(self._buffer) > 0
        return message

    def _cut(self) -> tuple[bytes, bytes] | LineWithBody | LineTooLong | None:
        buffer = self._buffer
        if self._skips:
            self._skips = not buffer.skip_line()
            return None if self._skips else LineTooLong()
        if self._body is not None:
            return self._end_body(self._body)
        try:
            line = buffer.take_line(self._limit)
        except WireError:
            self._skips = True
            return self._cut()
        size = None if line is None else self._size_of(*line)
        if line is None or size is None:
            return line
        whole = buffer.take(size + len(_CRLF)) if size <= self._body_max else None
        if whole is not None:
            return LineWithBody(*line, whole[:size], whole.endswith(_CRLF))
        self._line = line
        self._body = Gathering(size, keeps=size <= self._body_max)
        self._body.feed(buffer.take(min(size, len(buffer))) or b"")
        return self._end_body(self._body)

    def _end_body(self, body: Gathering) -> LineWithBody | None:
        end = self._buffer.take(len(_CRLF)) if body.is_whole else None
        if end is None:
            return None
        self._body = None
        return LineWithBody(*self._line, body.value() if body.keeps else None, end == _CRLF)


class ByteBuffer:
    """Bytes as they came, read from the front."""

    __slots__ = ("_data", "_scanned", "_start")

    def __init__(self) -> None:
        self._data = bytearray()
        self._start = 0
        self._scanned = 0

    def __len__(self) -> int:
        return len(self._data) - self._start

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        if self._start and self._start * 2 > len(self._data):
            del self._data[: self._start]
            self._scanned -= self._start
            self._start = 0
        self._data += data

    def take(self, count: int) -> bytes | None:
        """The next `count` bytes, or None until they are there."""
        end = self._start + count
        if end > len(self._data):
            return None
        piece = self._copy(self._start, end)
        self._advance(end)
        return piece

    def peek(self, count: int) -> bytes | None:
        """The next `count` bytes, left where they are, or None until they are there."""
        end = self._start + count
        return bytes(self._data[self._start : end]) if end <= len(self._data) else None

    def take_line(self, limit: int) -> tuple[bytes, bytes] | None:
        """The next line without its LF or CRLF, cut at its first space; None until it is there.

        A line longer than `limit` is a WireError as soon as that is plain.
        """
        start = self._start
        end = self._data.find(b"\n", max(self._scanned, start))
        size = len(self) if end < 0 else end - start
        if size > limit + 1:
            raise WireError("line-too-long", f"a line of more than {limit} bytes")
        if end < 0:
            self._scanned = len(self._data)
            return None
        stop = end - 1 if end > start and self._data[end - 1] == _CR else end
        space = self._data.find(b" ", start, stop)
        if space < 0:
            words = self._copy(start, stop), b""
        else:
            words = self._copy(start, space), self._copy(space + 1, stop)
        self._advance(end + 1)
        return words

    def skip_line(self) -> bool:
        """Drop what is there of a line; True if its end was there."""
        end = self._data.find(b"\n", self._start)
        self._advance(end + 1 if end >= 0 else len(self._data))
        return end >= 0

    def _copy(self, start: int, end: int) -> bytes:
        if end - start < LARGE_PIECE:
            return bytes(self._data[start:end])
        with memoryview(self._data) as view:  # dearer to make, but then there is one copy, not two
            return bytes(view[start:end])

    def _advance(self, to: int) -> None:
        self._start = to
        if to == len(self._data):
            self._data.clear()
            self._start = 0
        self._scanned = self._start
