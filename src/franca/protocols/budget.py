"""What all connections of a protocol share a bounded amount of."""

from __future__ import annotations

from franca.core.errors import TooMuch


class Budget:
    """So much that all connections together may take; `what` says of what, to people."""

    __slots__ = ("_what", "most", "taken")

    def __init__(self, most: int, what: str) -> None:
        self._what = what
        self.most = most
        self.taken = 0

    def may_take(self, size: int) -> bool:
        """Take some of it, if there is enough."""
        if self.taken + size > self.most:
            return False
        self.taken += size
        return True

    def take(self, size: int) -> None:
        """Take some of it, or `TooMuch`."""
        if not self.may_take(size):
            raise TooMuch(f"there is no room for more {self._what}")

    def give_back(self, size: int) -> None:
        """Some that was taken is free again."""
        self.taken -= size


class Share:
    """What one connection takes of a budget. The first `free` of it is always there for it, so
    that nobody who wants little can be kept from it by those who take much.
    """

    __slots__ = ("_budget", "_free", "taken")

    def __init__(self, budget: Budget, free: int) -> None:
        self._budget = budget
        self._free = free
        self.taken = 0

    def may_take(self, size: int) -> bool:
        """Take more of it, if there is enough."""
        taken = self.taken + size
        if taken > self._free and not self._budget.may_take(min(size, taken - self._free)):
            return False
        self.taken = taken
        return True

    def take(self, size: int) -> None:
        """Take more of it, or `TooMuch`."""
        over = self.taken + size - self._free
        if over > 0:
            self._budget.take(min(over, size))
        self.taken += size

    def give_back(self, size: int) -> None:
        """Some of it is free again."""
        over = self.taken - self._free
        if over > 0:
            self._budget.give_back(min(over, size))
        self.taken -= size

    def clear(self) -> None:
        """All of it is free again."""
        self.give_back(self.taken)
