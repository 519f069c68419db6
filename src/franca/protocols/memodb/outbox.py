"""The replies of one connection, sent no faster than the peer reads them.

Many clients share a connection, so several large results may be there for it at once. One of them
is handed to the socket at a time; the rest waits here until the peer has read what went before,
and small ones may overtake it. What waits for all peers together is bounded: those who read
nothing are cut off, and a peer that lets too much pile up is, too.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.limits import Limits
from franca.protocols.conversation import WHOLE_SHARE, Link
from franca.protocols.memodb.sp import head_over_ipc, head_over_tcp
from franca.protocols.memodb.wire import LARGE_BYTES

SHARED_BYTES: Final = 1_024
"""A body of so many bytes that is sent again is not copied: all who wait for it share it."""
REPLY_COSTS_BYTES: Final = 512
"""What a reply that waits takes besides its bytes, roughly."""
PASSED_OVER_MAX: Final = 10
"""How often a peer that reads nothing is passed over when there is too much, once a second."""
HARD: Final = 12
"""Beyond so many times what may wait no peer is passed over."""


class Reply(Struct, eq=False, gc=False):
    """The answer to the request with that stack; after the commit, if it is about a durable job.

    A `worker` has one answer at a time. A body that is sent `again` was sent before, to this peer
    or to another. `size` is how much memory it takes while it waits.
    """

    stack: bytes
    head: bytes
    body: bytes
    durable: bool = False
    worker: bytes = b""
    again: bool = False
    size: int = 0


class Unsent:
    """What waits in all outboxes; a body that waits in several places is counted once.

    `waiting` has those with something, the one whose peer has read nothing for longest first, and
    how often each was passed over.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.waiting: dict[Outbox, int] = {}
        self._bytes_max = bytes_max
        self._bodies: dict[int, int] = {}
        self._shares = 0

    def add(self, outbox: Outbox, reply: Reply) -> None:
        """A reply must wait. If it is too much, a peer is cut off."""
        self.waiting.setdefault(outbox, 0)
        self.count(reply, 1)
        while self.bytes > HARD * self._bytes_max and self._shares > reply.size:
            next(filter(self._is_hoard, self.waiting)).cut_off()

    def count(self, reply: Reply, change: int) -> None:
        """One more such reply waits, or one less."""
        body = id(reply.body)
        others = self._bodies.pop(body, 0) - (change < 0)
        self._shares += change * reply.size
        self.bytes += change * (reply.size - (len(reply.body) if others else 0))
        if others + (change > 0):
            self._bodies[body] = others + (change > 0)

    def on_read(self, outbox: Outbox) -> None:
        """The peer has read something."""
        del self.waiting[outbox]
        if outbox.waiting_bytes:
            self.waiting[outbox] = 0

    def sweep(self) -> None:
        """Once a second: cut off a peer that has much and has read nothing for long."""
        if self.bytes <= self._bytes_max:
            return
        for outbox in list(self.waiting):
            self.waiting[outbox] += 1
            if self._is_hoard(outbox) and self.waiting[outbox] >= PASSED_OVER_MAX:
                outbox.cut_off()
                if self.bytes <= self._bytes_max:
                    return

    def _is_hoard(self, outbox: Outbox) -> bool:
        """Whether as much waits there as for others, or more."""
        return outbox.waiting_bytes * len(self.waiting) >= self._shares


