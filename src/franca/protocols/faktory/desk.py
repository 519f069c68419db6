"""Large commands that are worked on, of all connections: how much of them there is together.

What has come of a command is kept until it is answered, and to work on a large one takes longer
than to send it. So who has sent a part of one waits with the rest while enough is worked on.
"""

from __future__ import annotations

from typing import Protocol

from franca.protocols.conversation import Link


class Sender(Protocol):
    """A connection with a large command."""

    link: Link

    def wait_with_rest(self) -> bool:
        """Nothing more is to be read from it; False if it has not sent only a part of one."""

    def go_on(self) -> None:
        """More may be read from it."""


class Desk:
    """Says who waits. `most` is how many bytes are enough."""

    __slots__ = ("_most", "_sending", "_taken", "_waiting")

    def __init__(self, most: int) -> None:
        self._most = most
        self._sending: dict[Sender, None] = {}
        self._taken: dict[Sender, int] = {}
        self._waiting: dict[Sender, None] = {}

    def take(self, who: Sender, size: int) -> None:
        """A command of so many bytes is worked on from now on."""
        self._sending.pop(who, None)
        self._taken[who] = size
        if self._sending and self._is_full():
            # At once: each would send some more before it is asked.
            sending, self._sending = self._sending, {}
            self._waiting.update((other, None) for other in sending if other.wait_with_rest())

    def must_wait(self, who: Sender) -> bool:
        """Whether one must not send the rest of its command yet; if so, it is told when it may."""
        if not self._is_full():
            self._sending[who] = None
            return False
        self._waiting[who] = None
        return True

    def leave(self, who: Sender) -> None:
        """This one's command is answered, or nobody is there to be answered."""
        self._sending.pop(who, None)
        self._waiting.pop(who, None)
        self._taken.pop(who, None)
        self.look()

    def look(self) -> None:
        """Let those go on who wait, if they need not any more."""
        if self._waiting and not self._is_full():
            waiting, self._waiting = self._waiting, {}
            for who in waiting:
                who.go_on()

    def _is_full(self) -> bool:
        # Nobody waits for those who do not go on because they do not read.
        return sum(size for who, size in self._taken.items() if not who.link.full) > self._most
