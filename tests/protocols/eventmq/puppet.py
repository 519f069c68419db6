"""A world with one broker, its engine and EventMQ peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out, as frames.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, NamedTuple

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Job, Millis, State
from franca.engine.engine import Engine
from franca.protocols.conversation import Link, Peer, Service
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.service import EventmqService, EventmqSettings
from franca.store.memory import MemoryStore

START: Millis = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""
VERSION = b"eMQP/1.0"


class World:
    """The server and everybody who speaks to it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: EventmqSettings | None = None,
        store: MemoryStore | None = None,
        now: Millis = START,
    ) -> None:
        self.limits = limits or Limits()
        self.now = now
        self.stop_requests = 0
        self.complaints: list[str] = []
        self.broker = Broker(self.limits, Random(1))
        if store is not None:
            self.broker.restore_at(store.open(), now)
        self.service = EventmqService(
            self.broker,
            settings or EventmqSettings(),
            Random(1),
            self._request_stop,
            self.complaints.append,
        )
        services: dict[str, Service] = {"eventmq": self.service, **self.service.doors()}
        self.engine = Engine(self.broker, services, self.limits)
        self.store = store or MemoryStore()
        self.puppets: dict[Link, Puppet] = {}
        self._links = 0
        self._messages = 0

    def _request_stop(self) -> None:
        self.stop_requests += 1

    # -- peers -------------------------------------------------------------------------------

    def stranger(self, door: str = "eventmq", *, local: bool = True) -> Puppet:
        """A peer that has said nothing yet."""
        self._links += 1
        link_id = f"{self.now}-{self._links}"
        link = self.engine.open_link(door, link_id, Peer("10.0.0.1:1", local), self.now)
        puppet = self.puppets[link] = Puppet(self, link)
        self.run()
        return puppet

    def peer(
        self,
        socket_type: bytes = b"DEALER",
        identity: bytes = b"",
        door: str = "eventmq",
        *,
        local: bool = True,
    ) -> Puppet:
        """A peer whose socket is connected."""
        puppet = self.stranger(door, local=local)
        puppet.send(zmtp.GREETING + zmtp.ready(socket_type, identity))
        puppet.read_handshake()
        return puppet

    def worker(
        self, *queues: tuple[int, str], slots: int = 0, identity: bytes = b"", role: str = "worker"
    ) -> Puppet:
        """A peer that INFORMed, heard so, and said READY so many times."""
        puppet = self.peer(identity=identity)
        msgid = puppet.say("INFORM", json.dumps(queues) if queues else "", role)
        ack, heartbeat = puppet.heard()
        assert ack[2:3] + ack[4:] == [b"ACK", msgid]
        assert heartbeat[2] == b"HEARTBEAT"
        for _ in range(slots):
            puppet.say("READY")
        return puppet

    def subscriber(self, *topics: bytes) -> Puppet:
        puppet = self.peer(b"SUB", door="eventmq_subscribe")
        for topic in topics:
            puppet.send(zmtp.message([b"\x01" + topic]))
        return puppet

    def next_msgid(self) -> bytes:
        self._messages += 1
        return b"%08d-0000-4000-8000-000000000000" % self._messages

    # -- time ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Turn until everything that can be said is said; commit and supply in between."""
        for _ in range(100_000):
            self.engine.turn(self.now)
            while self.broker.has_changes() or self.broker.wants:
                wants = self.broker.take_wants()
                found = self.store.write(self.broker.drain(), wants)
                for want, jobs in zip(wants, found, strict=True):
                    self.engine.supplied(want, jobs, self.now)
            self._listen()
            if not (self.engine.has_input() or self.engine.speaking):
                return
        raise AssertionError("the server never comes to rest")

    def _listen(self) -> None:
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

    def pass_time(self, ms: int, *alive: Puppet, step: int = 50) -> None:
        """Let time go by, in steps that a node would make; those `alive` say so now and then."""
        end = self.now + ms
        beat_at = self.now
        while self.now < end:
            self.now = min(self.now + step, end)
            if self.now >= beat_at:
                beat_at = self.now + 3_000
                for puppet in alive:
                    puppet.say("HEARTBEAT", "1.0")
            self.run()

    def stop(self) -> None:
        """The server is told to stop."""
        self.engine.stop(self.now)
        self.run()

    def restarted(self, now: Millis = 0) -> World:
        """Another server on the same store; everybody's connections are gone."""
        return World(
            limits=self.limits,
            settings=self.service.settings,
            store=self.store,
            now=now or self.now,
        )

    # -- jobs ------------------------------------------------------------------------------------

    def jobs(self, *states: State) -> list[Job]:
        """Every job that the store has in one of these states."""
        jobs = [*self.store.held.values(), *self.store.tail.values()]
        return [job for job in jobs if not states or job.state in states]

    def job(self) -> Job:
        """The only job there is."""
        (job,) = self.jobs()
        return job


