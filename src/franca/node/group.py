"""One group: everything that becomes true with one commit."""

from __future__ import annotations

from collections.abc import Callable

from franca.node.connection import Connection

Waiter = Callable[[BaseException | None], None]


class Group:
    """What is said when one commit has made it true."""

    __slots__ = ("number", "released", "said", "waiters")

    def __init__(self, number: int) -> None:
        self.number = number
        self.released = False
        self.said: list[tuple[Connection, bytes | tuple[bytes, ...]]] = []
        self.waiters: list[Waiter] = []
