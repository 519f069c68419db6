"""A world with one broker, its engine and Faktory clients, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Job, Millis, State
from franca.engine.engine import Engine
from franca.protocols.conversation import Link, Peer
from franca.protocols.faktory import wire
from franca.protocols.faktory.conversation import FaktoryConversation
from franca.protocols.faktory.info import ServerFacts
from franca.protocols.faktory.service import FaktoryService, FaktorySettings
from franca.protocols.faktory.wire import Reply
from franca.store.memory import MemoryStore

START: Millis = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""


class World:
    """The server and everybody who speaks to it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: FaktorySettings | None = None,
        facts: ServerFacts | None = None,
        seed: int = 1,
    ) -> None:
        self.limits = limits or Limits()
        self.now = START
        self.broker = Broker(self.limits, Random(seed))
        self.service = FaktoryService(
            self.broker,
            settings or FaktorySettings(),
            Random(seed),
            lambda now: facts or ServerFacts(uptime_s=1, connections=1, used_memory_mb=1),
        )
        self.engine = Engine(self.broker, {"faktory": self.service}, self.limits)
        self.store = MemoryStore()
        self.puppets: dict[Link, Puppet] = {}
        self._links = 0

    def connect(self) -> Puppet:
        """A client that has said nothing yet."""
        self._links += 1
        peer = Peer("127.0.0.1", local=True)
        link = self.engine.open_link("faktory", f"l{self._links}", peer, self.now)
        puppet = self.puppets[link] = Puppet(self, link)
        self.run()
        return puppet

    def client(self, wid: str = "", **members: object) -> Puppet:
        """A client that has said HELLO and heard OK; with a `wid`, a worker."""
        puppet = self.connect()
        assert puppet.take() is not None
        assert puppet.ask(wire.encode_hello(wid, **members)) == Reply("+", b"OK")
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
            puppet.pieces.extend(link.out)
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

    def jobs(self, *states: State) -> list[Job]:
        """Every job that the store has in one of these states."""
        jobs = [*self.store.held.values(), *self.store.tail.values()]
        return [job for job in jobs if not states or job.state in states]

    def stop(self) -> None:
        """The server is told to stop."""
        self.engine.stop(self.now)
        self.run()


class Puppet:
    """One client on its link."""

    def __init__(self, world: World, link: Link) -> None:
        self.world = world
        self.link = link
        self.unread = bytearray()
        self.pieces: list[bytes] = []
        self.waited_for_commit = False

    @property
    def conversation(self) -> FaktoryConversation:
        assert isinstance(self.link.conversation, FaktoryConversation)
        return self.link.conversation

    @property
    def is_hung_up(self) -> bool:
        return self.link.closed

    def send(self, data: bytes) -> None:
        """Say something, and let the server act on it."""
        if not self.link.closed:
            self.world.engine.received(self.link, data)
        self.world.run()

    def take(self) -> Reply | None:
        """The next reply that was not read yet."""
        return wire.parse_reply(self.unread)

    def take_all(self) -> list[Reply]:
        replies: list[Reply] = []
        while (reply := self.take()) is not None:
            replies.append(reply)
        return replies

    def ask(self, data: bytes) -> Reply:
        """Say one command and hear its answer, which must be there without time passing."""
        self.send(data)
        reply = self.take()
        assert reply is not None, f"no answer to {data[:80]!r}"
        assert not self.unread, f"more than one answer to {data[:80]!r}"
        return reply

    def line(self, text: str) -> Reply:
        return self.ask(text.encode() + b"\r\n")

    def heard(self) -> bytes:
        """All unread bytes, as they are."""
        data = bytes(self.unread)
        self.unread.clear()
        return data

    # -- commands ----------------------------------------------------------------------------

    def push(self, jid: str, *args: object, **members: object) -> Reply:
        return self.ask(wire.encode_push(job(jid, *args, **members)))

    def push_many(self, jobs: Iterable[Mapping[str, object]]) -> Reply:
        return self.ask(wire.encode_push_many(jobs))

    def fetch(self, *queues: str) -> dict[str, Any] | None:
        """A job that is there now, or None after the wait."""
        self.send(wire.encode_fetch(*queues))
        reply = self.take()
        if reply is None:
            self.world.pass_time(2_000)
            reply = self.take()
        assert reply is not None
        assert reply.kind == "$", reply
        if reply.body is None:
            return None
        unit: dict[str, Any] = json.loads(reply.body)
        return unit

    def fetch_raw(self, *queues: str) -> bytes:
        reply = self.ask(wire.encode_fetch(*queues))
        assert reply.body is not None
        return reply.body

    def ack(self, jid: str) -> Reply:
        return self.ask(wire.encode_ack(jid))

    def fail(self, jid: str, message: str = "boom", errtype: str = "Boom") -> Reply:
        return self.ask(wire.encode_fail(jid, message, errtype))

    def beat(self, wid: str, **members: object) -> Reply:
        return self.ask(wire.encode_beat(wid, **members))

    def info(self) -> dict[str, Any]:
        reply = self.line("INFO")
        assert reply.body is not None
        facts: dict[str, Any] = json.loads(reply.body)
        return facts

    def hang_up(self, *, unheard: bool = False) -> None:
        """The client is gone."""
        self.world.engine.close_link(self.link, self.world.now, unheard=unheard)
        self.world.run()


def job(jid: str, *args: object, **members: object) -> dict[str, object]:
    """A work unit with what every server demands."""
    return {"jid": jid, "jobtype": "type", "args": list(args), **members}


OK = Reply("+", b"OK")
NULL = Reply("$", None)


def err(text: str) -> Reply:
    return Reply("-", b"ERR " + text.encode())


def bulk(text: str) -> Reply:
    return Reply("$", text.encode())
