"""Below TLS: how much of what a peer sends is decrypted in a pass, and what it may send in vain.

Every other bound counts what a peer says. Records of TLS that say nothing (such as changes of its
keys) are counted by none of them, and each costs as much as a message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from franca.node import log
from franca.node.connection import BELOW, Connection

PIECE_BYTES = 17 * 1024
"""What TLS is given at once: more than its largest record."""
PASS_BYTES = 256 * 1024
"""What one connection may send before the others are heard."""
WORTH_BYTES = 32
"""Sent for each byte that is said: more than a record of a single byte takes."""
IDLE_BYTES_MAX = 128 * 1024
"""Sent beyond that: more than the longest handshake, with certificates, takes."""
LINE_EVERY_S = 10.0
"""There is at most one line in so long about handshakes that were cut off."""
STEPS_PER_PASS = 8
"""Steps of handshakes, of all who come, in one pass."""


class Turnstile:
    """Those with the next step of a handshake, first come first served; few in each pass."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._next_line_at = 0.0

    def wait(self, step: Callable[[], None]) -> None:
        """Do this once it is its turn."""
        self._waiting.append(step)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._let_through)

    def refuse(self, reason: str) -> None:
        """Log that a handshake was cut off, but not each of many."""
        now = self._loop.time()
        if now >= self._next_line_at:
            self._next_line_at = now + LINE_EVERY_S
            log.event("warning", "handshake-refused", reason)

    def _let_through(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(STEPS_PER_PASS, len(self._waiting)))]
        if self._waiting:
            self._loop.call_soon(self._let_through)
        for step in some:
            step()


class Meter(asyncio.BufferedProtocol):
    """Stands between a socket and its TLS, from the first byte on. `said` is what came of it.

    Until there is a connection it is a handshake, and each step waits at the turnstile.
    """

    connection: SecureConnection | None = None

    def __init__(self, turnstile: Turnstile, below: asyncio.Transport) -> None:
        self._turnstile = turnstile
        self._below = below
        self._tls: asyncio.BufferedProtocol = below.get_protocol()  # type: ignore[assignment]
        self._loop = asyncio.get_running_loop()
        self._idle = 0
        self._is_paused = False
        self._taken = 0
        self.said = 0
        below.set_protocol(self)

    def belong_to(self, connection: SecureConnection) -> None:
        """The handshake is over: whoever has the connection decides whether it is read from.

        A piece that came with the last of the handshake may still wait for its turn.
        """
        self.connection = connection
        if self._is_paused:
            connection.hold(BELOW)

    # -- called by the event loop -----------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next piece goes."""
        return memoryview(self._tls.get_buffer(sizehint))[:PIECE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """A piece came."""
        if self.connection is None:
            self._pause()
            self._turnstile.wait(lambda: self._step(nbytes))
        else:
            self._take(nbytes)
            if self._taken > PASS_BYTES or self._idle > PIECE_BYTES:
                self._pause()
                self._loop.call_soon(self._go_on)

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

    # -- counting ---------------------------------------------------------------------------------

    def _step(self, size: int) -> None:
        if not self._below.is_closing():
            self._take(size)
            self._go_on()

    def _take(self, size: int) -> None:
        """Have a piece decrypted."""
        self._tls.buffer_updated(size)
        self._taken += size
        self._idle = max(0, self._idle + size - WORTH_BYTES * self.said)
        self.said = 0
        if self._idle > IDLE_BYTES_MAX:
            self._cut_off()

    def _cut_off(self) -> None:
        reason = f"it sent {self._idle} bytes over TLS that say nothing"
        if self.connection is not None:
            self.connection.cut_off(reason)
        else:
            self._turnstile.refuse(reason)
        self._below.abort()

    # -- a pass without it ------------------------------------------------------------------------

    def _pause(self) -> None:
        self._is_paused = True
        self._below.pause_reading()
        if self.connection is not None:
            self.connection.hold(BELOW)

    def _go_on(self) -> None:
        self._is_paused = False
        self._taken = 0
        if self._below.is_closing():
            return
        connection = self.connection
        if connection is None or connection.transport.is_closing():
            self._below.resume_reading()
        else:
            connection.release(BELOW)


class SecureConnection(Connection):
    """A connection over TLS: it tells the meter below what came of the bytes.

    It is one of the `others` for as long as it is there.
    """

    __slots__ = ("meter", "others")

    meter: Meter
    others: set[SecureConnection]

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer, decrypted."""
        self.meter.said += len(data)
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self.others.discard(self)
        super().connection_lost(error)
