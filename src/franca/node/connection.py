"""Sockets: accepting, reading and writing, with bounds both ways. Knows no byte of a protocol."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from franca.node.outlet import Backlog, size_of
from franca.protocols.conversation import Link, Peer

if TYPE_CHECKING:
    from franca.node.node import Node

KEEPALIVE = (
    ("TCP_KEEPIDLE", 60),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 90_000),
)
LARGE_PIECE = 64 * 1024
GULP_BYTES = 1024 * 1024
"""How much is read from a peer that sends large pieces before the others are heard again: the
event loop by itself would take many times as much from one that sends as fast as it can."""
CHUNK_BYTES = 256 * 1024
"""What a socket is given at once of a large message; of what is smaller, all."""
SECURE_CHUNK_BYTES = 32 * 1024
"""The same over TLS, where what the socket does not take is an encrypted copy of its own."""

UNCOUNTED_BYTES = 2 * 1024
"""What a socket may have before it counts as unsent: short answers of one pass leave together."""

UNKNOWN = Peer("unknown", local=False)
"""Of whom nothing is known: nobody who may do what those of this machine may."""

# Why nothing is read from a peer.
FLOOD = 1
GULP = 2
ROOM = 4
ALL = 8
CROWD = 16
BELOW = 32


class Connection(asyncio.Protocol):
    """One socket and its link. `waits_for` is the group behind which its words queue, or 0.

    `piled_bytes` is how much of what it says, several answers at a time, has gone there since.

    A peer whose last answer had to wait for the disk is `patient`: what it says next will most
    likely need the disk too, so while a commit is under way it gathers instead of making a turn
    of its own. Fewer, larger turns cost a quarter less. While others are in a hurry, such a peer
    `gathers`: what it says is kept apart, so that they need not wait until it is acted on.

    While the socket does not take what it was given the connection is `_stuffed`; what is said
    then, and what is large, waits in `_backlog`. `socket` is what the bytes really go through: the
    transport itself or, over TLS, the one below it.
    """

    __slots__ = (
        "_backlog",
        "_behind",
        "_closed",
        "_direct_bytes",
        "_full",
        "_gulped",
        "_held",
        "_is_secure",
        "_leaving",
        "_lending",
        "_longest",
        "_node",
        "_own_bytes",
        "_peer",
        "_service",
        "_stuffed",
        "_take",
        "gathers",
        "link",
        "patient",
        "piled_bytes",
        "socket",
        "transport",
        "waits_for",
    )

    link: Link
    socket: asyncio.Transport
    transport: asyncio.Transport

    def __init__(
        self,
        node: Node,
        service_name: str,
        peer: Peer = UNKNOWN,
        below: asyncio.Transport | None = None,
    ) -> None:
        self._node = node
        self._peer = peer
        self._service = service_name
        self._take = node.engine.inputs.append
        self._is_secure = below is not None
        self._direct_bytes = SECURE_CHUNK_BYTES if below is not None else CHUNK_BYTES
        if below is not None:
            self.socket = below
        self._closed = False
        self._full = False
        self._gulped = 0
        self._held = 0
        self._longest = 0
        self._backlog: Backlog | None = None
        self._behind = False
        self._stuffed = False
        self._lending = False
        self._own_bytes = 0
        self._leaving = False
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
        if self._is_secure:
            self.transport.set_write_buffer_limits(high=1, low=0)
            self.socket.set_write_buffer_limits(high=0)
        else:
            self.socket = self.transport
            self.socket.set_write_buffer_limits(high=UNCOUNTED_BYTES)
        if len(engine.links) >= engine.limits.connections_max:
            self._closed = True
            self.transport.write(engine.services[self._service].refusal)
            self.transport.close()
            return
        _keep_alive(transport.get_extra_info("socket"))
        now = node.clock.now()
        self.link = engine.open_link(self._service, node.next_link_id(), self._peer, now)
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
        size = len(data)
        intake = node.intake
        room = intake.room = intake.room - size
        if room < 0 and room < intake.least_room:
            intake.stop()
        if size >= LARGE_PIECE:
            self._gulped += size
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
        """A peer that says no more wants no more than what was said to it: hang up after that."""
        self._leaving = True
        # TLS leaves no choice.
        return bool(self._backlog) and not self._closed and not self._is_secure

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone. Words that still waited for it, or for the disk, were not heard."""
        if self._closed:
            return
        self._closed = True
        node = self._node
        if self.gathers:
            node.take_gathered()
        unheard = self.waits_for != 0 or self._behind
        self._drop_backlog()
        node.engine.close_link(self.link, node.clock.now(), unheard=unheard)
        node.soon()

    def pause_writing(self) -> None:
        """The socket does not take all it was given."""
        if not self._closed:
            self._stuffed = self._behind = True
            # What is lent to the socket is counted as part of the backlog.
            self._own_bytes = 0 if self._lending else self._written()
            self._node.outlet.stuff(self, self._own_bytes)

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._stuffed = False
        if not self._closed:
            self._node.outlet.loosen(self, self._own_bytes)
            if self._backlog is not None:
                self._backlog.forget_lent()
            if self._backlog:
                self._node.outlet.feed(self)
            else:
                self._behind = False
                if self._full:
                    self._be_full_no_more()

    @property
    def full(self) -> bool:
        """Whether the peer lets too much pile up, and may say nothing more until it reads."""
        return self._full and not self.link.conversation.drops

    # -- called by the node ---------------------------------------------------------------------

    def send(self, data: bytes | tuple[bytes, ...]) -> None:
        """Write, unless the peer is gone; cut off one that lets too much pile up."""
        if self._closed:
            return
        if self._behind or not isinstance(data, bytes) or len(data) > self._direct_bytes:
            self._keep(data)
            return
        try:
            self.transport.write(data)
        except RuntimeError:
            return  # a socket that died in this pass of the loop; `connection_lost` follows

    def _keep(self, data: bytes | tuple[bytes, ...]) -> None:
        """Have it wait until the socket takes more."""
        node = self._node
        limits = node.engine.limits
        backlog = self._backlog
        if backlog is None:
            backlog = self._backlog = Backlog(node.outlet)
        is_too_much = backlog.size - self._longest > limits.output_hard_bytes
        if is_too_much and node.outlet.takes_nothing(self):
            self.cut_off(f"it has not taken {backlog.size} bytes")
            return
        if not backlog:
            # A long message that is under way does not count against the peer.
            self._longest = size_of(data)
            if not self._stuffed:
                node.outlet.feed(self)
        backlog.put((data,) if isinstance(data, bytes) else data)
        self._behind = True
        # While there is too much of all together, nobody adds to it who does not take its own.
        most = UNCOUNTED_BYTES if node.engine.careful else limits.output_soft_bytes
        if backlog.size > most and not self._full:
            self._full = self.link.full = True
            if self.full:
                node.engine.hold_back(self.link)
                self._read_or_not()

    def hang_up(self) -> None:
        """Close once everything that was said has left; what waits for the disk is said first."""
        if not self._closed and not self.waits_for:
            self._leaving = True
            if not self._backlog:
                self.transport.close()

    def abort(self) -> None:
        """Hang up and say nothing more, not even what was already written."""
        if not self._closed:
            self.transport.abort()

    def cut_off(self, reason: str) -> None:
        """Hang up on a peer because of what it does to the others, and have it logged."""
        link = self.link
        if self._closed or link.closing:
            self.abort()
            return
        link.note(reason)
        link.closing = True
        link.conversation.forget_unread()
        self._drop_backlog()
        self.abort()
        self._node.soon()

    # -- called by the outlet ---------------------------------------------------------------------

    @property
    def is_leaving(self) -> bool:
        """Whether it is only there until everything that was said has left."""
        return self._leaving

    @property
    def is_hungry(self) -> bool:
        """Whether the socket could take more of what waits for it."""
        return bool(self._backlog) and not self._stuffed

    @property
    def unsent(self) -> int:
        """How much waits that the socket was not given yet."""
        return self._backlog.size if self._backlog is not None else 0

    @property
    def taken(self) -> int:
        """How much the socket has taken, all in all, of what had to wait."""
        return self._backlog.given - self._written() if self._backlog is not None else 0

    def take_some(self) -> int:
        """Give the socket the next chunk of what waits for it; returns how many bytes."""
        backlog = self._backlog
        if not backlog or self._stuffed or self._closed:
            return 0
        pieces = backlog.lend(SECURE_CHUNK_BYTES if self._is_secure else CHUNK_BYTES)
        self._lending = not self._is_secure
        try:
            self.transport.writelines(pieces)
        except RuntimeError:
            self._drop_backlog()
        finally:
            self._lending = False
        if not self._stuffed or self._is_secure:
            backlog.forget_lent()
        if self._full and self._takes_its_own(backlog):
            self._be_full_no_more()
        if not backlog:
            self._behind = self._stuffed
            if self._leaving:
                self.transport.close()
        return sum(map(len, pieces))

    def _takes_its_own(self, backlog: Backlog) -> bool:
        """Whether so little is left of what waits that the peer may be acted on again."""
        engine = self._node.engine
        if engine.careful:
            return not (backlog or self._stuffed)
        return backlog.size <= engine.limits.output_soft_bytes // 4

    def _be_full_no_more(self) -> None:
        self._full = self.link.full = False
        self._node.pressure.go_on(self)
        self._read_or_not()

    def _written(self) -> int:
        """What was given to the transport and has not left."""
        size = self.transport.get_write_buffer_size()
        return size + self.socket.get_write_buffer_size() if self._is_secure else size

    def _drop_backlog(self) -> None:
        self._node.outlet.loosen(self, self._own_bytes)
        if self._backlog is not None:
            self._backlog.clear()

    # -- reading --------------------------------------------------------------------------------

    def breathe(self) -> None:
        """Others have been heard since this peer said a lot: it may go on."""
        self._gulped = 0
        self.release(GULP)

    def hold(self, reason: int) -> None:
        """Read nothing until this reason is gone."""
        self._held |= reason
        self._read_or_not()

    def release(self, reason: int) -> None:
        """Read again, unless there is another reason not to."""
        if self._held & reason:
            self._held &= ~reason
            self._read_or_not()

    def _read_or_not(self) -> None:
        if self._closed or self.transport.is_closing():
            return
        # Over TLS it is the socket below that is not read: else what comes would pile up between.
        if self._held or self.full:
            self.link.paused = True
            self.socket.pause_reading()
        else:
            self.link.paused = False
            self.socket.resume_reading()


def _keep_alive(sock: socket.socket | None) -> None:
    """A peer that vanished without a word is noticed within a minute and a half."""
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
