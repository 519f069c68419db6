"""A world with one broker, its engine and Gearman peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out. Faktory is
served too, for jobs that cross over.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Job, Millis, State
from franca.engine.engine import Engine
from franca.protocols.conversation import Link, Peer
from franca.protocols.faktory.info import ServerFacts
from franca.protocols.faktory.service import FaktoryService, FaktorySettings
from franca.protocols.gearman import wire
from franca.protocols.gearman.conversation import GearmanConversation
from franca.protocols.gearman.service import GearmanService, GearmanSettings
from franca.protocols.gearman.wire import Message, Packet
from franca.store.memory import MemoryStore

START: Millis = 1_790_000_000_000
"""2026-09-21T14:13:20Z, a Monday."""
SETTINGS = GearmanSettings(host="box", pid=4711)


class World:
    """The server and everybody who speaks to it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: GearmanSettings = SETTINGS,
        store: MemoryStore | None = None,
        seed: int = 1,
        now: Millis = START,
    ) -> None:
        self.limits = limits or Limits()
        self.now = now
        self.broker = Broker(self.limits, Random(seed))
        self.store = store or MemoryStore()
        self.broker.restore_at(self.store.open(), self.now)
        self.stop_asked = 0
        self.service = GearmanService(self.broker, settings, Random(seed), self._stop_asked)
        self.faktory = FaktoryService(
            self.broker, FaktorySettings(), Random(seed), lambda now: ServerFacts(1, 1, 1, 1)
        )
        services = {"gearman": self.service, "faktory": self.faktory}
        self.engine = Engine(self.broker, services, self.limits)
        self.puppets: dict[Link, Puppet] = {}
        self._seed = seed
        self._settings = settings
        self._links = 0

    def _stop_asked(self) -> None:
        self.stop_asked += 1

    def connect(self, protocol: str = "gearman", *, local: bool = True) -> Puppet:
        """A peer that has said nothing yet."""
        self._links += 1
        host = "127.0.0.1" if local else "10.0.0.9"
        peer = Peer(f"{host}:{50_000 + self._links}", local)
        link = self.engine.open_link(protocol, f"l{self._links}", peer, self.now)
        puppet = self.puppets[link] = Puppet(self, link)
        self.run()
        return puppet

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

    def run(self) -> None:
        """Turn until everything that can be said is said; commit and supply in between."""
        for _ in range(100_000):
            self.engine.turn(self.now)
            while self.broker.has_changes() or self.broker.wants:
                wants = self.broker.take_wants()
                found = self.store.write(self.broker.drain(), wants)
                for want, jobs in zip(wants, found, strict=True):
                    self.engine.supplied(want, jobs, self.now)
            self.listen()
            if not (self.engine.has_input() or self.engine.speaking):
                return
        raise AssertionError("the server never comes to rest")

    def listen(self) -> None:
        """Carry what the links said to the puppets, and hang up on those that were told to."""
        speaking = list(self.engine.speaking)
        self.engine.speaking.clear()
        for link in speaking:
            puppet = self.puppets[link]
            puppet.unread += b"".join(link.out)
            puppet.waited_for_commit |= link.after_commit
            link.out.clear()
            link.after_commit = False
            if link.closing and not link.closed:
                self.engine.close_link(link, self.now, unheard=False)

    def pass_time(self, ms: int, step: int = 50) -> None:
        """Let time go by, in steps that a node would make."""
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + step, end)
            self.run()

    def restart(self, *, seed: int = 2) -> World:
        """The server is killed; another begins with what its store was told."""
        store = MemoryStore()
        for shelf, jobs in ((store.held, self.store.held), (store.tail, self.store.tail)):
            shelf.update((number, _copy(job)) for number, job in jobs.items())
        store.queues = dict(self.store.queues)
        store.totals = self.store.totals
        return World(
            limits=self.limits, settings=self._settings, store=store, seed=seed, now=self.now
        )

    def dead(self) -> list[Job]:
        """The dead set."""
        jobs = [*self.store.held.values(), *self.store.tail.values()]
        return [job for job in jobs if job.state is State.DEAD]


class Puppet:
    """One peer on its link."""

    def __init__(self, world: World, link: Link) -> None:
        self.world = world
        self.link = link
        self.unread = bytearray()
        self.waited_for_commit = False

    @property
    def conversation(self) -> GearmanConversation:
        assert isinstance(self.link.conversation, GearmanConversation)
        return self.link.conversation

    @property
    def is_hung_up(self) -> bool:
        return self.link.closed

    def send(self, data: bytes) -> None:
        """Say something, and let the server act on it."""
        if not self.link.closed:
            self.world.engine.received(self.link, data)
        self.world.run()

    def say(self, number: int, *arguments: bytes | str) -> None:
        """Say one packet."""
        self.send(packet(number, *arguments))

    def take(self) -> Message | None:
        """The next packet or line that was not read yet."""
        return wire.parse_response(self.unread)

    def take_all(self) -> list[Message]:
        messages: list[Message] = []
        while (message := self.take()) is not None:
            messages.append(message)
        return messages

    def heard(self) -> bytes:
        """All unread bytes, as they are."""
        data = bytes(self.unread)
        self.unread.clear()
        return data

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

    def hang_up(self, *, unheard: bool = False) -> None:
        """The peer is gone."""
        self.world.engine.close_link(self.link, self.world.now, unheard=unheard)
        self.world.run()


def packet(number: int, *arguments: bytes | str) -> bytes:
    """A request; texts are UTF-8."""
    raw = [a.encode() if isinstance(a, str) else a for a in arguments]
    return wire.request(number, *raw)


def res(number: int, *arguments: bytes | str) -> Message:
    """What a server says."""
    raw = [a.encode() if isinstance(a, str) else a for a in arguments]
    return Message(number, b"\0".join(raw))


def err(code: str, text: str) -> Message:
    return res(Packet.ERROR, code, text)


def _copy(job: Job) -> Job:
    return replace(job, story=list(job.story) if job.story else job.story)
