"""Coming in: connections are counted from the moment they are accepted, handshakes of TLS too.

There are never more than may be, so that descriptors are left for the files of the server and for
its operators. When all places are taken, whoever has been there longest without saying who it is
makes room for the next; if everybody has, the next is refused.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import cast

from msgspec.structs import replace

from franca.core.model import Millis
from franca.node import log
from franca.node.connection import UNKNOWN, Connection
from franca.node.meter import Meter, SecureConnection, Turnstile
from franca.node.node import Node
from franca.protocols.conversation import Link, Peer

TLS_HELLO_S = 5.0
TLS_BYE_S = 1.0
"""How long one that was hung up on keeps its place if it does not say that it heard so."""
ACCEPTS_PER_PASS = 32
"""Connections taken from one listener before everybody else is heard."""
LEAVING_MAX = 8
"""Places that may be taken twice, while those who make room are on their way out."""
UNREAD_BYTES = 8_192
"""More than a peer says first in a handshake."""
FAILURES_EVERY_MS = 10_000
"""There is at most one line in so long about connections that cannot be taken."""
REST_S = 0.05
"""How long a listener is left alone when there is no place, or no descriptor."""
MADE_ROOM = "it had not said who it is, and another came"


class Early(asyncio.Protocol):
    """The other end until a handshake is done. What is said with its last bytes is kept."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.is_gone = False

    def data_received(self, data: bytes) -> None:
        """Said before the connection could be told that it is there."""
        self.said.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Gone before it was there."""
        self.is_gone = True


class Lobby:
    """Those who were accepted and have no link yet, oldest first."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._turnstile = Turnstile(self._loop)
        self._arriving: dict[asyncio.Task[None], Millis] = {}
        self._secured: set[SecureConnection] = set()

    def is_crowded(self, door: Door) -> bool:
        """Whether nobody can come in before some of those are gone who were sent away."""
        return self._surplus(door) >= LEAVING_MAX

    def make_place(self, door: Door) -> bool:
        """Whether there is a place for one more; if need be, somebody is sent away for it."""
        return self._surplus(door) < 0 or self._send_one_away(door)

    def _surplus(self, door: Door) -> int:
        """How many more there are than may be, here and of those over TLS."""
        links, arriving = len(self._node.engine.links), len(self._arriving)
        limits = self._node.engine.limits
        surplus = links + arriving - limits.connections_max
        if door.tls is None:
            return surplus
        return max(surplus, len(self._secured) + arriving - limits.tls_connections_max)

    def _oldest_stranger(self, door: Door) -> Link | None:
        """Whoever has been there longest without saying who it is; for TLS, one over TLS."""
        oldest = self._node.engine.oldest_stranger()
        if door.tls is None:
            return oldest
        for link in self._node.engine.unknown:
            if link.carrier in self._secured and not (link.known or link.closing):
                return link
        return None

    def _send_one_away(self, door: Door) -> bool:
        """Send away the oldest of those who have not said who they are; False if all have."""
        engine = self._node.engine
        stranger = self._oldest_stranger(door)
        for task, since in self._arriving.items():
            if not task.cancelling():
                if stranger is not None and stranger.opened_at < since:
                    break
                task.cancel()
                return True
        if stranger is None:
            return False
        del engine.unknown[stranger]
        cast(Connection, stranger.carrier).cut_off(MADE_ROOM)
        return True

    def welcome(self, peer: socket.socket, door: Door, who: Peer) -> None:
        """Let a peer in whose connection was accepted."""
        task = self._loop.create_task(self._welcome(peer, door, who))
        self._arriving[task] = self._node.clock.now()
        task.add_done_callback(self._arriving.__delitem__)

    async def _welcome(self, peer: socket.socket, door: Door, who: Peer) -> None:
        try:
            if door.tls is None:
                await self._loop.connect_accepted_socket(partial(door.connect, who), peer)
            else:
                await self._secure(peer, door, door.tls, who)
        except (OSError, asyncio.CancelledError):
            peer.close()  # it went, took too long, or had to make room

    async def _secure(
        self, peer: socket.socket, door: Door, tls: ssl.SSLContext, who: Peer
    ) -> None:
        """Do the handshake. The transport below is kept, so that it can be read from or not."""
        # Event loops read from a new connection at once; the first bytes are those of TLS.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, UNREAD_BYTES)
        below, early = await self._loop.connect_accepted_socket(Early, peer)
        below.pause_reading()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        meters: list[Meter] = []
        # Called when TLS has been put above the socket, and before anything is read from it.
        self._loop.call_soon(lambda: meters.append(Meter(self._turnstile, below)))
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
        connection = door.connect_secured(who, below)
        (connection.meter,) = meters
        connection.others = self._secured
        self._secured.add(connection)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        for data in early.said:
            connection.data_received(data)
        # Only now: what the meter does to a connection needs one that has been told of its peer.
        connection.meter.belong_to(connection)


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


class Door:
    """One socket that listens."""

    def __init__(
        self,
        lobby: Lobby,
        node: Node,
        listening: socket.socket,
        *,
        service: str,
        listener: str,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.tls = tls
        self._lobby = lobby
        self._node = node
        self._service = service
        self._listener = listener
        self._listening = listening
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._failures = 0
        self._next_failure_at: Millis = 0
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def connect(self, who: Peer) -> Connection:
        """A connection for this peer."""
        return Connection(self._node, self._service, who)

    def connect_secured(self, who: Peer, below: asyncio.Transport) -> SecureConnection:
        """A connection over TLS, with the transport below."""
        return SecureConnection(self._node, self._service, who, below)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_PASS):
            if self._lobby.is_crowded(self):
                self._rest()
                return
            try:
                peer, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._tell_failure(error)
                self._rest()
                return
            peer.setblocking(False)
            if self._lobby.make_place(self):
                who = peer_at(self._listening.family, address, self._listener)
                self._lobby.welcome(peer, self, who)
            else:
                self._refuse(peer)

    def _tell_failure(self, error: OSError) -> None:
        """Say that nobody can come in, but not at each try: there are twenty in a second."""
        self._failures += 1
        now = self._node.clock.now()
        if now >= self._next_failure_at:
            self._next_failure_at = now + FAILURES_EVERY_MS
            text = f"no connection can be taken: {error}"
            log.event("warning", "accept-failed", text, times=self._failures)
            self._failures = 0

    def _refuse(self, peer: socket.socket) -> None:
        with peer:
            if self.tls is None:
                try:
                    peer.send(self._node.engine.services[self._service].refusal)
                except OSError:
                    pass

    def _rest(self) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._resting = self._loop.call_later(REST_S, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept nobody any more."""
        if self._listening.fileno() < 0:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
