"""One group: everything that becomes true with one commit; and who waits for the store."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from franca.core.model import Job, JobQuery, Millis
from franca.node.connection import Connection
from franca.node.output import size_of

URGENT_MS = 1_000
"""For so long after the last job that needs no disk, the next one is expected."""
LONG_GROUP_BYTES = 4 * 1024 * 1024
"""A group with more bytes than this in new jobs takes long to write."""
GATHERING_PASSES = 8
GATHERING_MS = 2

Waiter = Callable[[BaseException | None], None]


class Group:
    """What is sent when one commit has made it true; `size` is how many bytes.

    One that `is_long` has so much to write that the writer's thread does it.
    """

    __slots__ = ("is_long", "number", "output", "released", "size", "waiters")

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_long = False
        self.released = False
        self.size = 0
        self.output: list[tuple[Connection, bytes | tuple[bytes, ...]]] = []
        self.waiters: list[Waiter] = []

    def put(self, connection: Connection, data: bytes | tuple[bytes, ...]) -> None:
        """Send something to a connection that waits for this group already, behind it."""
        self.output.append((connection, data))
        self.size += size_of(data)
        connection.piled_bytes += size_of(data)

    def release(self) -> None:
        """Send everything that waits for this group, and close connections that end with it."""
        self.released = True
        closing: list[Connection] = []
        for connection, data in self.output:
            if connection.waits_for == self.number:
                connection.waits_for = 0
                connection.piled_bytes = 0
            connection.send(data)
            if connection.link.closing:
                closing.append(connection)  # not yet: more of its output may follow
        for connection in closing:
            connection.hang_up()
        for waiter in self.waiters:
            waiter(None)


class Gathering:
    """Whether a group that could begin waits for one more pass of the loop.

    Peers that were answered together speak again one by one. A group that begins with the first of
    them leaves the others to the next one, and then to every second one: twice as many groups, each
    of which costs as much as several jobs. So a group waits while each pass brings something, but
    for a few passes and milliseconds only.
    """

    __slots__ = ("_passes", "_until")

    def __init__(self) -> None:
        self._passes = 0
        self._until: Millis = 0

    def goes_on(self, now: Millis) -> bool:
        """Something came in this pass: whether the group waits for what comes in the next."""
        if not self._passes:
            self._until = now + GATHERING_MS
        self._passes += 1
        return self._passes <= GATHERING_PASSES and now <= self._until

    def end(self) -> None:
        """The group begins."""
        self._passes = 0


class Recaller(Struct, eq=False):
    """Takes jobs from the store and acts on them; `fail` is told if they will not come."""

    act: Callable[[list[Job], Millis], None]
    fail: Callable[[BaseException], None]

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Act on the jobs; a mistake in the asking reaches whoever asked."""
        try:
            self.act(jobs, now)
        except Exception as error:
            self.fail(error)
