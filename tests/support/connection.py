"""The one blocking socket on which the clients of all protocols are."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.support.scoped import Scoped


class Connection(Scoped):
    """Bytes to and from a port, or the path of a unix socket.

    `OSError` when the connection ends, or the timeout passes, before what is waited for has come.
    """

    read_size = 1 << 16

    def __init__(
        self, where: int | str | Path, host: str = "127.0.0.1", *, timeout: float = 10.0
    ) -> None:
        self.local_port = 0
        if isinstance(where, int):
            self._socket = socket.create_connection((host, where), timeout=timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.local_port = self._socket.getsockname()[1]
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            self._socket.connect(str(where))
        self._unread = bytearray()

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

    # -- for those who are built on it -----------------------------------------------------------

    def _fill(self) -> None:
        data = self._socket.recv(self.read_size)
        if not data:
            raise ConnectionResetError("the server hung up")
        self._unread += data

    def _need(self, size: int) -> bytes:
        """So many bytes, which stay where they are."""
        while len(self._unread) < size:
            self._fill()
        return bytes(self._unread[:size])

    def _take(self, size: int) -> bytes:
        # All of it is awaited before any of it is taken: a timeout must not lose half a frame.
        taken = self._need(size)
        del self._unread[:size]
        return taken
