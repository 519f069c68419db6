"""Sockets: accepting, reading and writing, with bounds both ways. Knows no byte of a protocol."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from franca.protocols.conversation import Link, Peer

if TYPE_CHECKING:
    from franca.node.node import Node

KEEPALIVE = (
    ("TCP_KEEPIDLE", 60),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)
LARGE_PIECE = 64 * 1024
GULP_BYTES = 1024 * 1024
"""How much is read from a peer that sends large pieces before the others are heard again: the
event loop by itself would take many times as much from one that sends as fast as it can."""


class Connection(asyncio.Protocol):
    """One socket and its link. `waits_for` is the group behind which its words queue, or 0.

    `piled_bytes` is how much of what it says, several answers at a time, has gone there since.

    A peer whose last answer had to wait for the disk is `patient`: what it says next will most
    likely need the disk too, so while a commit is under way it gathers instead of making a turn
    of its own. Fewer, larger turns cost a quarter less. While others are in a hurry, such a peer
    `gathers`: what it says is kept apart, so that they need not wait until it is acted on.
    """

    __slots__ = (
        "_closed",
        "_full",
        "_gulped",
        "_listener",
        "_longest",
        "_node",
        "_reading",
        "_service",
        "_take",
        "gathers",
        "link",
        "patient",
        "piled_bytes",
        "transport",
        "waits_for",
    )

    link: Link
    transport: asyncio.Transport

    def __init__(self, node: Node, service_name: str, listener: str = "") -> None:
        self._node = node
        self._listener = listener
        self._service = service_name
        self._take = node.engine.inputs.append
        self._closed = False
        self._full = False
        self._gulped = 0
        self._longest = 0
        self._reading = True
        self.gathers = False
        self.patient = False
        self.piled_bytes = 0
        self.waits_for = 0

    # -- called by the event loop -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer is there: open its link, or turn it away."""
        self.transport = cast(asyncio.Transport, transport)
        node = self._node
        engine = node.engine
        limits = engine.limits
        self.transport.set_write_buffer_limits(high=limits.output_soft_bytes)
        if len(engine.links) >= limits.connections_max:
            self._closed = True
            self.transport.write(engine.services[self._service].refusal)
            self.transport.close()
            return
        _keep_alive(transport.get_extra_info("socket"))
        peer = _peer(transport, self._listener)
        self.link = engine.open_link(self._service, node.next_link_id(), peer, node.clock.now())
        self.link.carrier = self
        node.soon()

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer; they are acted on in the next turn."""
        link = self.link
        node = self._node
        if self.gathers or (node.hurried and self.patient and node.busy):
            self.gathers = True
            node.gather(self, data)
        else:
            self._take((link, data))
        if len(data) >= LARGE_PIECE:
            self._gulped += len(data)
            if self._gulped > GULP_BYTES:
                node.pressure.let_others_speak(self)
        if not node.turn_set:
            if self.gathers or (node.busy and self.patient):
                node.later()
            else:
                node.soon()
        if link.conversation.holding:
            node.pressure.pause_if_flooded(link)

    def eof_received(self) -> bool:
        """A peer that says no more wants no more: hang up."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone. Words that still waited for the disk were not heard."""
        if self._closed:
            return
        self._closed = True
        node = self._node
        if self.gathers:
            node.take_gathered()
        node.engine.close_link(self.link, node.clock.now(), unheard=self.waits_for != 0)
        node.soon()

    def pause_writing(self) -> None:
        """The peer does not read: read nothing more from it either, nor act on what it sent."""
        if not self._closed:
            self._full = self.link.full = True
            if self.full:
                self._node.engine.hold_back(self.link)
                self._read_or_not()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._full = self.link.full = False
        if not self._closed:
            self._node.pressure.go_on(self)
            self._read_or_not()

    @property
    def full(self) -> bool:
        """Whether the peer lets too much pile up, and may say nothing more until it reads."""
        return self._full and not self.link.conversation.drops

    # -- called by the node ---------------------------------------------------------------------

    def send(self, data: bytes | tuple[bytes, ...]) -> None:
        """Write, unless the peer is gone; cut off one that lets too much pile up."""
        if self._closed:
            return
        transport = self.transport
        if self._full:
            waiting = transport.get_write_buffer_size()
            if waiting - self._longest > self._node.engine.limits.output_hard_bytes:
                transport.abort()
                return
        else:
            self._longest = len(data) if isinstance(data, bytes) else sum(map(len, data))
        try:
            if isinstance(data, bytes):
                transport.write(data)
            else:
                transport.writelines(data)
        except RuntimeError:
            return  # a socket that died in this pass of the loop; `connection_lost` follows

    def hang_up(self) -> None:
        """Close once everything that was said has left; what waits for the disk is said first."""
        if not self._closed and not self.waits_for:
            self.transport.close()

    def abort(self) -> None:
        """Hang up and say nothing more, not even what was already written."""
        if not self._closed:
            self.transport.abort()

    def breathe(self) -> None:
        """Others have been heard since this peer said a lot: it may go on."""
        self._gulped = 0

    def pause_reading(self) -> None:
        """Read nothing for a while."""
        self._reading = False
        self._read_or_not()

    def resume_reading(self) -> None:
        """Read again, unless the peer does not read either."""
        self._reading = True
        self._read_or_not()

    def _read_or_not(self) -> None:
        if self._closed or self.transport.is_closing():
            return
        if self._reading and not self.full:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()


def _peer(transport: asyncio.BaseTransport, listener: str) -> Peer:
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        host = str(name[0])
        local = host.startswith("127.") or host in ("::1", "::ffff:127.0.0.1")
        return Peer(f"{host}:{name[1]}", local, listener=listener)
    return Peer("unix", True, unix=True, listener=listener)


def _keep_alive(sock: socket.socket | None) -> None:
    """A peer that vanished without a word is noticed within a minute and a half."""
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
