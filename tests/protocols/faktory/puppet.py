"""Faktory clients in a world in which time is a number."""

from __future__ import annotations

import gc
import time
from random import Random
from typing import Any

from franca.protocols.conversation import Peer
from franca.protocols.faktory.service import FaktoryService
from franca.protocols.faktory.settings import FaktorySettings
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support.faktory import Commands, JobDict, Reply, in_bytes, take_reply
from tests.support.protocols import NoServer

OK = Reply("+", b"OK")
NULL = Reply("$", None)
SETTINGS = FaktorySettings()


def err(text: str) -> Reply:
    return Reply("-", b"ERR " + text.encode())


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(self, *, settings: FaktorySettings = SETTINGS, **world: Any) -> None:
        super().__init__(**world)
        self.service = FaktoryService(self.broker, settings, Random(1), NoServer())
        self.serve({"faktory": self.service})

    def connect(self) -> Puppet:
        """A client that has said nothing yet."""
        return self.add(Puppet(self, self.open_link("faktory", Peer("127.0.0.1", local=True))))

    def client(self, wid: str = "", **members: Any) -> Puppet:
        """A client that has said HELLO and heard OK; with a `wid`, a worker."""
        return self.connect().hello(wid, **members)


class Puppet(AnyPuppet, Commands):
    """One client on its link."""

    heard = AnyPuppet.bytes_heard
    send_bytes = AnyPuppet.send

    def begin(self, *lines: str | bytes, turns: int = 1) -> None:
        """Say these, and let the server act for so many turns only."""
        self.world.engine.inputs.append((self.link, in_bytes(*lines)))
        for _ in range(turns):
            self.world.engine.turn(self.world.now)

    def turns(self, *lines: str | bytes) -> list[float]:
        """Say these; the seconds of processor time of each turn until the first is answered."""
        self.begin(*lines, turns=0)
        spent: list[float] = []
        while not self.link.out:
            began = time.thread_time()
            self.world.engine.turn(self.world.now)
            self.world.commit()
            spent.append(time.thread_time() - began)
        self.world.run()
        return spent

    def longest_turn(self, *lines: str | bytes) -> float:
        """The longest of `turns`.

        What the other tests of this process have left in memory is not the command's: the collector is
        kept from looking at it, as a server keeps it from looking at what was there at its start.
        """
        gc.collect()
        gc.freeze()
        try:
            return max(self.turns(*lines))
        finally:
            gc.unfreeze()

    def take(self) -> Reply | None:
        """The next reply that was not read yet."""
        return take_reply(self.unread)

    def take_all(self) -> list[Reply]:
        return list(iter(self.take, None))

    def read(self) -> Reply:
        """The next reply; the time that a FETCH waits may have to pass for it."""
        if not self.unread:
            self.world.pass_time(2_000)
        reply = self.take()
        assert reply is not None
        return reply

    def call(self, line: str | bytes) -> Reply:
        """The answer must be there without time passing. Errors are answers, too."""
        self.say(line)
        assert self.unread, f"no answer to {line[:80]!r}"
        reply = self.read()
        assert not self.unread, f"more than one answer to {line[:80]!r}"
        return reply

    command = call

    def fetch_job(self, *queues: str) -> JobDict:
        """A job that must be there."""
        unit = self.fetch(*queues)
        assert unit is not None
        return unit
