"""What is said on one connection, no faster than the peer takes it.

Many clients share a connection, so several large results may be there for it at once. One of them
is handed to the socket at a time; the rest waits here until the peer has taken what went before,
and small ones may overtake it. What waits for all peers together is bounded: those who take
nothing are cut off, and a peer that lets too much pile up is, too.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.limits import Limits
from franca.protocols.conversation import Link
from franca.protocols.memodb.sp import head_over_ipc, head_over_tcp

LARGE_BYTES: Final = 64 * 1024
"""Messages beyond this are treated one by one."""
SHARED_BYTES: Final = 1_024
"""A body of so many bytes that is said again is not copied: all who wait for it share it."""
REPLY_COSTS_BYTES: Final = 512
"""What a reply that waits takes besides its bytes, roughly."""
PATIENCE: Final = 10
"""How often who takes nothing is passed over when there is too much, once a second."""
HARD: Final = 12
"""Beyond so many times what may wait nobody is passed over."""


Key = bytes | tuple[bytes, bytes, int]
"""Who has one answer at a time; or a stack, a head and a body, for all others."""


class Reply(Struct, eq=False, gc=False):
    """One reply that waits, and how much memory it takes."""

    stack: bytes
    head: bytes
    body: bytes
    durable: bool
    size: int


class Unsent:
    """What waits in all outboxes; a body that waits in several places is counted once.

    `waiting` has those with something, who has taken nothing for longest first.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.waiting: dict[Outbox, int] = {}
        self._bytes_max = bytes_max
        self._bodies: dict[int, int] = {}
        self._shares = 0

    def add(self, outbox: Outbox, reply: Reply) -> None:
        """A reply must wait. If it is too much, somebody is cut off."""
        self.waiting.setdefault(outbox, 0)
        key = id(reply.body)
        count = self._bodies[key] = self._bodies.get(key, 0) + 1
        size = reply.size
        self._shares += size
        self.bytes += size if count == 1 else size - len(reply.body)
        while self.bytes > HARD * self._bytes_max and self._shares > size:
            self._cut_off_one()

    def remove(self, reply: Reply) -> None:
        """A reply waits no more."""
        key = id(reply.body)
        count = self._bodies[key] - 1
        size = reply.size
        self._shares -= size
        self.bytes -= size if count == 0 else size - len(reply.body)
        if count:
            self._bodies[key] = count
        else:
            del self._bodies[key]

    def moved(self, outbox: Outbox) -> None:
        """The peer has taken something."""
        del self.waiting[outbox]
        if outbox.waiting_bytes:
            self.waiting[outbox] = 0

    def forget(self, outbox: Outbox) -> None:
        """Nothing waits there any more."""
        self.waiting.pop(outbox, None)

    def sweep(self) -> None:
        """Once a second: cut off who has much and has taken nothing for long."""
        if self.bytes <= self._bytes_max:
            return
        for outbox in list(self.waiting):
            self.waiting[outbox] += 1
            if self._is_hoard(outbox) and self.waiting[outbox] >= PATIENCE:
                outbox.cut_off()
                if self.bytes <= self._bytes_max:
                    return

    def _is_hoard(self, outbox: Outbox) -> bool:
        """Whether as much waits there as for others, or more."""
        return outbox.waiting_bytes * len(self.waiting) >= self._shares

    def _cut_off_one(self) -> None:
        next(filter(self._is_hoard, self.waiting)).cut_off()


