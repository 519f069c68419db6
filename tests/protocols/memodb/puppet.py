"""A world with one broker, its engine and MemoDB peers, in which time is a number."""

from random import Random
from typing import Any

from franca.core.limits import Limits
from franca.core.model import Job
from franca.protocols.conversation import Peer
from franca.protocols.memodb.service import MemoDBService
from franca.protocols.memodb.settings import MemoDBSettings
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support.memodb import MemoDB

SECOND = 1_000


class Puppet(AnyPuppet, MemoDB):
    """One connection, of NNG or of somebody who writes bytes by hand."""

    chokes_at = 0

    def receive(self, said: list[bytes]) -> None:
        """Take what the server said; if it is too much at once, nothing more for a while."""
        super().receive(said)
        if self.chokes_at and self.sent[-1] > self.chokes_at:
            self.world.engine.hold_back(self.link)


class World(AnyWorld):
    """The server and everybody who speaks to it."""

    def __init__(self, limits: Limits | None = None, *, seed: int = 1, **chosen: Any) -> None:
        super().__init__(limits, seed=seed)
        self.service = MemoDBService(self.broker, MemoDBSettings(**chosen), Random(seed))
        self.serve({"memodb": self.service})

    def connect(self, *, unix: bool = False) -> Puppet:
        """A peer that has said nothing yet."""
        peer = Peer("unix" if unix else "127.0.0.1:9", local=True, unix=unix)
        puppet = Puppet(self, self.open_link("memodb", peer))
        puppet.lead = b"\x01" if unix else b""
        return self.add(puppet)

    def peer(self, *, unix: bool = False) -> Puppet:
        """A peer with the handshake behind it."""
        return self.connect(unix=unix).open()

    def worker(self, *services: str) -> Puppet:
        """A connection with one worker that waits for a job."""
        puppet = self.peer()
        puppet.ready(*services)
        return puppet

    @property
    def all_jobs(self) -> list[Job]:
        """Every job that the broker has; few of them are ever stored."""
        return list(self.broker.jobs.values())
