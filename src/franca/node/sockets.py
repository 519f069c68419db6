"""What the kernel is told and asked about a socket."""

from __future__ import annotations

import asyncio
import socket
from fcntl import ioctl
from struct import unpack

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
