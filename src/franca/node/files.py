"""Files that services want to have read to them: at the start, and whenever they change.

A file that cannot be read or used at the start is a wrong setting. Later it is only said so: what
was read last goes on to hold.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable

from franca.node import log
from franca.node.settings import ConfigError
from franca.protocols.conversation import Service

LOOK_EVERY_S = 1.0
BYTES_MAX = 16 * 1024 * 1024
"""A file of settings that is larger is none."""

Stamp = tuple[int, int, int]


class FileWatches:
    """One file for each of these services."""

    def __init__(self, services: Iterable[Service]) -> None:
        self._services = list(services)
        self._stamps: dict[str, Stamp | None] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read all of them, and look after them from now on."""
        for service in self._services:
            self._stamps[service.file] = _stamp(service.file)
            try:
                service.take_file(_content(service.file))
            except (OSError, ValueError) as error:
                raise ConfigError(f"{service.file}: {error}") from None
        if self._services:
            self._task = asyncio.create_task(self._look_forever())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for service in self._services:
                self.look(service)

    def look(self, service: Service) -> None:
        """Read a file again if it has changed."""
        path = service.file
        stamp = _stamp(path)
        if stamp == self._stamps[path]:
            return
        self._stamps[path] = stamp
        try:
            word = service.take_file(_content(path))
        except (OSError, ValueError) as error:
            log.event("error", "file-not-reloaded", f"{path}: {error}; what it said before holds")
        else:
            log.event("info", "file-reloaded", f"{path} was read again: {word}")


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _content(path: str) -> bytes:
    # Whoever opens or reads anything but a regular file may have to wait, and the server with him.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError("too large to be a file of settings")
    return content
