"""Unsent output: bounded for all connections together, and sent in fair shares.

A socket that does not take all it was given gets no more until it has: further output waits here,
in the pieces in which it was written. Many connections may wait for one piece, which counts once.
Large messages are cut up as they are sent, so that no copy of a whole one is made, in clear or
encrypted, and so that many large ones do not hold up the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from franca.core.limits import Limits
from franca.core.model import Millis

if TYPE_CHECKING:
    from franca.node.connection import Connection

PASS_BYTES = 4 * 1024 * 1024
"""What all sockets together are given of large messages in one pass of the event loop."""
SHARED_BYTES = 1024
"""Smaller pieces are counted for each connection, not shared."""
JOINED_BYTES = 32 * 1024
"""More than this is never joined into one piece: many connections may be sent the same."""
STALL_MS = 10_000
"""How long a peer may take nothing while there is too much and others wait for that."""
SHORT_STALL_MS = 250
"""And when there is three times as much: a peer that reads at all takes something in that time."""
LOOK_MS = 1_000
PACE_MS = 5_000
"""How long a connection with more than its share may be slow, while there is too much."""
DRAIN_MS = 60_000
"""Slow means that the rest would not be taken within this time."""


def joined(out: Sequence[bytes], in_pieces: bool) -> bytes | tuple[bytes, ...]:
    """These pieces as they are if they are long, else joined."""
    if in_pieces or (len(out[-1]) >= SHARED_BYTES and sum(map(len, out)) > JOINED_BYTES):
        return tuple(out)
    data = b"".join(out)
    return data if len(data) <= JOINED_BYTES else tuple(out)


def size_of(data: bytes | tuple[bytes, ...]) -> int:
    """How many bytes there are."""
    return len(data) if isinstance(data, bytes) else sum(map(len, data))


class Output:
    """Everything unsent: `total` is what waits for sockets, and what waits for the disk.

    `soon` calls a function in the next pass of the event loop.
    """

    def __init__(
        self,
        limits: Limits,
        now: Callable[[], Millis],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.now = now
        self.total = 0
        self._limits = limits
        self._limit = limits.output_bytes
        self._look_at: Millis = 0
        self._soon = soon
        self._is_sending = False
        self._waiting: deque[Connection] = deque()
        self._pieces: dict[int, int] = {}
        self._giants: dict[int, int] = {}
        self._slow: dict[Connection, tuple[Millis, int]] = {}
        self._blocked: dict[Connection, Millis] = {}

    # -- what waits -----------------------------------------------------------------------------

    def add(self, piece: bytes) -> None:
        """A connection keeps this piece until its peer has taken what was before it."""
        size = len(piece)
        if size >= SHARED_BYTES:
            # Its identity is its name for as long as somebody keeps it.
            known = self._pieces.get(id(piece), 0)
            self._pieces[id(piece)] = known + 1
            if known:
                return
            if size > self._limit // 2:
                self._giants[id(piece)] = size
        self.total += size

    def remove(self, piece: bytes) -> None:
        """A connection no longer keeps this piece."""
        size = len(piece)
        if size >= SHARED_BYTES:
            left = self._pieces[id(piece)] - 1
            if left:
                self._pieces[id(piece)] = left
                return
            del self._pieces[id(piece)]
            self._giants.pop(id(piece), None)
        self.total -= size

    def block(self, connection: Connection, own_bytes: int) -> None:
        """A socket does not take more; so many bytes of its own wait in the transport."""
        self._blocked[connection] = self.now()
        self.total += own_bytes

    def unblock(self, connection: Connection, own_bytes: int) -> None:
        """It has taken everything, or is gone."""
        if self._blocked.pop(connection, None) is not None:
            self.total -= own_bytes

    def takes_nothing(self, connection: Connection) -> bool:
        """Whether a socket has taken nothing for longer than a peer that reads would need."""
        since = self._blocked.get(connection)
        return since is not None and self.now() - since >= SHORT_STALL_MS

    # -- handing out ------------------------------------------------------------------------------

    def send_to(self, connection: Connection) -> None:
        """Output waits for a socket that can take more."""
        self._waiting.append(connection)
        if not self._is_sending:
            self._is_sending = True
            self._soon(self._send)

    def _send(self) -> None:
        self._is_sending = False
        waiting = self._waiting
        left = PASS_BYTES
        while waiting and left > 0:
            connection = waiting.popleft()
            left -= connection.send_some()
            if connection.can_send:
                waiting.append(connection)
        if waiting:
            self._is_sending = True
            self._soon(self._send)

    # -- the bound ------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether more waits than may: than the limit, or than one message and a quarter of it."""
        return self.total > self._limit and self.total > self._most()

    @property
    def is_full(self) -> bool:
        """Whether there is twice as much as may be."""
        return self.total > self._limit and self.total > 2 * self._most()

    def _most(self) -> int:
        return max(self._limit, max(self._giants.values(), default=0) + self._limit // 4)

    def look(self, is_waited_for: bool) -> None:
        """Cut off peers that take nothing, while there is too much and others wait for that.

        And those that take too little of more than their share, and those whose connections end
        when they have taken the rest, and that do not take it.
        """
        now = self.now()
        if is_waited_for and self.is_over:
            self._judge_pace(now)
        elif self._slow:
            self._slow.clear()
        if now < self._look_at and self.total <= self._limit:
            return
        self._look_at = now + LOOK_MS
        most = self._most()
        for connection, since in list(self._blocked.items()):
            waited = now - since
            if waited < SHORT_STALL_MS:
                return
            is_late = waited >= STALL_MS
            if is_late and connection.is_leaving:
                connection.cut_off("it did not take what was said to it last")
            elif self.total > 3 * most or (self.total > most and is_late and is_waited_for):
                connection.cut_off(f"it has taken nothing for {waited} ms, and too much waits")

    def _judge_pace(self, now: Millis) -> None:
        """Cut off peers with more than their share that take it slowly, the largest first."""
        share = min(self._limits.output_soft_bytes, self._limit // (2 * len(self._blocked) or 1))
        slow = self._slow
        for connection in self._blocked:
            if connection not in slow and connection.unsent > share:
                slow[connection] = now, connection.taken
        late = [one for one, (since, _) in slow.items() if now - since >= PACE_MS]
        for connection in sorted(late, key=lambda one: -one.unsent):
            since, before = slow.pop(connection)
            rest = connection.unsent
            if rest <= share or not self.is_over:
                continue
            took = connection.taken - before
            least = max(self._limits.frame_bytes_per_s, rest * 1_000 // DRAIN_MS)
            if took * 1_000 < least * (now - since):
                connection.cut_off(f"it took {took} bytes in {now - since} ms, and too much waits")


class Backlog:
    """What waits for one socket, in order, and what was lent to it.

    `size` is how much of it the socket was not given yet, `given` how much it was ever given.
    """

    __slots__ = ("_at", "_lent", "_output", "_pieces", "given", "size")

    def __init__(self, output: Output) -> None:
        self.size = 0
        self.given = 0
        self._output = output
        self._at = 0
        self._pieces: deque[bytes] = deque()
        self._lent: list[bytes] = []

    def __bool__(self) -> bool:
        return self.size > 0

    def put(self, pieces: Iterable[bytes]) -> None:
        """Add something at the end."""
        for piece in pieces:
            if piece:
                self._pieces.append(piece)
                self.size += len(piece)
                self._output.add(piece)

    def lend(self, most: int) -> list[bytes | memoryview]:
        """Take so many bytes from the front. Whole pieces are kept until `forget_lent`."""
        taken: list[bytes | memoryview] = []
        while self._pieces and most > 0:
            piece = self._pieces[0]
            end = min(self._at + most, len(piece))
            taken.append(memoryview(piece)[self._at : end])
            most -= end - self._at
            self.size -= end - self._at
            self.given += end - self._at
            self._at = end
            if end == len(piece):
                self._at = 0
                self._lent.append(self._pieces.popleft())
        return taken

    def forget_lent(self) -> None:
        """The socket needs nothing any more of what it was given."""
        for piece in self._lent:
            self._output.remove(piece)
        self._lent.clear()

    def clear(self) -> None:
        """Keep nothing."""
        self._lent += self._pieces
        self._pieces.clear()
        self.forget_lent()
        self._at = self.size = 0
