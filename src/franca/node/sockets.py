"""Sockets: what the kernel is told and asked about them, and those that are about to be closed."""

from __future__ import annotations

import asyncio
import socket
from fcntl import ioctl
from struct import unpack
from termios import TIOCOUTQ
from traceback import walk_tb

LINGER_S = 10.0
"""How long a socket is kept for a peer that receives nothing of the last output."""
LINGERING_MAX = 128
CHECK_S = 0.02

OF_SOCKETS = ("franca.node.connection", "franca.node.sockets", "franca.node.accept",
              "franca.control.server", "franca.web.listener", "franca.web.connection")  # fmt: skip
"""Modules whose errors of the system are about one peer."""

KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 90_000}


def bytes_in_kernel(transport: asyncio.Transport, which: int) -> int:
    """How many bytes the kernel has of a socket's input (`FIONREAD`) or output (`TIOCOUTQ`)."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return 0
    try:
        [size] = unpack("i", ioctl(sock.fileno(), which, bytes(4)))
    except (OSError, ValueError):
        return 0  # it was closed
    return int(size)


def keep_alive(sock: socket.socket | None) -> None:
    """A peer that vanished is noticed within a minute and a half."""
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def unsent_bytes(transport: asyncio.Transport) -> int:
    """How much of what was written the peer has not received."""
    return transport.get_write_buffer_size() + bytes_in_kernel(transport, TIOCOUTQ)


class Lingering:
    """Sockets that are closed when their peers have received the last output, oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sockets: dict[asyncio.Transport, tuple[float, int]] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """Close it when its output has arrived, or after a while; a new socket ends the oldest."""
        if not self._sockets:
            self._loop.call_later(CHECK_S, self._check)
        elif len(self._sockets) >= LINGERING_MAX:
            self.close_oldest()
        self._sockets[transport] = self._loop.time() + LINGER_S, 0

    def close_oldest(self) -> bool:
        """Make room; False if there is none to close."""
        for transport in self._sockets:
            del self._sockets[transport]
            transport.abort()
            return True
        return False

    def _check(self) -> None:
        now = self._loop.time()
        for transport, (until, before) in list(self._sockets.items()):
            unsent = unsent_bytes(transport)
            if unsent and unsent != before:
                self._sockets[transport] = now + LINGER_S, unsent
            elif not unsent or now > until:
                del self._sockets[transport]
                transport.abort()
        if self._sockets:
            self._loop.call_later(CHECK_S, self._check)


def is_of_a_socket(error: BaseException) -> bool:
    """Whether an error of the system came up in what handles a connection, or in the loop itself.

    Any other is one of a file. To go on as if nothing had happened would leave everybody waiting
    for a store that has failed.
    """
    if not isinstance(error, OSError):
        return False
    frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    ours = [name for name in frames if name.startswith("franca.")]
    return not ours or ours[-1] in OF_SOCKETS
