"""A long run of bytes that comes in pieces: each piece is copied once, to its place."""

from __future__ import annotations

from io import BytesIO


class Gathering:
    """`size` bytes, of which `have` are there.

    Room for all of them is taken when an eighth is there: what is only promised takes none. The
    whole is handed out as it lies there, without another copy.
    """

    __slots__ = ("_first", "_room", "have", "size")

    def __init__(self, size: int) -> None:
        self.size = size
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
        else:
            self._first += data
            if self.have >= self.size // 8:
                self._take_room()
        return len(data)

    def _take_room(self) -> None:
        # Nobody else has this object, so that it is written in place, and handed out as it is.
        self._room = BytesIO(bytes(self.size))
        self._room.write(self._first)
        self._first = bytearray()

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
        """All of it, once it is whole."""
        return b"" if self._room is None else self._room.getvalue()
