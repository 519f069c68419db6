"""Below TLS: how much of what a peer sends is decrypted in a pass, and what it may send in vain.

Every other bound counts decrypted bytes. Records of TLS that carry none (such as changes of its
keys) are counted by none of them, and each costs as much as a message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from franca.node import log
from franca.node.connection import TLS_PASS, Connection

PIECE_BYTES = 17 * 1024
"""What TLS is given at once: more than its largest record."""
PASS_BYTES = 256 * 1024
"""What one connection may send before other events are handled."""
WORTH_BYTES = 32
"""Sent for each decrypted byte: more than a record of a single byte takes."""
IDLE_BYTES_MAX = 128 * 1024
"""Sent beyond that: more than the longest handshake, with certificates, takes."""
LINE_EVERY_S = 10.0
"""At most one line is logged in this time about handshakes that were cut off."""
STEPS_PER_PASS = 8
"""Steps of all handshakes together in one pass."""


class HandshakeQueue:
    """The next steps of handshakes, first come first served; few in each pass."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: deque[Callable[[], None]] = deque()
        self._next_line_at = 0.0

    def add(self, step: Callable[[], None]) -> None:
        """Call this when it is its turn."""
        self._steps.append(step)
        if len(self._steps) == 1:
            self._loop.call_soon(self._take)

    def refuse(self, reason: str) -> None:
        """Log that a handshake was cut off, but not each of many."""
        now = self._loop.time()
        if now >= self._next_line_at:
            self._next_line_at = now + LINE_EVERY_S
            log.event("warning", "handshake-refused", reason)

    def _take(self) -> None:
        some = [self._steps.popleft() for _ in range(min(STEPS_PER_PASS, len(self._steps)))]
        if self._steps:
            self._loop.call_soon(self._take)
        for step in some:
            step()


class TlsThrottle(asyncio.BufferedProtocol):
    """Between a socket and its TLS, from the first byte on. `decrypted` is what came of it.

    Until there is a connection it is a handshake, and each step waits in the queue.
    """

    connection: SecureConnection | None = None

    def __init__(self, handshakes: HandshakeQueue, below: asyncio.Transport) -> None:
        self._handshakes = handshakes
        self._below = below
        self._tls: asyncio.BufferedProtocol = below.get_protocol()  # type: ignore[assignment]
        self._loop = asyncio.get_running_loop()
        self._idle = 0
        self._is_paused = False
        self._taken = 0
        self.decrypted = 0
        below.set_protocol(self)

    def belong_to(self, connection: SecureConnection) -> None:
        """The handshake is over: whoever has the connection decides whether it is read from.

        A piece that came with the last of the handshake may still wait for its turn.
        """
        self.connection = connection
        if self._is_paused:
            connection.hold(TLS_PASS)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next piece goes."""
        return memoryview(self._tls.get_buffer(sizehint))[:PIECE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """A piece came."""
        if self.connection is None:
            self._pause()
            self._handshakes.add(lambda: self._step(nbytes))
        else:
            self._take(nbytes)
            if self._taken > PASS_BYTES or self._idle > PIECE_BYTES:
                self._pause()
                self._loop.call_soon(self._resume)

    def eof_received(self) -> bool | None:
        """The peer sends no more."""
        return self._tls.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._tls.connection_lost(error)

    def pause_writing(self) -> None:
        """The socket does not take all it was given."""
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._tls.resume_writing()

    def _step(self, size: int) -> None:
        if not self._below.is_closing():
            self._take(size)
            self._resume()

    def _take(self, size: int) -> None:
        """Have a piece decrypted."""
        self._tls.buffer_updated(size)
        self._taken += size
        self._idle = max(0, self._idle + size - WORTH_BYTES * self.decrypted)
        self.decrypted = 0
        if self._idle > IDLE_BYTES_MAX:
            reason = f"it sent {self._idle} bytes over TLS that say nothing"
            if self.connection is not None:
                self.connection.cut_off(reason)
            else:
                self._handshakes.refuse(reason)
            self._below.abort()

    def _pause(self) -> None:
        self._is_paused = True
        self._below.pause_reading()
        if self.connection is not None:
            self.connection.hold(TLS_PASS)

    def _resume(self) -> None:
        self._is_paused = False
        self._taken = 0
        if self._below.is_closing():
            return
        connection = self.connection
        if connection is None or connection.transport.is_closing():
            self._below.resume_reading()
        else:
            connection.release(TLS_PASS)


class SecureConnection(Connection):
    """A connection over TLS: it tells the throttle below how much was decrypted.

    It is one of the `others` for as long as it is there.
    """

    throttle: TlsThrottle
    others: set[SecureConnection]

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer, decrypted."""
        self.throttle.decrypted += len(data)
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self.others.discard(self)
        super().connection_lost(error)
