"""Gearman peers in a world in which time is a number; Faktory is served too, for jobs that cross over."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from franca.protocols.conversation import Peer
from franca.protocols.gearman.service import GearmanService
from franca.protocols.gearman.settings import GearmanSettings
from tests.protocols.faktory.puppet import Puppet as FaktoryPuppet
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support.gearman import Gearman, Packet, Text, Type, joined
from tests.support.protocols import listeners

SETTINGS = GearmanSettings(host="box", pid=4711)


class World(AnyWorld):
    """The server and everybody who speaks to it."""

    def __init__(self, *, settings: GearmanSettings = SETTINGS, seed: int = 1, **more: Any) -> None:
        super().__init__(seed=seed, **more)
        self.service = GearmanService(self.broker, settings, Random(seed), self.note_stop)
        self.serve({"gearman": self.service, **listeners("faktory", self.broker, Random(seed))})
        self._settings = settings

    def connect(self, *, local: bool = True) -> Puppet:
        """A peer that has said nothing yet."""
        host = "127.0.0.1" if local else "10.0.0.9"
        peer = Peer(f"{host}:{50_001 + self._links}", local)
        return self.add(Puppet(self, self.open_link("gearman", peer)))

    peer = connect

    def faktory(self) -> FaktoryPuppet:
        """A client and worker of another protocol."""
        link = self.open_link("faktory", Peer("127.0.0.1", local=True))
        return self.add(FaktoryPuppet(self, link)).hello("w1")

    def worker(self, *functions: str) -> Puppet:
        """A peer that has said what it can do."""
        return self.connect().can_do(*functions)

    def sleeper(self, *functions: str) -> Puppet:
        """A worker that sleeps."""
        puppet = self.worker(*functions)
        puppet.say(Type.PRE_SLEEP)
        assert puppet.cut() is None
        return puppet

    def running(self, function: str = "f", **job: Any) -> tuple[Puppet, Puppet, bytes]:
        """A client, a worker, and the handle of a job of the one that the other runs."""
        client, worker = self.connect(), self.worker(function)
        handle = client.submit(function, **job)
        assert worker.grab_handle() == handle
        return client, worker, handle

    def restart(self) -> World:
        """The server is killed; another begins with what its store was told."""
        same: dict[str, Any] = {"limits": self.limits, "now": self.now}
        return World(settings=self._settings, seed=2, store=deepcopy(self.store), **same)


class Puppet(AnyPuppet, Gearman):
    """One peer on its link."""

    usual = Type.SUBMIT_JOB

    def wait_for(self, *_: Type) -> Packet:
        """The one answer, which must be there without time passing."""
        message = self.cut()
        assert message is not None, "no answer"
        assert not self.unread, f"more than one answer: {self.unread!r}"
        return message

    def say_line(self, text: str, end: str = "\n") -> bytes:
        """Say one line and hear all that is answered."""
        self.send((text + end).encode())
        return self.bytes_heard()

    def submit_bg(self, function: Text = "f", body: Text = "x", unique: Text = "") -> bytes:
        return self.submit(function, body, unique, Type.SUBMIT_JOB_BG)

    def grab_handle(self) -> bytes:
        """The handle of a job that must be there."""
        job = self.grab()
        assert job is not None
        return job.handle


def res(kind: int, *arguments: Text) -> Packet:
    """What a server says."""
    return Packet(Type(kind), joined(*arguments))


def err(code: str, text: str) -> Packet:
    return res(Type.ERROR, code, text)
