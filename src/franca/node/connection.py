"""Connections: reading and writing, with bounds both ways. Knows no byte of a protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from franca.node.output import Backlog, size_of
from franca.node.sockets import keep_alive, unsent_bytes
from franca.protocols.conversation import Link, Peer

if TYPE_CHECKING:
    from franca.node.node import Node

LARGE_PIECE = 64 * 1024
BURST_BYTES = 1024 * 1024
"""How much is read from a peer that sends large pieces before other events are handled: the event
loop by itself would read many times as much from one that sends as fast as it can."""
CHUNK_BYTES = 256 * 1024
"""What a socket is given at once of a large message; of what is smaller, all."""
SECURE_CHUNK_BYTES = 32 * 1024
"""The same over TLS, where what the socket does not take is an encrypted copy of its own."""

UNCOUNTED_BYTES = 2 * 1024
"""What a socket may have before it counts as unsent: short answers of one pass leave together."""

UNKNOWN = Peer("unknown", local=False)
"""A peer of which nothing is known, so that it may not do what peers of this machine may."""

# Why nothing is read from a peer.
FLOOD = 1
BURST = 2
SHARE = 4
ALL = 8
ADDING = 16
TLS_PASS = 32


class Connection(asyncio.Protocol):
    """One socket and its link. `waits_for` is the group behind which its output queues, or 0.

    `piled_bytes` is how much has queued there since.

    A peer whose last answer waited for the disk most likely needs it again (`needs_disk`): what it
    sends while a commit is under way gathers instead of making a turn of its own. Fewer, larger
    turns cost a quarter less. While jobs that need no disk are urgent, what it sends is kept apart
    (`is_gathering`), so that these need not wait until it is acted on.

    While the socket does not take what it was given the connection is `_blocked`; output
    then, and large output, waits in `_backlog`. `socket` is what the bytes really go through: the
    transport itself or, over TLS, the one below it.
    """

    link: Link
    socket: asyncio.Transport
    transport: asyncio.Transport

    # Several are read and set for every message, which takes longer in a dictionary.
    __slots__ = (
        "_backlog", "_behind", "_blocked", "_closed", "_direct_bytes", "_full", "_has_ended",
        "_held", "_is_secure", "_lending", "_longest", "_node", "_own_bytes", "_peer", "_service",
        "_take", "_write", "burst_bytes", "is_gathering", "is_leaving", "link", "needs_disk",
        "piled_bytes", "socket", "transport", "waits_for",
    )  # fmt: skip

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
        self._backlog: Backlog | None = None
        self._closed = self._full = self._behind = self._blocked = self._lending = False
        self._has_ended = False
        self.burst_bytes = self._held = self._longest = self._own_bytes = 0
        self.is_leaving = self.is_gathering = self.needs_disk = False
        self.piled_bytes = self.waits_for = 0

    # -- called by the event loop -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer is connected: open its link, or refuse it."""
        self.transport = cast(asyncio.Transport, transport)
        self._write = self.transport.write
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
        keep_alive(transport.get_extra_info("socket"))
        now = node.clock.now()
        self.link = engine.open_link(self._service, node.next_link_id(), self._peer, now)
        self.link.carrier = self
        node.soon()

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer; they are acted on in the next turn."""
        link = self.link
        node = self._node
        if self.is_gathering or (node.is_urgent and self.needs_disk and node.busy):
            self.is_gathering = True
            node.gathered.append((self, data))
        else:
            self._take((link, data))
        size = len(data)
        input = node.input
        room = input.room = input.room - size
        if room < 0 and room < input.least_room:
            input.stop()
        if size >= LARGE_PIECE:
            self.burst_bytes += size
            if self.burst_bytes > BURST_BYTES:
                node.pressure.bursting.append(self)
                self.hold(BURST)
        if not node.turn_set:
            if self.is_gathering or (node.busy and self.needs_disk):
                node.later()
            else:
                node.soon()
        if link.conversation.holding:
            node.pressure.pause_if_flooded(link)

    def eof_received(self) -> bool:
        """A peer that sends no more wants no more than what was written to it: close after that.

        Unless its protocol has it answered first.
        """
        if self._closed or self._is_secure or self._has_ended:
            return False  # TLS leaves no choice
        if self.link.conversation.hears_end:
            if self.is_gathering:
                self._node.gathered.append((self, b""))
            else:
                self._take((self.link, b""))
            self._node.soon()
            return True
        self.is_leaving = True
        return bool(self._backlog)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone. Output that waited for it, or for the disk, was not delivered."""
        if self._closed:
            return
        self._closed = True
        node = self._node
        if self.is_gathering:
            node.take_gathered()
        undelivered = self.waits_for != 0 or self._behind
        self._behind = True  # so that nothing is sent directly
        self._drop_backlog()
        node.engine.close_link(self.link, node.clock.now(), undelivered=undelivered)
        node.soon()

    def pause_writing(self) -> None:
        """The socket does not take all it was given."""
        if not self._closed:
            self._blocked = self._behind = True
            # What is lent to the socket is counted as part of the backlog.
            self._own_bytes = 0 if self._lending else self._written()
            self._node.output.block(self, self._own_bytes)

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._blocked = False
        if not self._closed:
            self._node.output.unblock(self, self._own_bytes)
            if self._backlog is not None:
                self._backlog.forget_lent()
            if self._backlog:
                self._node.output.send_to(self)
            else:
                self._behind = False
                if self._full:
                    self._no_longer_full()

    @property
    def full(self) -> bool:
        """Whether the peer lets too much pile up, and is not acted on until it reads."""
        return self._full and not self.link.conversation.drops

    # -- called by the node ---------------------------------------------------------------------

    def send(self, data: bytes | tuple[bytes, ...]) -> None:
        """Write, unless the peer is gone; cut off one that lets too much pile up."""
        if self._behind or type(data) is not bytes or len(data) > self._direct_bytes:
            if not self._closed:
                self._keep(data)
            return
        try:
            self._write(data)
        except RuntimeError:
            return  # a socket that died in this pass of the loop; `connection_lost` follows

    def _keep(self, data: bytes | tuple[bytes, ...]) -> None:
        """Have it wait until the socket takes more."""
        node = self._node
        limits = node.engine.limits
        backlog = self._backlog
        if backlog is None:
            backlog = self._backlog = Backlog(node.output)
        is_too_much = backlog.size - self._longest > limits.output_hard_bytes
        if is_too_much and node.output.takes_nothing(self):
            self.cut_off(f"it has not taken {backlog.size} bytes")
            return
        if not backlog:
            # A long message that is being sent does not count against the peer.
            self._longest = size_of(data)
            if not self._blocked:
                node.output.send_to(self)
        backlog.put((data,) if isinstance(data, bytes) else data)
        self._behind = True
        # While there is too much in all, a connection adds to it only if it has nothing unsent.
        most = UNCOUNTED_BYTES if node.engine.one_by_one else limits.output_soft_bytes
        if backlog.size > most and not self._full:
            self._full = self.link.full = True
            if self.full:
                node.engine.hold_back(self.link)
                self._update_reading()

    def hang_up(self) -> None:
        """Close once all output has left; what waits for the disk is sent first."""
        if not self._closed and not self.waits_for:
            self.is_leaving = True
            if not self._backlog:
                self._close()

    def _close(self) -> None:
        """Close, and let what was written last arrive.

        A socket that is closed while more comes from the peer is reset, and what the kernel has
        not sent yet is lost.
        """
        # TLS cannot end one direction alone; what was written to a unix socket is with the peer.
        if self._is_secure or self._peer.unix or not unsent_bytes(self.transport):
            self.transport.close()
        elif not self._has_ended:
            self._has_ended = True
            self.transport.write_eof()
            self._node.lingering.add(self.transport)

    def abort(self) -> None:
        """Close and send nothing more, not even what was already written."""
        if not self._closed:
            self.transport.abort()

    def cut_off(self, reason: str) -> None:
        """Close a connection because of what it does to the others, and have it logged."""
        link = self.link
        if self._closed or link.closing:
            self.abort()
            return
        link.note(reason)
        link.closing = True
        link.ready = False
        link.conversation.forget_unread()
        self._drop_backlog()
        self.abort()
        self._node.soon()

    # -- called by the output ---------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """Whether the socket could take more of what waits for it."""
        return bool(self._backlog) and not self._blocked

    @property
    def unsent(self) -> int:
        """How much waits that the socket was not given yet."""
        return self._backlog.size if self._backlog is not None else 0

    @property
    def taken(self) -> int:
        """How much the socket has taken, all in all, of what had to wait."""
        return self._backlog.given - self._written() if self._backlog is not None else 0

    def send_some(self) -> int:
        """Give the socket the next chunk of what waits for it; returns how many bytes."""
        backlog = self._backlog
        if not backlog or self._blocked or self._closed:
            return 0
        pieces = backlog.lend(SECURE_CHUNK_BYTES if self._is_secure else CHUNK_BYTES)
        self._lending = not self._is_secure
        try:
            self.transport.writelines(pieces)
        except RuntimeError:
            self._drop_backlog()
        finally:
            self._lending = False
        if not self._blocked or self._is_secure:
            backlog.forget_lent()
        if self._full and self._has_caught_up(backlog):
            self._no_longer_full()
        if not backlog:
            self._behind = self._blocked
            if self.is_leaving:
                self._close()
        return sum(map(len, pieces))

    def _has_caught_up(self, backlog: Backlog) -> bool:
        """Whether so little is left of what waits that the peer may be acted on again."""
        engine = self._node.engine
        if engine.one_by_one:
            return not (backlog or self._blocked)
        return backlog.size <= engine.limits.output_soft_bytes // 4

    def _no_longer_full(self) -> None:
        self._full = self.link.full = False
        self._node.pressure.go_on(self)
        self._update_reading()

    def _written(self) -> int:
        """What was given to the transport and has not left."""
        size = self.transport.get_write_buffer_size()
        return size + self.socket.get_write_buffer_size() if self._is_secure else size

    def _drop_backlog(self) -> None:
        self._node.output.unblock(self, self._own_bytes)
        if self._backlog is not None:
            self._backlog.clear()

    # -- reading --------------------------------------------------------------------------------

    def hold(self, reason: int) -> None:
        """Read nothing until this reason is gone."""
        self._held |= reason
        self._update_reading()

    def release(self, reason: int) -> None:
        """Read again, unless there is another reason not to."""
        if self._held & reason:
            self._held &= ~reason
            self._update_reading()

    def _update_reading(self) -> None:
        if self._closed or self.transport.is_closing():
            return
        # Over TLS it is the socket below that is not read: else what comes would pile up between.
        if self._held or self.full:
            self.link.paused = True
            self.socket.pause_reading()
        else:
            self.link.paused = False
            self.socket.resume_reading()


def connection_of(link: Link) -> Connection:
    """The connection that carries a link."""
    carrier = link.carrier
    assert isinstance(carrier, Connection)
    return carrier
