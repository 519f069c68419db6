"""What all connections of this protocol share a bounded amount of."""

from __future__ import annotations

from franca.core.errors import TooMuch


class Budget:
    """So much that all connections together may take; `what` says of what, to people."""

    __slots__ = ("_what", "most", "taken")

    def __init__(self, most: int, what: str) -> None:
        self._what = what
        self.most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """Take a part of it, or `TooMuch`."""
        if self.taken + size > self.most:
            raise TooMuch(f"there is no room for more {self._what}")
        self.taken += size

    def give_back(self, size: int) -> None:
        """A part that was taken is free again."""
        self.taken -= size
