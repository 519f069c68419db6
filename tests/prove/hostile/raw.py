"""A connection of which only bytes are known."""

import socket
from collections.abc import Iterable
from contextlib import suppress

from tests.support.scoped import Scoped

_PATIENCE_S = 60.0
_LOOKED_AT = 1 << 17  # more than is read at once


class Raw(Scoped):
    """All that was heard is kept."""

    def __init__(self, port: int, timeout: float = _PATIENCE_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.heard = bytearray()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def pour(self, pieces: Iterable[bytes]) -> None:
        """Send all of them, or as many as the server takes."""
        with suppress(ConnectionError):
            for data in pieces:
                self.send(data)

    def read(self) -> None:
        """Some more bytes; `ConnectionError` when there will be none."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server hung up")
        self.heard += data

    def read_until(self, last: bytes) -> None:
        """Until this was said; other words may already follow it."""
        while self.heard.find(last, max(0, len(self.heard) - _LOOKED_AT)) < 0:
            self.read()

    def close(self) -> None:
        self._socket.close()
