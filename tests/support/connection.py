"""The one blocking socket on which the clients of all protocols are."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from tests.support.scoped import Scoped

M = TypeVar("M")


def messages_in(cut: Callable[[bytearray], M | None], data: bytes) -> Iterator[M]:
    """All that was said, cut into messages; `ValueError` if something else is left."""
    unread = bytearray(data)
    while unread:
        if (message := cut(unread)) is None:
            raise ValueError(f"half a message: {bytes(unread[:60])!r}")
        yield message


def taken(unread: bytearray, size: int) -> bytes:
    """Take so many bytes off the front."""
    data = bytes(unread[:size])
    del unread[:size]
    return data


class Connection(Scoped, Generic[M]):
    """Bytes to, and messages from, a port or the path of a unix socket.

    `OSError` when the connection ends, or the timeout passes, before what is waited for has come.
    Messages that were not asked for are kept in `aside` until they are.
    """

    read_size = 1 << 16

    def __init__(self, where: int | str | Path, *, timeout: float = 10.0) -> None:
        self.local_port = 0
        if isinstance(where, int):
            self._socket = socket.create_connection(("127.0.0.1", where), timeout=timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.local_port = self._socket.getsockname()[1]
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            self._socket.connect(str(where))
        self.unread = bytearray()
        self.aside: list[M] = []

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are, whole message or not."""
        self._socket.sendall(data)

    def fileno(self) -> int:
        """For those who wait for several."""
        return self._socket.fileno()

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Hang up without a word."""
        self._socket.close()

    def cut(self) -> M | None:
        """Take the next whole message off `unread`; None until it is there."""
        raise NotImplementedError

    def read(self) -> M:
        """The next message, of those aside or of those that come."""
        return self.next_of(lambda _: True)

    def heard(self) -> list[M]:
        """All messages that have come already, none of them in part."""
        found = [*self.aside, *iter(self.cut, None)]
        self.aside.clear()
        assert not self.unread, f"half a message: {bytes(self.unread[:80])!r}"
        return found

    def next_of(self, wanted: Callable[[M], bool]) -> M:
        """The next message that is wanted, of those aside or of those that come."""
        for place, message in enumerate(self.aside):
            if wanted(message):
                return self.aside.pop(place)
        while not wanted(message := self._read()):
            self.aside.append(message)
        return message

    # -- for those who are built on it -----------------------------------------------------------

    def _read(self) -> M:
        while (message := self.cut()) is None:
            self.fill()
        return message

    def _received(self) -> bytes:
        """Some more bytes; `ConnectionResetError` when there will be none."""
        data = self._socket.recv(self.read_size)
        if not data:
            raise ConnectionResetError("the server hung up")
        return data

    def fill(self) -> None:
        """Keep some more bytes."""
        self.unread += self._received()

    def _take(self, size: int) -> bytes:
        while len(self.unread) < size:
            self.fill()
        return taken(self.unread, size)
