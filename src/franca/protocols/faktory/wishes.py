"""What FETCHes ask for: lists of queues, shared by all connections that ask for the same.

A connection asks for the same queues again and again, so what it asked last is remembered. All that
is remembered takes only so much memory; beyond it a list is read anew each time. Long lists
that wait for a job are counted as well, because each name of them stands in a queue's line.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.protocols.faktory.reports import read_queues
from franca.protocols.faktory.scan import Unfit

FEW_NAMES: Final = 16
"""A list that is no longer may always wait."""
NAMES_WAITING_MAX: Final = 100_000
_WISH_BYTES: Final = 200
_NAME_BYTES: Final = 64
_DEFAULT: Final = ("default",)


class Wish(Struct, eq=False):
    """A list of queues, as it was written and as it was read."""

    rest: bytes
    names: tuple[str, ...]
    size: int = 0
    users: int = 0


class Wishes:
    """Those that connections remember now."""

    def __init__(self, broker: Broker) -> None:
        self.bytes = 0
        self.names_waiting = 0
        self._broker = broker
        self._kept: dict[bytes, Wish] = {}

    def take(self, rest: bytes) -> Wish:
        """What a FETCH asks for; `Refused` if it cannot. To be given back by `drop`."""
        wish = self._kept.get(rest)
        if wish is None:
            wish = Wish(rest, self._names(rest))
            wish.size = _WISH_BYTES + len(rest) + sum(map(len, wish.names))
            wish.size += _NAME_BYTES * len(wish.names)
            if self.bytes + wish.size <= self._broker.limits.offered_bytes:
                self.bytes += wish.size
                self._kept[rest] = wish
        wish.users += 1
        return wish

    def keeps(self, wish: Wish) -> bool:
        """Whether a connection may remember this; if not, only until its FETCH is answered."""
        return self._kept.get(wish.rest) is wish

    def drop(self, wish: Wish) -> None:
        """One connection less remembers this."""
        wish.users -= 1
        if not wish.users and self.keeps(wish):
            del self._kept[wish.rest]
            self.bytes -= wish.size

    def wait(self, names: int) -> int:
        """A list of so many names is about to wait; returns how many to `end` that with."""
        if names <= FEW_NAMES:
            return 0
        if self.names_waiting + names > NAMES_WAITING_MAX:
            raise Unfit("too many queues are asked for at once, name fewer or try again later")
        self.names_waiting += names
        return names

    def _names(self, rest: bytes) -> tuple[str, ...]:
        names = read_queues(rest, self._broker.limits)
        if not names:
            return _DEFAULT
        queues = self._broker.queues
        return tuple(queues[name].name if name in queues else name for name in names)
