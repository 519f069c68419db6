"""A long run of bytes that comes in pieces: each piece is copied once, to its place."""

from __future__ import annotations

from io import BytesIO


class Gathering:
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
