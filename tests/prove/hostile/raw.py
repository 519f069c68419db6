"""A connection of which only bytes are known, and what can be judged by them alone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from tests.prove.hostile import CLOSED, EITHER, SILENT_S, Case, Heavy
from tests.support.scoped import Scoped

PATIENCE_S = 60.0
AT_ONCE_S = 1.0
"""By then whoever is hung up on at once has noticed."""
_ENDLESS_BYTES = 32 << 20
_CHUNK = 1 << 20
_LOOKED_AT = 1 << 17  # more than is read at once


class Raw(Scoped):
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


def shuffled(rng: Random, *tables: Iterable[Case]) -> list[Case]:
    """All cases of all tables, in an order of chance."""
    found = [case for table in tables for case in table]
    rng.shuffle(found)
    return found


class Probe(NamedTuple):
    """What a known client says first and last, and the answer to that last word."""

    hello: bytes
    last: bytes
    answer: bytes

    def play(
        self,
        port: int,
        case: Case,
        unreadable: Callable[[bytearray], str] = lambda heard: "",
        *,
        either_waits: bool = False,
    ) -> str:
        """Send a case, as a known client does or a stranger; what was wrong, or nothing.

        `unreadable` says what is wrong with all that was heard. `either_waits`: what may be answered or
        closed may also be half a frame, which waits for its other half.
        """
        may_wait = either_waits and case.outcome == EITHER
        with Raw(port, 0.5 if may_wait else 10.0) as peer:
            began = time.monotonic()
            try:
                if case.known:
                    peer.send(self.hello)
                peer.send(case.data)
                if case.known:
                    peer.send(self.last)
                peer.read_until(self.answer)
            except TimeoutError:
                return "" if may_wait else f"no answer, only {bytes(peer.heard[:124])!r}"
            except ConnectionError:
                if case.outcome not in (CLOSED, EITHER):
                    return f"closed after {bytes(peer.heard[:124])!r}"
                late = case.outcome == CLOSED and time.monotonic() - began > AT_ONCE_S
                return "not closed at once" if late else unreadable(peer.heard)
            return "not closed" if case.outcome == CLOSED else unreadable(peer.heard)

    def play_heavy(self, port: int, heavy: Heavy) -> str:
        """Send it as a known client; what was wrong, or nothing."""
        with Raw(port) as peer:
            peer.send(self.hello)
            return flood(peer, heavy, self.last, self.answer)


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
