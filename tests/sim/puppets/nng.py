"""Sockets that do what NNG's do: many contexts on one connection, and requests said again.

A request stays with its context until it is answered: it is said again when the connection was lost,
and when patience ends.
"""

from __future__ import annotations

import struct
from abc import abstractmethod

from franca.core.model import Millis
from tests.sim.puppets.client import NEVER, Client
from tests.sim.world import World
from tests.support.memodb import HELLO, HELLO_BACK, Message, parse

_HEAD = struct.Struct(">QI")
_LENGTH = 8


class Context:
    """One client or worker of a socket: at most one request, and when to be asked for more."""

    def __init__(self) -> None:
        self.request = 0
        self.message = b""
        self.said_at: Millis = 0
        self.wake_at: Millis = 0

    @property
    def waits(self) -> bool:
        """Whether its request has no answer yet."""
        return bool(self.message)


class Socket(Client):
    """Contexts on one connection after another. Replies to what nobody asks any more are ignored."""

    protocol = "memodb"

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.contexts: list[Context] = []
        self._unread = bytearray()
        self._greeted = False
        self._asking: dict[int, Context] = {}
        self._last_request = self.rng.getrandbits(30)
        self._patience_ms = self.rng.choice((5_000, 20_000, 60_000))

    def connected(self) -> None:
        """Both sides say at once what they are."""
        self._unread.clear()
        self._greeted = False
        assert self.wire is not None
        self.wire.say(HELLO)

    def heard(self, data: bytes, now: Millis) -> None:
        """Read replies, each for the context whose request it answers."""
        self._unread += data
        if not self._greeted:
            if len(self._unread) < len(HELLO_BACK):
                return
            assert self._unread[: len(HELLO_BACK)] == HELLO_BACK
            del self._unread[: len(HELLO_BACK)]
            self._greeted = self.ready = True
            for context in self.contexts:
                if context.waits:
                    self._say(context)
        while self.wire is not None and len(self._unread) >= _LENGTH:
            size = _LENGTH + int.from_bytes(self._unread[:_LENGTH], "big")
            if len(self._unread) < size:
                break
            reply = bytes(self._unread[_LENGTH:size])
            del self._unread[:size]
            asking = self._asking.pop(int.from_bytes(reply[:4], "big"), None)
            if asking is not None:
                asking.message = b""
                self.on_reply(asking, parse(reply[4:]))
        self._set_alarm()

    def ask(self, context: Context, message: bytes) -> None:
        """A new request of a context; an older one that has no answer is given up."""
        self._asking.pop(context.request, None)
        self._last_request = (self._last_request + 1) % (1 << 31)
        context.request = self._last_request | 1 << 31
        context.message = message
        context.wake_at = NEVER
        self._asking[context.request] = context
        self._say(context)

    def _say(self, context: Context) -> None:
        if self.wire is not None and self._greeted:
            context.said_at = self.world.now
            self.world.tally.again += 1
            message = context.message
            self.wire.say(_HEAD.pack(len(message) + 4, context.request) + message)
            self.on_said(context)

    def work(self, now: Millis) -> None:
        """Whatever a context has to do, or to say again."""
        for context in self.contexts:
            if self.wire is None:
                return  # one of them has hung up
            if context.waits and now - context.said_at >= self._patience_ms:
                self._say(context)
            if context.wake_at <= now:
                context.wake_at = NEVER
                self.on_wake(context, now)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self.wire is None or not self.ready:
            return
        alarms = [context.wake_at for context in self.contexts]
        alarms += [c.said_at + self._patience_ms for c in self.contexts if c.waits]
        self.next_at = max(min(alarms, default=NEVER), self.world.now + 1)

    def go_home(self) -> None:
        """Do what is left to do soon."""
        super().go_home()
        self._patience_ms = min(self._patience_ms, 20_000)
        for context in self.contexts:
            context.wake_at = min(context.wake_at, self.world.now + 1)

    @abstractmethod
    def on_reply(self, context: Context, reply: Message) -> None:
        """A request was answered."""

    @abstractmethod
    def on_wake(self, context: Context, now: Millis) -> None:
        """A context's time has come."""

    def on_said(self, context: Context) -> None:
        """A request has been said, for the first time or again."""
