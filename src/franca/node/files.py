"""Files that services want to have read to them: at the start, and whenever they change.

A file that cannot be read or used at the start is a wrong setting. Later it is only said so: what
was read last goes on to hold.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from franca.node import log
from franca.node.settings import ConfigError
from franca.protocols.service import Service

BYTES_MAX = 16 * 1024 * 1024
"""A file of settings that is larger is none."""

Stamp = tuple[int, int, int]


class FileWatches:
    """One file for each of these services."""

    def __init__(self, services: Iterable[Service]) -> None:
        self._services = list(services)
        self._stamps: dict[str, Stamp | None] = {}

    def read(self) -> None:
        """Read all of them. `ConfigError` if one cannot be used."""
        for service in self._services:
            self._stamps[service.file] = _stamp(service.file)
            try:
                service.take_file(content_of(service.file))
            except (OSError, ValueError) as error:
                raise ConfigError(f"{service.file}: {error}") from None

    def look(self) -> None:
        """Read again those that have changed."""
        for service in self._services:
            path, stamp = service.file, _stamp(service.file)
            if stamp == self._stamps[path]:
                continue
            self._stamps[path] = stamp
            try:
                word = service.take_file(content_of(path))
            except (OSError, ValueError) as error:
                text = f"{path}: {error}; what it said before holds"
                log.event("error", "file-not-reloaded", text)
            else:
                log.event("info", "file-reloaded", f"{path} was read again: {word}")


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def content_of(path: str) -> bytes:
    """What is in a regular file. Any other may make the reader wait, and the server with it."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError("too large to be a file of settings")
    return content
