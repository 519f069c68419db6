"""Accepting: connections are counted from the moment they are accepted, handshakes of TLS too.

There are never more than may be, so that descriptors are left for the files of the server and for
its operators. When there are as many as may be, the one that has been there longest without saying
who it is makes room for the next; if all have said so, the next is refused.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from franca.core.model import Millis
from franca.node import log
from franca.node.connection import UNKNOWN, Connection, connection_of
from franca.node.node import Node
from franca.node.tls import HandshakeQueue, SecureConnection, TlsThrottle
from franca.protocols.conversation import Link, Peer

TLS_HELLO_S = 5.0
TLS_BYE_S = 1.0
"""How long a closed connection is kept if its peer does not confirm the end."""
ACCEPTS_PER_PASS = 32
"""Connections accepted by one listener before other events are handled."""
LEAVING_MAX = 8
"""Connections beyond the limit, while those that make room are being closed."""
UNREAD_BYTES = 8_192
"""More than a peer sends first in a handshake."""
FAILURES_EVERY_MS = 10_000
"""At most one line is logged in this time about connections that cannot be accepted."""
REST_S = 0.05
"""How long a listener pauses when there is no place, or no descriptor."""
MADE_ROOM = "it had not said who it is, and another came"


class Early(asyncio.Protocol):
    """Takes the place of the connection until the handshake is done; keeps what is received."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_gone = False

    def data_received(self, data: bytes) -> None:
        """Received with the last bytes of the handshake."""
        self.received.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Closed before there was a connection."""
        self.is_gone = True


class Acceptor:
    """Makes connections of accepted sockets. `arriving` are those without a link, oldest first."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._loop = asyncio.get_running_loop()
        self._handshakes = HandshakeQueue(self._loop)
        self._arriving: dict[asyncio.Task[None], Millis] = {}
        self._secured: set[SecureConnection] = set()

    def surplus(self, listener: Listener) -> int:
        """How many more there are than may be, in all and of those over TLS."""
        limits = self.node.engine.limits
        arriving = len(self._arriving)
        surplus = len(self.node.engine.links) + arriving - limits.connections_max
        if listener.tls is None:
            return surplus
        return max(surplus, len(self._secured) + arriving - limits.tls_connections_max)

    def _oldest_stranger(self, listener: Listener) -> Link | None:
        """The link that is there longest without having said who it is; for TLS, one over TLS."""
        engine = self.node.engine
        if listener.tls is None:
            return engine.oldest_stranger()
        strangers = (link for link in engine.unknown if not (link.known or link.closing))
        return next((link for link in strangers if link.carrier in self._secured), None)

    def close_one(self, listener: Listener) -> bool:
        """Close the oldest that has ended or has not said who it is; False if there is none."""
        if listener.tls is None and self.node.lingering.close_oldest():
            return True
        stranger = self._oldest_stranger(listener)
        for task, since in self._arriving.items():
            if not task.cancelling():
                if stranger is not None and stranger.opened_at < since:
                    break
                task.cancel()
                return True
        if stranger is None:
            return False
        del self.node.engine.unknown[stranger]
        connection_of(stranger).cut_off(MADE_ROOM)
        return True

    def connect(self, sock: socket.socket, listener: Listener, peer: Peer) -> None:
        """Make a connection of a socket that was accepted."""
        task = self._loop.create_task(self._connect(sock, listener, peer))
        self._arriving[task] = self.node.clock.now()
        task.add_done_callback(self._arriving.__delitem__)

    async def _connect(self, sock: socket.socket, listener: Listener, peer: Peer) -> None:
        try:
            if listener.tls is None:
                connection = Connection(self.node, listener.service, peer)
                await self._loop.connect_accepted_socket(lambda: connection, sock)
            else:
                await self._secure(sock, listener.service, listener.tls, peer)
        except (OSError, asyncio.CancelledError):
            sock.close()  # it was closed, took too long, or had to make room

    async def _secure(
        self, sock: socket.socket, service: str, tls: ssl.SSLContext, peer: Peer
    ) -> None:
        """Do the handshake. The transport below is kept, so that reading from it can be paused."""
        # Event loops read from a new connection at once; the first bytes are those of TLS.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, UNREAD_BYTES)
        below, early = await self._loop.connect_accepted_socket(Early, sock)
        below.pause_reading()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        throttles: list[TlsThrottle] = []
        # Called when TLS has been put above the socket, and before anything is read from it.
        self._loop.call_soon(lambda: throttles.append(TlsThrottle(self._handshakes, below)))
        try:
            secured = await self._loop.start_tls(
                below,
                early,
                tls,
                server_side=True,
                ssl_handshake_timeout=TLS_HELLO_S,
                ssl_shutdown_timeout=TLS_BYE_S,
            )
        except BaseException:
            # It holds the descriptor, also of a handshake that was cancelled as it ended.
            below.abort()
            raise
        if secured is None or early.is_gone:
            return
        connection = SecureConnection(self.node, service, peer, below)
        (connection.throttle,) = throttles
        connection.others = self._secured
        self._secured.add(connection)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        for data in early.received:
            connection.data_received(data)
        # Only now: what the throttle does to a connection needs one that has its transport.
        connection.throttle.belong_to(connection)


def peer_at(family: int, address: object, listener: str) -> Peer:
    """Who was accepted: the family is that of the listener, the address what `accept` gave.

    A connection itself may not be asked: one that was reset has no address any more, and whoever
    has none must not pass for somebody of this machine.
    """
    if family == socket.AF_UNIX:
        return Peer("unix", local=True, unix=True, listener=listener)
    if not isinstance(address, tuple) or len(address) < 2:
        return replace(UNKNOWN, listener=listener)
    host = str(address[0])
    is_local = host == "::1" or host.removeprefix("::ffff:").startswith("127.")
    return Peer(f"{host}:{address[1]}", is_local, listener=listener)


@dataclass(eq=False)
class Listener:
    """One socket that listens at an `address` for a `service`."""

    acceptor: Acceptor
    sock: socket.socket
    service: str
    address: str
    tls: ssl.SSLContext | None

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._failures = 0
        self._next_failure_at: Millis = 0
        self.sock.setblocking(False)
        self._loop.add_reader(self.sock.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_PASS):
            if self.acceptor.surplus(self) >= LEAVING_MAX:
                self._rest()
                return
            try:
                sock, address = self.sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log_failure(error)
                self._rest()
                return
            sock.setblocking(False)
            if self.acceptor.surplus(self) < 0 or self.acceptor.close_one(self):
                peer = peer_at(self.sock.family, address, self.address)
                self.acceptor.connect(sock, self, peer)
            else:
                self._refuse(sock)

    def _log_failure(self, error: OSError) -> None:
        """Log that nothing can be accepted, but not at each try: there are twenty in a second."""
        self._failures += 1
        now = self.acceptor.node.clock.now()
        if now >= self._next_failure_at:
            self._next_failure_at = now + FAILURES_EVERY_MS
            text = f"no connection can be taken: {error}"
            log.event("warning", "accept-failed", text, times=self._failures)
            self._failures = 0

    def _refuse(self, sock: socket.socket) -> None:
        with sock:
            if self.tls is None:
                try:
                    sock.send(self.acceptor.node.engine.services[self.service].refusal)
                except OSError:
                    pass

    def _rest(self) -> None:
        self._loop.remove_reader(self.sock.fileno())
        go_on = partial(self._loop.add_reader, self.sock.fileno(), self._accept)
        self._pause = self._loop.call_later(REST_S, go_on)

    def close(self) -> None:
        """Accept nothing any more."""
        if self.sock.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self.sock.fileno())
        self.sock.close()