class Outbox:
    """The replies of one connection. `count` is how many were handed to the link so far.

    `enough` was said once the link is full: then others are heard before its next message. Whoever
    reads from the link says when that begins anew.
    """

    def __init__(self, link: Link, limits: Limits, unsent: Unsent) -> None:
        self.count = 0
        self.enough = False
        self.waiting_bytes = 0
        self._link = link
        self._limits = limits
        self._unsent = unsent
        self._head = head_over_ipc if link.peer.unix else head_over_tcp
        self._laden = False
        self._waiting: dict[Key, Reply] = {}
        self._left = 0

    def say(
        self,
        stack: bytes,
        head: bytes,
        body: bytes,
        durable: bool = False,
        key: bytes = b"",
        again: bool = False,
    ) -> None:
        """Answer the request with that stack; after the commit, if it is about a durable job.

        A `key` is somebody who has one answer at a time. A body that is said `again` was said
        before, to this peer or to another.
        """
        size = len(stack) + len(head) + len(body)
        link = self._link
        if size > SHARED_BYTES or link.full:
            if self.takes(size):
                self._write(stack, head, body, durable, again)
            else:
                # The same answer to the same request waits once.
                reply = Reply(stack, head, body, durable, REPLY_COSTS_BYTES + size)
                self._put_off(key or (stack, head, id(body)), reply)
            # Only here is it asked for: short answers to one share of a turn are never much.
            self.enough = self.enough or link.is_full()
        elif durable or self._laden:
            self._write(stack, head, body, durable, False)
        else:
            out = link.out
            if not out:
                self._left = self.count
                link.speaking.append(link)
            self.count += 1
            # As `Link.write`, without a call: nearly every answer is given here.
            out.append(b"".join((self._head(size), stack, head, body)))

    def is_on_its_way(self, key: bytes, count: int, stack: bytes, *, is_small: bool) -> bool:
        """Whether the answer for that key, the last of `count`, has not left yet.

        If it waits here, it goes where the stack says. A small one need not be waited for.
        """
        reply = self._waiting.get(key)
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
        return not (self._waiting or self._link.full or (self._laden and self._link.out))

    def flush(self) -> None:
        """Hand over what waits, as much as may be at once."""
        waiting = self._waiting
        most = self._limits.output_soft_bytes
        while waiting:
            if most <= 0 or self._link.full or (self._laden and self._link.out):
                self._link.again()
                return
            reply = waiting.pop(next(iter(waiting)))
            most -= reply.size
            self._let_go(reply)
            self._unsent.moved(self)
            # Others may wait for the same body: from here on, too, it is there once.
            self._write(reply.stack, reply.head, reply.body, reply.durable, True)

    def _write(self, stack: bytes, head: bytes, body: bytes, durable: bool, again: bool) -> None:
        """Hand a message to the link; a long body is not copied only to stand behind its front.

        Nor is one that was said before, unless it is short.
        """
        link = self._link
        if not link.out:
            self._left = self.count
            self._laden = False
        self.count += 1
        size = len(stack) + len(head) + len(body)
        if size > LARGE_BYTES or (again and len(body) >= SHARED_BYTES):
            self._laden = self._laden or size > LARGE_BYTES
            link.write_bulk(b"".join((self._head(size), stack, head)), body)
            link.after_commit = link.after_commit or durable
            return
        message = b"".join((self._head(size), stack, head, body))
        if durable:
            link.write_after_commit(message)
        else:
            link.write(message)

    def _put_off(self, key: Key, reply: Reply) -> None:
        if self._link.closing or key in self._waiting:
            return
        if not self._waiting:
            self._link.again()
        self._waiting[key] = reply
        self.waiting_bytes += reply.size
        self._unsent.add(self, reply)
        if self.waiting_bytes > 2 * self._limits.frame_bytes_max:
            self.cut_off()

    def _let_go(self, reply: Reply) -> None:
        self.waiting_bytes -= reply.size
        self._unsent.remove(reply)

    def cut_off(self) -> None:
        """The peer does not read, and what waits for it is too much."""
        self._link.close(f"replies of {self.waiting_bytes} bytes wait for it to read")
        self.drop()

    def drop(self) -> None:
        """What waits will never be read."""
        for reply in self._waiting.values():
            self._let_go(reply)
        self._waiting.clear()
        self._unsent.forget(self)
