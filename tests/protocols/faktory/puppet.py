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
from tests.support.faktory import Faktory, JobDict, Reply, in_bytes
from tests.support.protocols import NoServer

OK = Reply("+", b"OK")
NULL = Reply("$", None)
SETTINGS = FaktorySettings()


def err(text: str) -> Reply:
    return Reply("-", b"ERR " + text.encode())


class World(AnyWorld):
    """The server and everybody who speaks to it."""

    def __init__(self, *, settings: FaktorySettings = SETTINGS, **world: Any) -> None:
        super().__init__(**world)
        self.service = FaktoryService(self.broker, settings, Random(1), NoServer())
        self.serve({"faktory": self.service})

    def connect(self) -> Puppet:
        """A client that has said nothing yet."""
        return self.add(Puppet(self, self.open_link("faktory", Peer("127.0.0.1", local=True))))

    def peer(self, wid: str = "", **members: Any) -> Puppet:
        """A client that has said HELLO and heard OK; with a `wid`, a worker."""
        return self.connect().hello(wid, **members)


class Puppet(AnyPuppet, Faktory):
    """One client on its link."""

    def begin(self, *lines: str | bytes, turns: int = 1) -> None:
        super().begin(in_bytes(*lines), turns=turns)

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

    def read(self) -> Reply:
        """The next reply; the time that a FETCH waits may have to pass for it."""
        if not self.unread:
            self.world.pass_time(2_000)
        reply = self.cut()
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
