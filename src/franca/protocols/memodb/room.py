"""The share of the memory that large jobs of all connections have together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from franca.protocols.memodb.outbox import LARGE_BYTES

if TYPE_CHECKING:
    from franca.protocols.memodb.clients import Clients


class Room:
    """How much memory large jobs may take, of all connections together; and who waits for some.

    `coming` has those who have room for a job of which only a part has come.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.waiting: dict[Clients, None] = {}
        self.coming: dict[Clients, None] = {}

    def is_free(self, size: int) -> bool:
        """Whether a job of that size may come in. One may always."""
        return size <= LARGE_BYTES or not self.bytes or self.bytes + size <= self.bytes_max

    def take(self, size: int) -> None:
        """A job of that size comes in."""
        if size > LARGE_BYTES:
            self.bytes += size

    def free(self, size: int) -> None:
        """A job of that size is gone: whoever waits may look again."""
        if size > LARGE_BYTES:
            self.bytes -= size
            self.wake()

    def wake(self) -> None:
        """Something may be free."""
        waiting, self.waiting = self.waiting, {}
        for clients in waiting:
            clients.look_again()

    def sweep(self) -> None:
        """Once a second: while somebody waits, those whose job comes slowly have no room for it."""
        for clients in list(self.coming):
            clients.see_how_it_comes()
        if self.waiting:
            self.wake()
