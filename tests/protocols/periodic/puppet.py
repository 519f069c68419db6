"""A world with one broker, its engine and Periodic peers, in which time is a number."""

from random import Random
from typing import Any

from franca.core.limits import Limits
from franca.protocols.conversation import Peer
from franca.protocols.periodic.service import PeriodicService
from franca.protocols.periodic.settings import Listening, PeriodicSettings
from tests.protocols.world import START, AnyPuppet, AnyWorld
from tests.support import periodic as p
from tests.support.periodic import CRC, Assigned, Periodic

NOW_S = START // 1000


class Puppet(AnyPuppet, Periodic):
    """One peer on its link, where all that follows from a message has been said when the next is."""

    call = Periodic.ask

    def next_job(self) -> Assigned:
        """The one job that has come; p.SUCCESS beside it is passed over."""
        (job,) = self.assigned()
        return job


class World(AnyWorld):
    """The server and everybody who speaks to it."""

    def __init__(
        self, limits: Limits | None = None, *, dialect: str = "auto", confirm: str = "modern",
        **chosen: Any,
    ) -> None:  # fmt: skip
        super().__init__(limits)
        self.settings = PeriodicSettings(listening=Listening(dialect, confirm), **chosen)
        self._start()

    def _start(self) -> None:
        self.service = PeriodicService(self.broker, self.settings, Random(1), self.note_stop)
        self.serve({"periodic": self.service})

    def connect(self, dialect: str = CRC, *, local: bool = True, listener: str = "") -> Puppet:
        """A peer that has said nothing yet."""
        peer = Peer("127.0.0.1" if local else "10.0.0.9", local=local, listener=listener)
        puppet = Puppet(self, self.open_link("periodic", peer))
        puppet.dialect = dialect
        return self.add(puppet)

    def peer(self, dialect: str = CRC, **kind: Any) -> Puppet:
        """A registered client."""
        return self.connect(dialect, **kind).register(p.CLIENT)

    def worker(self, *funcs: str, dialect: str = CRC, **kind: Any) -> Puppet:
        """A registered worker of these functions."""
        worker = self.connect(dialect, **kind).register(p.WORKER)
        for func in funcs:
            worker.say(p.CAN_DO, worker.func(func))
        worker.heard()
        return worker

    def broadcaster(self) -> Puppet:
        """A worker that wants every job of `f` and waits for one."""
        worker = self.worker()
        assert worker.word(p.BROADCAST, worker.func("f")) == p.SUCCESS
        worker.say(p.GRAB_JOB)
        worker.heard()
        return worker

    def crash(self) -> None:
        """A new server that remembers what the store was told; everybody is disconnected."""
        self.remember(seed=2)
        self._start()
        self.run()
