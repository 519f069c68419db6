"""A buffer of unread bytes that hands out lines or counted pieces and never scans twice."""

from __future__ import annotations

from franca.core.errors import WireError

LARGE_PIECE = 64 * 1024
_CR = 0x0D


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