class Given(NamedTuple):
    """A job as a worker is given it."""

    msgid: bytes
    queue: bytes
    headers: bytes
    body: bytes


class Puppet:
    """One peer on its link."""

    def __init__(self, world: World, link: Link) -> None:
        self.world = world
        self.link = link
        self.unread = b""
        self.waited_for_commit = False
        self.commands: list[bytes] = []
        self._frames = zmtp.Frames(1 << 40)

    @property
    def is_hung_up(self) -> bool:
        return self.link.closed

    def send(self, data: bytes) -> None:
        """Send bytes, and let the server act on them."""
        if not self.link.closed:
            self.world.engine.received(self.link, data)
        self.world.run()

    def read_handshake(self) -> list[list[bytes]]:
        """Read it, and whatever was said right behind it."""
        assert self.unread[:64] == zmtp.GREETING
        self.unread = self.unread[64:]
        messages = self.heard()
        assert self.commands.pop(0)[:6] == b"\x05READY"
        return messages

    def say(self, command: str, *parts: str | bytes, msgid: bytes = b"") -> bytes:
        """One message; its id."""
        msgid = msgid or self.world.next_msgid()
        raw = [part.encode() if isinstance(part, str) else part for part in parts]
        self.send(zmtp.message([b"", VERSION, command.encode(), msgid, *raw]))
        return msgid

    def heard(self) -> list[list[bytes]]:
        """All messages that were not read yet."""
        self._frames.feed(self.unread)
        self.unread = b""
        messages: list[list[bytes]] = []
        while (message := self._frames.next_message()) is not None:
            messages.append(message)
        self.commands += self._frames.commands
        self._frames.commands.clear()
        return messages

    def words(self) -> list[tuple[str, ...]]:
        """What was heard, without ids of the server's own and without heartbeats."""
        found = [
            (m[2].decode(), *(part.decode("utf-8", "replace") for part in m[4:]))
            for m in self.heard()
        ]
        return [words for words in found if words[0] != "HEARTBEAT"]

    def hang_up(self, *, unheard: bool = False) -> None:
        """The peer is gone."""
        self.world.engine.close_link(self.link, self.world.now, unheard=unheard)
        self.world.run()

    # -- clients -----------------------------------------------------------------------------

    def request(
        self,
        body: bytes | str = b"body",
        queue: bytes | str = "default",
        headers: bytes | str = "",
        msgid: bytes = b"",
    ) -> bytes:
        return self.say("REQUEST", queue, headers, body, msgid=msgid)

    def replies(self) -> list[tuple[str, ...]]:
        """The REPLYs that were heard: an id, or a result and an id."""
        return [words[1:] for words in self.words() if words[0] == "REPLY"]

    # -- workers -----------------------------------------------------------------------------

    def given(self) -> list[Given]:
        """The jobs that came since this was last asked."""
        return [Given(*m[3:7]) for m in self.heard() if m[2] == b"REQUEST"]

    def take(self) -> Given:
        """The one job that came."""
        (given,) = self.given()
        return given

    def done(
        self, given: Given, result: str | bytes = '{"value": 1}', *, ready: bool = True
    ) -> None:
        """The worker finished a job, and would take another."""
        self.say("REPLY", result, given.msgid)
        if ready:
            self.say("READY")

    # -- administrators --------------------------------------------------------------------------

    def ask(self, command: str) -> Any:
        """An administrator's question and its answer."""
        self.say(command, msgid=b"admin:1")
        (words,) = self.words()
        assert words[0] == "REPLY"
        return json.loads(words[1])


def call(name: str = "os.path.basename", *args: object, **kwargs: object) -> bytes:
    """A message as the client library writes it."""
    path, _, callable_name = name.rpartition(".")
    params = {
        "callable": callable_name, "path": path, "args": args, "kwargs": kwargs,
        "class_args": [], "class_kwargs": {},
    }  # fmt: skip
    return json.dumps(["run", params]).encode()