class Outbox:
    """The replies of one connection. `count` is how many were handed to the link so far.

    Once the link is full others are heard before its next message.
    """

    def __init__(self, link: Link, limits: Limits, unsent: Unsent) -> None:
        self.count = 0
        self.waiting_bytes = 0
        self._link = link
        self._limits = limits
        self._unsent = unsent
        self._head = head_over_ipc if link.peer.unix else head_over_tcp
        self._has_large = False
        """Whether a large message is among what was handed to the link in this turn."""
        self._waiting: dict[bytes | tuple[bytes, bytes, int], Reply] = {}
        """By the worker that is answered; or by stack, head and body, for all others."""
        self._left = 0

    def send(
        self,
        stack: bytes,
        head: bytes,
        body: bytes,
        durable: bool = False,
        worker: bytes = b"",
        again: bool = False,
    ) -> None:
        """Send such a `Reply` now, or once the peer has read what was sent before."""
        size = len(stack) + len(head) + len(body)
        link = self._link
        if size <= SHARED_BYTES and not (link.full or self._has_large or durable):
            # As `_write`, without its calls and a `Reply` (4 % of a request): nearly every answer
            # is such, and those to one share of a turn are never much.
            if not link.out:
                self._left = self.count
            self.count += 1
            link.write(b"".join((self._head(size), stack, head, body)))
            return
        reply = Reply(stack, head, body, durable, worker, again)
        if self.takes(size):
            self._write(reply, size)
        else:
            self._postpone(reply, size)
        if (size > SHARED_BYTES or link.full) and link.is_full():
            link.conversation.spent = WHOLE_SHARE

    def is_on_its_way(self, worker: bytes, count: int, stack: bytes, *, is_small: bool) -> bool:
        """Whether the answer to that worker, the last of `count`, has not left yet.

        If it waits here, it goes where the stack says. A small one need not be waited for.
        """
        reply = self._waiting.get(worker)
        if reply is not None:
            reply.stack = stack
            return True
        if is_small or count <= self._left:
            return False
        return bool(self._link.out or self._link.full)

    def takes(self, size: int) -> bool:
        """Whether a message of that size would leave at once."""
        if size <= LARGE_BYTES:
            return not self._link.full
        return not (self._waiting or self._link.full or (self._has_large and self._link.out))

    def flush(self) -> None:
        """Hand over what waits, as much as may be at once."""
        waiting = self._waiting
        most = self._limits.output_soft_bytes
        while waiting:
            if most <= 0 or self._link.full or (self._has_large and self._link.out):
                self._link.call_next_turn()
                return
            reply = waiting.pop(next(iter(waiting)))
            most -= reply.size
            self.waiting_bytes -= reply.size
            self._unsent.count(reply, -1)
            self._unsent.on_read(self)
            reply.again = True  # others may wait for the same body: it is there once
            self._write(reply, reply.size - REPLY_COSTS_BYTES)

    def _write(self, reply: Reply, size: int) -> None:
        """Hand a message to the link; a long body is not copied only to stand behind its front.

        Nor is one that was sent before, unless it is short.
        """
        link = self._link
        if not link.out:
            self._left = self.count
            self._has_large = False
        self.count += 1
        head, body = self._head(size), reply.body
        if size > LARGE_BYTES or (reply.again and len(body) >= SHARED_BYTES):
            self._has_large = self._has_large or size > LARGE_BYTES
            link.write_pieces((b"".join((head, reply.stack, reply.head)), body))
        else:
            link.write(b"".join((head, reply.stack, reply.head, body)))
        if reply.durable:
            link.after_commit = True

    def _postpone(self, reply: Reply, size: int) -> None:
        # The same answer to the same request waits once.
        key = reply.worker or (reply.stack, reply.head, id(reply.body))
        if self._link.closing or key in self._waiting:
            return
        if not self._waiting:
            self._link.call_next_turn()
        reply.size = REPLY_COSTS_BYTES + size
        self._waiting[key] = reply
        self.waiting_bytes += reply.size
        self._unsent.add(self, reply)
        if self.waiting_bytes > 2 * self._limits.frame_bytes_max:
            self.cut_off()

    def cut_off(self) -> None:
        """The peer does not read, and what waits for it is too much."""
        self._link.close(f"replies of {self.waiting_bytes} bytes wait for it to read")
        self.drop()

    def drop(self) -> None:
        """What waits will never be read."""
        for reply in self._waiting.values():
            self._unsent.count(reply, -1)
        self._waiting.clear()
        self.waiting_bytes = 0
        self._unsent.waiting.pop(self, None)
