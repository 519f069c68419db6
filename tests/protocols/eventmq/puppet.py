"""A world with one broker, its engine and EventMQ peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out, as frames.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, NamedTuple

from franca.core.model import Job, Millis
from franca.protocols.conversation import Link, Peer
from franca.protocols.eventmq.service import EventmqService
from franca.protocols.eventmq.settings import EventmqSettings
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support import eventmq as e

VERSION = b"eMQP/1.0"
Text = bytes | str
SETTINGS = EventmqSettings()


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(self, *, settings: EventmqSettings = SETTINGS, **world: Any) -> None:
        super().__init__(**world)
        self.service = EventmqService(self.broker, settings, Random(1), self.note_stop)
        self.serve({"eventmq": self.service, **self.service.extra_listeners()})
        self._messages = 0

    # -- peers -------------------------------------------------------------------------------

    def stranger(self, door: str = "eventmq", *, local: bool = True) -> Puppet:
        """A peer that has said nothing yet."""
        # Servers on one store, one after the other, have no two links of one name.
        link = self.open_link(door, Peer("10.0.0.1:1", local), f"{self.now}-")
        return self.add(Puppet(self, link))

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
        puppet.send(e.handshake(socket_type.decode(), identity))
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
            puppet.send(e.encoded([b"\x01" + topic]))
        return puppet

    def next_msgid(self) -> bytes:
        self._messages += 1
        return b"%08d-0000-4000-8000-000000000000" % self._messages

    # -- time ----------------------------------------------------------------------------------

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

    def restarted(self, now: Millis = 0) -> World:
        """Another server on the same store; everybody's connections are gone."""
        same = {"limits": self.limits, "store": self.store}
        return World(settings=self.service.settings, now=now or self.now, **same)

    # -- jobs ------------------------------------------------------------------------------------

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


class Puppet(AnyPuppet):
    """One peer on its link."""

    world: World

    def __init__(self, world: World, link: Link) -> None:
        super().__init__(world, link)
        self.commands: list[bytes] = []

    def read_handshake(self) -> list[list[bytes]]:
        """Read it, and whatever was said right behind it."""
        assert self.unread.startswith(b"\xff")
        del self.unread[: e.GREETING_SIZE]
        messages = self.heard()
        assert self.commands.pop(0)[:6] == b"\x05READY"
        return messages

    def say(self, command: str, *parts: str | bytes, msgid: bytes = b"") -> bytes:
        """One message; its id."""
        msgid = msgid or self.world.next_msgid()
        raw = [part.encode() if isinstance(part, str) else part for part in parts]
        self.send(e.encoded([b"", VERSION, command.encode(), msgid, *raw]))
        return msgid

    def heard(self) -> list[list[bytes]]:
        """All messages that were not read yet."""
        messages: list[list[bytes]] = []
        while frames := e.take_frames(self.unread):
            if len(frames) == 1:
                self.commands += frames
            else:
                messages.append(frames)
        return messages

    def words(self) -> list[tuple[str, ...]]:
        """What was heard, without ids of the server's own and without heartbeats."""
        heard = [[m[2], *m[4:]] for m in self.heard() if m[2] != b"HEARTBEAT"]
        return [tuple(part.decode("utf-8", "replace") for part in words) for words in heard]

    # -- clients -----------------------------------------------------------------------------

    def request(
        self, body: Text = b"body", queue: Text = "default", headers: Text = "", msgid: bytes = b""
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
    return e.call(path, callable_name, *args, **kwargs)
