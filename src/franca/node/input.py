"""All unread input together: which connections are read from when there is too much of it.

A message is acted on when it is complete, so unfinished messages must be kept. While there is
little of that, all connections are read from. Above three quarters of the limit, connections with
more than their share are paused, but for the one with the largest message: it will be complete
first, or is the one to be cut off. If little comes from those that are read from, more of them are,
so that one slow peer does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from termios import FIONREAD

from msgspec import Struct

from franca.core.model import Millis
from franca.engine.engine import Engine
from franca.node.connection import ALL, SHARE, Connection, connection_of
from franca.node.output import Output
from franca.node.sockets import bytes_in_kernel

STEP_BYTES = 2 * 1024 * 1024
"""What may come before the next look, at least; less in a tick means that the peers are slow."""
SHORT_BYTES = 512
SHORT_AT_ONCE = 64
"""While nothing else is read, so many connections in a tick are, if no more than this waits in the
socket: a heartbeat is shorter."""
SLOW_MS = 2_000
"""How long a peer that is read from while others wait may be slower than a message may be."""


class Reader(Struct):
    """A connection that is read from while others wait: since when, and what was unread then."""

    since: Millis
    unread: int


class Input:
    """Bounds unread input. `room` is what may come before the next look.

    Below `least_room`, nothing is read before that.
    """

    def __init__(self, engine: Engine, output: Output, gathered: Callable[[], int]) -> None:
        self._engine = engine
        self._output = output
        self._gathered = gathered
        limit = engine.limits.input_bytes
        self._calm_bytes = limit - limit // 4
        self.room = self._seen_room = self._calm_bytes
        self.least_room = -(limit // 4)
        self.is_pressed = self._is_stopped = False
        self._most = 1
        self._short: list[Connection] = []
        self._short_from = 0
        self._waiting: dict[Connection, None] = {}
        self._readers: dict[Connection, Reader] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether a connection is paused until there is less."""
        return bool(self._waiting)

    def tick(self) -> None:
        """Look after the next turn, if a connection is paused or should be."""
        if self._is_stopped:
            self._read_short()
        if self.room >= 0 and (self.is_pressed or self._output.is_over):
            self._seen_room -= self.room + 1
            self.room = -1

    def stop(self) -> None:
        """Read from no connection until the next look."""
        if not self._is_stopped:
            self._is_stopped = True
            for link in self._engine.links:
                connection_of(link).hold(ALL)

    def _read_short(self) -> None:
        """Read from some connections that sent little, though nothing else is read, in rotation."""
        for connection in self._short:
            connection.hold(ALL)
        self._short.clear()
        links = self._engine.links
        asked = self._short_from if self._short_from < len(links) else 0
        for link in islice(links, asked, None):
            asked += 1
            connection = connection_of(link)
            if not link.closing and 0 < bytes_in_kernel(connection.socket, FIONREAD) <= SHORT_BYTES:
                self._short.append(connection)
                if len(self._short) == SHORT_AT_ONCE:
                    break
        self._short_from = asked
        for connection in self._short:
            connection.release(ALL)

    def look(self, now: Millis) -> None:
        """Decide which connections are read from, after a turn."""
        came = self._seen_room - self.room
        total, large = self._weigh()
        if total > self._calm_bytes or (large and self._output.is_over):
            self.is_pressed = True
            self._choose(large, came, now)
            total = self._judge(large, total, now)
            self.room = STEP_BYTES
        elif self.is_pressed:
            self.is_pressed = False
            self._most = 1
            self._let_go({})
            self._readers.clear()
        if not self.is_pressed:
            self.room = max(self._calm_bytes - total, STEP_BYTES)
        self._seen_room = self.room
        if self._is_too_much_waiting():
            self.stop()
            self.room = self._seen_room = -1
        elif self._is_stopped:
            self._is_stopped = False
            self._short.clear()
            for link in self._engine.links:
                connection_of(link).release(ALL)

    def _is_too_much_waiting(self) -> bool:
        """Whether nothing more is of use until what has come was acted on.

        Turns end before all of it was; or most of it waits for the disk, which is behind.
        """
        engine = self._engine
        if engine.waiting_bytes() > -self.least_room:
            return True
        waits = self._gathered() + engine.kept_bytes()
        return engine.broker.is_behind() and waits > engine.limits.input_bytes

    def _weigh(self) -> tuple[int, dict[Connection, int]]:
        """All that is unread, and connections with more than a fair share of it."""
        links = self._engine.links
        share = -self.least_room // (len(links) or 1)
        total = self._gathered()
        large: list[tuple[int, Connection]] = []
        for link in links:
            unread = link.conversation.unread()
            if unread and not link.closing:
                total += unread
                if unread > share:
                    large.append((unread, connection_of(link)))
        large.sort(key=lambda one: -one[0])
        return total, {connection: unread for unread, connection in large}

    def _choose(self, large: dict[Connection, int], came: int, now: Millis) -> None:
        """Read from the largest, twice as many as before if little came; pause the others."""
        self._most = 1 if came > STEP_BYTES else min(2 * self._most, len(large) or 1)
        if self._output.is_over:
            # Large messages are what large answers are made of.
            self._most = 1
        left = 0 if self._output.is_full else self._most
        waiting: dict[Connection, None] = {}
        readers: dict[Connection, Reader] = {}
        for connection, unread in large.items():
            # Where messages wait for their turn, more bytes are of no use.
            if left and not self._engine.waits_to_act(connection.link):
                left -= 1
                reader = self._readers.get(connection)
                if reader is None or unread < reader.unread:
                    reader = Reader(now, unread)
                readers[connection] = reader
            else:
                waiting[connection] = None
                connection.hold(SHARE)
        self._readers = readers
        self._let_go(waiting)

    def _let_go(self, waiting: dict[Connection, None]) -> None:
        for connection in self._waiting:
            if connection not in waiting:
                connection.release(SHARE)
        self._waiting = waiting

    def _judge(self, large: dict[Connection, int], total: int, now: Millis) -> int:
        """Cut off those that are too slow while others wait; returns what is unread after that."""
        least = self._engine.limits.frame_bytes_per_s * SLOW_MS // 1_000
        for connection, reader in list(self._readers.items()):
            if now - reader.since < SLOW_MS:
                continue
            unread = large[connection]
            if unread - reader.unread < least and self._waiting:
                total -= unread
                del self._readers[connection]
                text = f"{unread} bytes of a message that does not go on, and others wait"
                connection.cut_off(text)
            else:
                reader.since, reader.unread = now, unread
        most = self._engine.limits.input_bytes + self._engine.limits.frame_bytes_max
        if total > most and self._readers:
            slowest = min(self._readers, key=lambda one: large[one] - self._readers[one].unread)
            total -= large[slowest]
            del self._readers[slowest]
            slowest.cut_off(f"{large[slowest]} bytes of a message, and too much has come")
        return total
