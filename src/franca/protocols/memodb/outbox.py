"""What is said on one connection, no faster than the peer takes it.

Many clients share a connection, so several large results may be there for it at once. One of them
is handed to the socket at a time; the rest waits here until the peer has taken what went before,
and small ones may overtake it. A peer that lets too much pile up is cut off.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from franca.core.limits import Limits
from franca.protocols.conversation import Link
from franca.protocols.memodb.sp import head_over_ipc, head_over_tcp

LARGE_BYTES: Final = 64 * 1024
"""Messages beyond this are treated one by one."""


class Outbox:
    """The replies of one connection. `count` is how many were handed to the link so far."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self.count = 0
        self._link = link
        self._limits = limits
        self._head = head_over_ipc if link.peer.unix else head_over_tcp
        self._laden = False
        self._waiting: deque[tuple[bytes, bytes, bool]] = deque()
        self._waiting_bytes = 0

    def say(self, stack: bytes, head: bytes, body: bytes, *, durable: bool = False) -> None:
        """Answer the request with that stack; after the commit, if it is about a durable job."""
        size = len(stack) + len(head) + len(body)
        if size > LARGE_BYTES:
            front = b"".join((self._head(size), stack, head))
            if self.takes(size):
                self._write(front, body, durable)
            else:
                self._put_off(front, body, durable)
            return
        link = self._link
        message = b"".join((self._head(size), stack, head, body))
        if link.full:
            self._put_off(message, b"", durable)
        elif durable or self._laden:
            self._write(message, b"", durable)
        else:
            self.count += 1
            link.write(message)

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
            front, body, durable = waiting[0]
            if most <= 0 or self._link.full or (self._laden and self._link.out):
                self._link.again()
                return
            waiting.popleft()
            size = len(front) + len(body)
            most -= size
            self._waiting_bytes -= size
            self._write(front, body, durable)

    def _write(self, front: bytes, body: bytes, durable: bool) -> None:
        """Hand a message to the link; a long body is not copied only to stand behind its front."""
        self.count += 1
        link = self._link
        if body:
            self._laden = True
            link.write_bulk(front, body)
            link.after_commit = link.after_commit or durable
        else:
            if not link.out:
                self._laden = False
            if durable:
                link.write_after_commit(front)
            else:
                link.write(front)

    def _put_off(self, front: bytes, body: bytes, durable: bool) -> None:
        if not self._waiting:
            self._link.again()
        self._waiting.append((front, body, durable))
        self._waiting_bytes += len(front) + len(body)
        if self._waiting_bytes > 2 * self._limits.frame_bytes_max:
            waiting = self._waiting_bytes
            self._waiting.clear()
            self._waiting_bytes = 0
            self._link.close(f"replies of {waiting} bytes wait for it to read")
