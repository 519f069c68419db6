"""A world with one broker, its engine and Gearman peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out. Faktory is
served too, for jobs that cross over.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from franca.core.model import Job, State
from franca.protocols.conversation import Peer
from franca.protocols.gearman.service import GearmanService
from franca.protocols.gearman.settings import GearmanSettings
from franca.protocols.gearman.wire import Packet
from franca.store.memory import MemoryStore
from tests.protocols.gearman.client import Message, parse_response
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support.gearman import request
from tests.support.protocols import listeners

SETTINGS = GearmanSettings(host="box", pid=4711)


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(
        self, *, settings: GearmanSettings = SETTINGS, seed: int = 1, **world: Any
    ) -> None:
        super().__init__(seed=seed, **world)
        self.service = GearmanService(self.broker, settings, Random(seed), self.note_stop)
        faktory = listeners("faktory", self.broker, Random(seed))
        self.serve({"gearman": self.service, **faktory})
        self._settings = settings

    def connect(self, protocol: str = "gearman", *, local: bool = True) -> Puppet:
        """A peer that has said nothing yet."""
        host = "127.0.0.1" if local else "10.0.0.9"
        peer = Peer(f"{host}:{50_001 + self._links}", local)
        return self.add(Puppet(self, self.open_link(protocol, peer)))

    def worker(self, *functions: str) -> Puppet:
        """A peer that has said what it can do."""
        puppet = self.connect()
        for function in functions:
            puppet.say(Packet.CAN_DO, function)
        return puppet

    def sleeper(self, *functions: str) -> Puppet:
        """A worker that sleeps."""
        puppet = self.worker(*functions)
        puppet.say(Packet.PRE_SLEEP)
        assert puppet.take() is None
        return puppet

    def restart(self, *, seed: int = 2) -> World:
        """The server is killed; another begins with what its store was told."""
        store = MemoryStore()
        for shelf, jobs in ((store.held, self.store.held), (store.tail, self.store.tail)):
            shelf.update((number, _copy(job)) for number, job in jobs.items())
        store.queues = dict(self.store.queues)
        store.totals = self.store.totals
        same = {"limits": self.limits, "store": store, "now": self.now}
        return World(settings=self._settings, seed=seed, **same)

    def dead(self) -> list[Job]:
        """The dead set."""
        return self.jobs(State.DEAD)


class Puppet(AnyPuppet):
    """One peer on its link."""

    world: World
    heard = AnyPuppet.bytes_heard

    def say(self, number: int, *arguments: bytes | str) -> None:
        """Say one packet."""
        self.send(packet(number, *arguments))

    def take(self) -> Message | None:
        """The next packet or line that was not read yet."""
        return parse_response(self.unread)

    def take_all(self) -> list[Message]:
        return list(iter(self.take, None))

    def ask(self, number: int, *arguments: bytes | str) -> Message:
        """Say one packet and hear its answer, which must be there without time passing."""
        self.say(number, *arguments)
        message = self.take()
        assert message is not None, f"no answer to {number} {arguments}"
        assert not self.unread, f"more than one answer to {number} {arguments}: {self.unread!r}"
        return message

    def line(self, text: str, end: str = "\n") -> bytes:
        """Say one line and hear all that is answered."""
        self.send((text + end).encode())
        return self.heard()

    # -- what peers do over and over -----------------------------------------------------------

    def submit(
        self,
        function: str = "f",
        workload: bytes | str = b"x",
        unique: bytes | str = b"",
        number: int = Packet.SUBMIT_JOB,
    ) -> bytes:
        """Submit a job; its handle."""
        created = self.ask(number, function, unique, workload)
        assert created.number == Packet.JOB_CREATED, created
        return created.body

    def submit_bg(
        self, function: str = "f", workload: bytes | str = b"x", unique: bytes | str = b""
    ) -> bytes:
        return self.submit(function, workload, unique, Packet.SUBMIT_JOB_BG)

    def grab(self) -> tuple[bytes, bytes, bytes] | None:
        """A job that is there now: its handle, function and workload."""
        message = self.ask(Packet.GRAB_JOB)
        if message.number == Packet.NO_JOB:
            return None
        assert message.number == Packet.JOB_ASSIGN, message
        handle, function, workload = message.body.split(b"\0", 2)
        return handle, function, workload

    def grab_handle(self) -> bytes:
        """The handle of a job that must be there."""
        job = self.grab()
        assert job is not None
        return job[0]

    def status(self, handle: bytes) -> list[bytes]:
        """The four numbers of a job."""
        message = self.ask(Packet.GET_STATUS, handle)
        assert message.number == Packet.STATUS_RES
        assert message.arguments[0] == handle
        return message.arguments[1:]


def packet(number: int, *arguments: bytes | str) -> bytes:
    """A request; texts are UTF-8."""
    raw = [a.encode() if isinstance(a, str) else a for a in arguments]
    return request(number, *raw)


def res(number: int, *arguments: bytes | str) -> Message:
    """What a server says."""
    raw = [a.encode() if isinstance(a, str) else a for a in arguments]
    return Message(number, b"\0".join(raw))


def err(code: str, text: str) -> Message:
    return res(Packet.ERROR, code, text)


def _copy(job: Job) -> Job:
    return replace(job, attempt_log=list(job.attempt_log) if job.attempt_log else job.attempt_log)
