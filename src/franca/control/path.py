"""Where the control socket is, and how to reach it however deep the data directory lies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

NAME = "control.sock"
PATH_BYTES_MAX = 103
"""What fits into a unix socket's address: 107 bytes on Linux, 103 on the others."""


def written(path: str) -> str:
    """A path as text: bytes of its name that are no UTF-8 are written out."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


class PathTooLong(OSError):
    """The data directory's path leaves no room for a socket's."""


@contextlib.contextmanager
def reachable(directory: str, name: str = NAME) -> Iterator[str]:
    """The socket's path in a form that fits. Valid inside the block only."""
    path = os.path.join(directory, name)
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    if not os.path.isdir("/proc/self/fd"):
        raise PathTooLong(f"{path} is too long for a unix socket: choose a shorter --data")
    # On Linux an open directory has a short name too.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
