"""Unread bytes: handed out as lines or counted pieces, or gathered, each piece copied once."""

from __future__ import annotations

from io import BytesIO
from typing import Final

from franca.core.errors import WireError

LARGE_PIECE = 64 * 1024
HTTP_METHODS: Final = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"DELETE ", b"PATCH ",
                       b"CONNECT ", b"TRACE ", b"PRI ")  # fmt: skip
"""What a browser's request begins with: a web page must not be able to speak to us."""
_CR = 0x0D


class LineReader:
    """Cuts lines, each into its first word and the rest.

    A line of more than `limit` bytes is a WireError. Nearly always one line comes alone, and is cut
    out of the bytes as they came. Others are kept in a buffer.
    """

    __slots__ = ("_buffer", "_is_empty", "has_input", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        """Let go of everything."""
        self._buffer = ByteBuffer()
        self._is_empty = True
        self.has_input = False

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        self._buffer.feed(data)
        self._is_empty = False
        self.has_input = True

    def next_message(self, data: bytes = b"") -> tuple[bytes, bytes, bytes] | None:
        """The next line without its LF or CRLF: its first word, the space, and the rest.

        None until it is there.
        """
        if data:
            size = len(data)
            if self._is_empty and data.find(b"\n") == size - 1 and 1 < size <= self.limit:
                return data[: -2 if data[-2] == _CR else -1].partition(b" ")
            self.feed(data)
        line = self._buffer.take_line(self.limit)
        self._is_empty = not len(self._buffer)
        self.has_input = not self._is_empty and line is not None
        return None if line is None else (line[0], b" ", line[1])


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


class PartialBytes:
    """`size` bytes, of which `have` have come. If it does not `keep` them, they are dropped.

    Room for all of them is taken when an eighth is there: what is only promised takes none. The
    whole is handed out as it lies there, without another copy.
    """

    __slots__ = ("_first", "_room", "have", "keeps", "size")

    def __init__(self, size: int, *, keeps: bool = True) -> None:
        self.size = size
        self.keeps = keeps
        self.have = 0
        self._first = bytearray()
        self._room: BytesIO | None = None

    def feed(self, data: bytes) -> int:
        """Take what belongs here; returns how many bytes that were."""
        missing = self.size - self.have
        if len(data) > missing:
            data = data[:missing]
        self.have += len(data)
        if self._room is not None:
            self._room.write(data)
        elif self.keeps:
            self._first += data
            if self.have >= self.size // 8:
                # Nobody else has this object, so that it is written in place, and handed out so.
                self._room = BytesIO(bytes(self.size))
                self._room.write(self._first)
                self._first.clear()
        return len(data)

    @property
    def kept(self) -> int:
        """How many bytes are kept."""
        return self.have if self.keeps else 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.have == self.size

    def peek(self, count: int) -> bytes:
        """The first `count` bytes, or all there are."""
        if self._room is None:
            return bytes(self._first[:count])
        with self._room.getbuffer() as room:
            return bytes(room[: min(count, self.have)])

    def value(self) -> bytes:
        """All of it, once it is whole; nothing if it was not kept."""
        return b"" if self._room is None else self._room.getvalue()
