"""A connection of which only bytes are known, and what can be judged by them alone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.prove.hostile import SILENT_S, Heavy

PATIENCE_S = 60.0
_ENDLESS_BYTES = 32 << 20
_CHUNK = 1 << 20
_LOOKED_AT = 1 << 17  # more than is read at once


class Raw:
    """All that was heard is kept."""

    def __init__(self, port: int, timeout: float = PATIENCE_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.heard = bytearray()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> None:
        """Some more bytes; `ConnectionError` when there will be none."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server hung up")
        self.heard += data

    def read_until(self, last: bytes) -> None:
        """Until this was said; other words may already follow it."""
        while last not in self.heard[-_LOOKED_AT:]:
            self.read()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Silent:
    """Somebody who began to say something."""

    def __init__(self, port: int, name: str, begun: bytes) -> None:
        self.name = name
        self._peer = Raw(port, SILENT_S + 4.0)
        self._peer.send(begun)

    def wrong(self) -> str:
        with self._peer as peer:
            try:
                while True:
                    peer.read()
            except TimeoutError:
                return "not hung up on"
            except ConnectionError:
                return ""


def flood(peer: Raw, heavy: Heavy, last: bytes, answer: bytes) -> str:
    """Send all of it and a last word, and read all the while; what was wrong, or nothing."""
    ended = threading.Event()
    reader = threading.Thread(target=_read_on, args=(peer, answer, ended), daemon=True)
    reader.start()
    with suppress(ConnectionError):
        for start in range(0, heavy.times, 1_000):
            peer.send(heavy.message * min(1_000, heavy.times - start))
        peer.send(last)
    reader.join()
    if heavy.closes:
        return "not hung up on" if ended.is_set() else ""
    return "" if ended.is_set() else f"no answer to the last, only {bytes(peer.heard[-60:])!r}"


def _read_on(peer: Raw, answer: bytes, ended: threading.Event) -> None:
    with suppress(OSError):
        while answer not in peer.heard:
            del peer.heard[:-_LOOKED_AT]
            peer.read()
        ended.set()


def without_end(port: int, begun: Iterable[bytes]) -> Raw:
    """Say this, and then more and more until the server has had enough; left open."""
    peer = Raw(port)
    with suppress(ConnectionError):
        for data in begun:
            peer.send(data)
        for _ in range(_ENDLESS_BYTES // _CHUNK):
            peer.send(b"x" * _CHUNK)
    return peer
