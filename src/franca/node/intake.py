"""All input that waits to be acted on, together: who may send on when there is too much of it.

A message is acted on when all of it is there, so what has come of messages that are not finished
must be kept. While there is little of it everybody is read from. When there is more than three
quarters of the limit, peers with more than their share wait in the buffers of the kernel, and
the one whose message is largest goes on: it will be done first, or is the one to be cut off. If
little comes from those who may go on, more may, so that one slow peer does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from fcntl import ioctl
from itertools import islice
from struct import unpack
from termios import FIONREAD
from typing import cast

from msgspec import Struct

from franca.core.model import Millis
from franca.engine.engine import Engine
from franca.node.connection import ALL, ROOM, Connection
from franca.node.outlet import Outlet

STEP_BYTES = 2 * 1024 * 1024
"""What may come before it is looked at again, at least; less in a tick means that it is slow."""
SHORT_BYTES = 512
SHORT_AT_ONCE = 64
"""So many in a tick who have sent no more than this are read from though nobody else is: a
heartbeat is shorter."""
SLOW_MS = 2_000
"""For so long a peer that goes on while others wait may be slower than a message may be."""


class Reader(Struct):
    """A peer that goes on while others wait: since when, and what it had sent then."""

    since: Millis
    unread: int


class Intake:
    """Bounds unread input. `room` is what may come before it is looked at again.

    `least_room` is the point beyond which nobody is read from before that. `is_waited_for` while
    somebody must wait.
    """

    __slots__ = (
        "_calm_bytes",
        "_engine",
        "_gathered",
        "_is_stopped",
        "_most",
        "_outlet",
        "_readers",
        "_seen_room",
        "_short",
        "_short_from",
        "_waiting",
        "is_pressed",
        "least_room",
        "room",
    )

    def __init__(self, engine: Engine, outlet: Outlet, gathered: Callable[[], int]) -> None:
        self._engine = engine
        self._outlet = outlet
        self._gathered = gathered
        limit = engine.limits.input_bytes
        self._calm_bytes = limit - limit // 4
        self.room = self._seen_room = self._calm_bytes
        self.least_room = -(limit // 4)
        self.is_pressed = False
        self._is_stopped = False
        self._most = 1
        self._short: list[Connection] = []
        self._short_from = 0
        self._waiting: dict[Connection, None] = {}
        self._readers: dict[Connection, Reader] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody must wait before it may send on."""
        return bool(self._waiting)

    def tick(self) -> None:
        """Have it looked at after the next turn, if somebody waits or should."""
        if self._is_stopped:
            self._read_short()
        if self.room >= 0 and (self.is_pressed or self._outlet.is_over):
            self._seen_room -= self.room + 1
            self.room = -1

    def stop(self) -> None:
        """Read from nobody until it has been looked at."""
        if not self._is_stopped:
            self._is_stopped = True
            for link in self._engine.links:
                cast(Connection, link.carrier).hold(ALL)

    def _read_short(self) -> None:
        """Read from some of those who have sent little, though nobody else is read from.

        Each was asked once before any is asked again.
        """
        for connection in self._short:
            connection.hold(ALL)
        self._short.clear()
        links = self._engine.links
        asked = self._short_from if self._short_from < len(links) else 0
        for link in islice(links, asked, None):
            asked += 1
            connection = cast(Connection, link.carrier)
            if not link.closing and 0 < _received(connection) <= SHORT_BYTES:
                self._short.append(connection)
                if len(self._short) == SHORT_AT_ONCE:
                    break
        self._short_from = asked
        for connection in self._short:
            connection.release(ALL)

    def look(self, now: Millis) -> None:
        """Decide who may send on, after a turn."""
        came = self._seen_room - self.room
        total, large = self._weigh()
        if total > self._calm_bytes or (large and self._outlet.is_over):
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
        if self._is_too_much_unheard():
            self.stop()
            self.room = self._seen_room = -1
        elif self._is_stopped:
            self._is_stopped = False
            self._short.clear()
            for link in self._engine.links:
                cast(Connection, link.carrier).release(ALL)

    def _is_too_much_unheard(self) -> bool:
        """Whether nothing more is of use until what has come was acted on.

        Turns end before all of it was; or most of it waits for the disk, which is behind.
        """
        engine = self._engine
        if engine.unheard_bytes() > -self.least_room:
            return True
        return engine.broker.is_behind() and self._gathered() > engine.limits.input_bytes

    def _weigh(self) -> tuple[int, dict[Connection, int]]:
        """All that waits, and those who have more than their share of a quarter of the limit."""
        links = self._engine.links
        share = -self.least_room // (len(links) or 1)
        total = self._gathered()
        large: list[tuple[int, Connection]] = []
        for link in links:
            unread = link.conversation.unread()
            if unread and not link.closing:
                total += unread
                if unread > share:
                    large.append((unread, cast(Connection, link.carrier)))
        large.sort(key=lambda one: -one[0])
        return total, {connection: unread for unread, connection in large}

    def _choose(self, large: dict[Connection, int], came: int, now: Millis) -> None:
        """Let the largest go on, twice as many as before if little came; the others wait."""
        self._most = 1 if came > STEP_BYTES else min(2 * self._most, len(large) or 1)
        if self._outlet.is_over:
            # Large messages are what large answers are made of.
            self._most = 1
        left = 0 if self._outlet.is_full else self._most
        waiting: dict[Connection, None] = {}
        readers: dict[Connection, Reader] = {}
        for connection, unread in large.items():
            # To those whose messages wait for their turn, more bytes are of no use.
            if left and not self._engine.waits_to_act(connection.link):
                left -= 1
                reader = self._readers.get(connection)
                if reader is None or unread < reader.unread:
                    reader = Reader(now, unread)
                readers[connection] = reader
            else:
                waiting[connection] = None
                connection.hold(ROOM)
        self._readers = readers
        self._let_go(waiting)

    def _let_go(self, waiting: dict[Connection, None]) -> None:
        for connection in self._waiting:
            if connection not in waiting:
                connection.release(ROOM)
        self._waiting = waiting

    def _judge(self, large: dict[Connection, int], total: int, now: Millis) -> int:
        """Cut off those who do not send on while others wait; returns what waits after that."""
        least = self._engine.limits.frame_bytes_per_s * SLOW_MS // 1_000
        for connection, reader in list(self._readers.items()):
            if now - reader.since < SLOW_MS:
                continue
            unread = large[connection]
            if unread - reader.unread < least and self._waiting:
                total -= unread
                del self._readers[connection]
                connection.cut_off(
                    f"{unread} bytes of a message that does not go on, and others wait"
                )
            else:
                reader.since, reader.unread = now, unread
        most = self._engine.limits.input_bytes + self._engine.limits.frame_bytes_max
        if total > most and self._readers:
            slowest = min(self._readers, key=lambda one: large[one] - self._readers[one].unread)
            total -= large[slowest]
            del self._readers[slowest]
            slowest.cut_off(f"{large[slowest]} bytes of a message, and too much has come")
        return total


def _received(connection: Connection) -> int:
    """How many bytes the socket of a peer has that nobody has read."""
    sock = connection.socket.get_extra_info("socket")
    if sock is None:
        return 0
    try:
        [size] = unpack("i", ioctl(sock.fileno(), FIONREAD, bytes(4)))
    except (OSError, ValueError):
        return 0  # it was closed
    return int(size)
