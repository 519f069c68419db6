"""Where the control socket is, and how to reach it however deep the data directory lies."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator

NAME = "control.sock"
PATH_BYTES_MAX = 103
"""What fits into a unix socket's address: 107 bytes on Linux, 103 on the others."""


def written(path: str) -> str:
    """A path as text: bytes of its name that are no UTF-8 are written out."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


@contextlib.contextmanager
def reachable(directory: str, name: str = NAME) -> Iterator[str]:
    """The socket's path in a form that fits. Valid inside the block only."""
    path = os.path.join(directory, name)
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    if not os.path.isdir("/proc/self/fd"):
        raise OSError(f"{path} is too long for a unix socket: choose a shorter --data")
    # On Linux an open directory has a short name too.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def listen_on(directory: str, name: str = NAME) -> socket.socket:
    """A unix socket that nobody but the server's own user can reach, from its first moment on.

    It takes the place of one that a killed server left behind.
    """
    remove_socket(os.path.join(directory, name))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(directory or ".", name) as path:
            listening.bind(path)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


def remove_socket(path: str, inode: int = 0) -> None:
    """Remove a socket, if it is there and is this one, and nothing else that may bear its name."""
    try:
        found = os.stat(path)
        if stat.S_ISSOCK(found.st_mode) and inode in (0, found.st_ino):
            os.unlink(path)
    except OSError:
        pass
