"""One group: everything that becomes true with one commit."""

from __future__ import annotations

from collections.abc import Callable

from franca.node.connection import Connection
from franca.node.outlet import size_of

Waiter = Callable[[BaseException | None], None]


class Group:
    """What is said when one commit has made it true; `size` is how many bytes."""

    __slots__ = ("number", "released", "said", "size", "waiters")

    def __init__(self, number: int) -> None:
        self.number = number
        self.released = False
        self.size = 0
        self.said: list[tuple[Connection, bytes | tuple[bytes, ...]]] = []
        self.waiters: list[Waiter] = []

    def put(self, connection: Connection, data: bytes | tuple[bytes, ...]) -> None:
        """Have something said to a connection that waits for this group already."""
        self.said.append((connection, data))
        self.size += size_of(data)
        connection.piled_bytes += size_of(data)
