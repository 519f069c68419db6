"""A world with one broker, its engine and Faktory clients, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from franca.protocols.conversation import Link, Peer
from franca.protocols.faktory.service import FaktoryService
from franca.protocols.faktory.settings import FaktorySettings
from tests.protocols.faktory import client as wire
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support.faktory import Reply, job_in, take_reply
from tests.support.protocols import NoServer


class Facts(NoServer):
    """What a node says of itself."""

    def uptime_s(self) -> int:
        return 29

    def connections(self) -> int:
        return 2

    def memory_mb(self) -> int:
        return 7


SETTINGS = FaktorySettings()


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(self, *, settings: FaktorySettings = SETTINGS, **world: Any) -> None:
        super().__init__(**world)
        self.service = FaktoryService(self.broker, settings, Random(1), Facts())
        self.serve({"faktory": self.service})

    def connect(self) -> Puppet:
        """A client that has said nothing yet."""
        return self.add(Puppet(self, self.open_link("faktory", Peer("127.0.0.1", local=True))))

    def client(self, wid: str = "", **members: object) -> Puppet:
        """A client that has said HELLO and heard OK; with a `wid`, a worker."""
        puppet = self.connect()
        assert puppet.take() is not None
        assert puppet.ask(wire.encode_hello(wid, **members)) == Reply("+", b"OK")
        return puppet


class Puppet(AnyPuppet):
    """One client on its link."""

    world: World
    heard = AnyPuppet.bytes_heard

    def __init__(self, world: World, link: Link) -> None:
        super().__init__(world, link)
        self.pieces: list[bytes] = []

    def receive(self, said: list[bytes]) -> None:
        """Take what the server said, in the pieces in which it did."""
        self.pieces.extend(said)
        super().receive(said)

    def take(self) -> Reply | None:
        """The next reply that was not read yet."""
        return take_reply(self.unread)

    def take_all(self) -> list[Reply]:
        return list(iter(self.take, None))

    def ask(self, data: bytes) -> Reply:
        """Say one command and hear its answer, which must be there without time passing."""
        self.send(data)
        reply = self.take()
        assert reply is not None, f"no answer to {data[:80]!r}"
        assert not self.unread, f"more than one answer to {data[:80]!r}"
        return reply

    def line(self, text: str) -> Reply:
        return self.ask(text.encode() + b"\r\n")

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
        return job_in(reply)

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
        return dict(json.loads(self.line("INFO").text))


def job(jid: str, *args: object, **members: object) -> dict[str, object]:
    """A work unit with what every server demands."""
    return {"jid": jid, "jobtype": "type", "args": list(args), **members}


OK = Reply("+", b"OK")
NULL = Reply("$", None)


def err(text: str) -> Reply:
    return Reply("-", b"ERR " + text.encode())


def bulk(text: str) -> Reply:
    return Reply("$", text.encode())
