"""Commands that take long, of all connections: only some of them go on in one turn.

Each step of one takes some milliseconds, and a turn lets every connection act. So a few of those
that wait go on in each turn, those first that have waited longest.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, Protocol

STEPS_A_TURN: Final = 4
"""Steps that fit into one turn together."""


class Waiter(Protocol):
    """A connection whose command takes long. `polled_in` is the gate's, and -1 at first."""

    polled_in: int


class Gate:
    """Says who goes on. Each who waits asks once in every turn, so whoever asks for the second time
    asks in another turn.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._left = STEPS_A_TURN
        self._line: dict[Waiter, None] = {}
        self._called: set[Waiter] = set()

    def admits(self, who: Waiter) -> bool:
        """Whether this one may go on now; if not, it asks again in the next turn."""
        if who.polled_in == self._turn:
            self._begin_turn()
        who.polled_in = self._turn
        if who in self._called:
            self._called.remove(who)
            return True
        if self._left and not self._line:
            self._left -= 1
            return True
        self._line[who] = None
        return False

    def leave(self, who: Waiter) -> None:
        """This one will not ask again."""
        self._line.pop(who, None)
        self._called.discard(who)

    def _begin_turn(self) -> None:
        self._turn += 1
        self._called = set(islice(self._line, STEPS_A_TURN))
        self._left = STEPS_A_TURN - len(self._called)
        for who in self._called:
            del self._line[who]
