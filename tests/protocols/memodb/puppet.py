"""A world with one broker, its engine and MemoDB peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from franca.core.model import Job, NewJob, OnHangUp, Policy, Session
from franca.protocols.conversation import Link, Peer
from franca.protocols.memodb.service import MemoDBService
from franca.protocols.memodb.settings import MemoDBSettings
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support import memodb as m

SECOND = 1_000
SETTINGS = MemoDBSettings()


class Reply(NamedTuple):
    """What the server said: to which request, and what."""

    request: int
    op: int
    worker: bytes
    payload: bytes
    service: str = ""
    timeout_ms: int = 0


def stack(request: int, *hops: int) -> bytes:
    """The words before a message: those of devices on the way, and the request's id."""
    words = [*hops, request | 1 << 31]
    return b"".join(word.to_bytes(4, "big") for word in words)


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(self, *, settings: MemoDBSettings = SETTINGS, seed: int = 1, **world: Any) -> None:
        super().__init__(seed=seed, **world)
        self.service = MemoDBService(self.broker, settings, Random(seed))
        self.serve({"memodb": self.service})

    def connect(self, *, unix: bool = False) -> Puppet:
        """A peer that has said nothing yet."""
        peer = Peer("unix" if unix else "127.0.0.1:9", local=True, unix=unix)
        return self.add(Puppet(self, self.open_link("memodb", peer)))

    def peer(self, *, unix: bool = False) -> Puppet:
        """A peer with the handshake behind it."""
        puppet = self.connect(unix=unix)
        puppet.send(m.HELLO)
        assert puppet.bytes_heard() == m.HELLO_BACK
        return puppet

    @property
    def all_jobs(self) -> list[Job]:
        """Every job that the broker has; few of them are ever stored."""
        return list(self.broker.jobs.values())

    # -- those who speak another protocol ----------------------------------------------------------

    def stranger(self) -> Session:
        """A worker of another protocol."""
        return self.broker.open_session(f"stranger-{self._links}", OnHangUp.RETURN, _Deaf())

    def submit(self, queue: str, body: bytes, media: str = "bytes", lease_ms: int = 0) -> Job:
        """A durable job of another protocol."""
        policy = Policy(lease_ms=lease_ms)
        new = NewJob(queue, "kind", body, policy, name="their-job", media=media)
        job = self.broker.submit(new, self.now)
        self.engine.deliver(self.now)
        self.run()
        return job


class _Deaf:
    """Whoever speaks for a stranger, and does not listen."""

    holding = False

    def on_event(self, *_: object) -> None: ...


class Puppet(AnyPuppet):
    """One connection, of NNG or of somebody who writes bytes by hand."""

    world: World

    def __init__(self, world: World, link: Link) -> None:
        super().__init__(world, link)
        self.sent: list[int] = []
        self.chokes_at = 0
        self._last_request = len(world.puppets) * 1_000
        self._lead = b"\x01" if link.peer.unix else b""

    def receive(self, said: list[bytes]) -> None:
        """Take what the server said; if it is too much at once, nothing more for a while."""
        super().receive(said)
        self.sent.append(sum(map(len, said)))
        if self.chokes_at and self.sent[-1] > self.chokes_at:
            self.world.engine.hold_back(self.link)

    def frame(self, body: bytes) -> bytes:
        return self._lead + len(body).to_bytes(8, "big") + body

    def ask(self, message: bytes, request: int | None = None, *hops: int) -> int:
        """Send a request, as one context of a socket would; its id."""
        if request is None:
            self._last_request += 1
            request = self._last_request
        self.send(self.frame(stack(request, *hops) + message))
        return request

    def hear(self) -> Reply | None:
        """The next reply, if there is one."""
        found = m.take_reply(self.unread, self._lead)
        if found is None:
            assert not self.unread, "half a reply"
            return None
        request, message = found
        said = (message.op, message.worker, message.payload)
        return Reply(request & ~(1 << 31), *said, *message.fields)

    def hear_all(self) -> list[Reply]:
        return list(iter(self.hear, None))

    def call(self, message: bytes) -> Reply:
        """Ask, and hear the answer, which must be there without time passing."""
        request = self.ask(message)
        reply = self.hear()
        assert reply is not None, f"no answer to {message[:80]!r}"
        assert reply.request == request
        assert not self.unread
        return reply

    def drain(self) -> None:
        """The peer takes what was said to it, after it did not for a while."""
        self.world.engine.go_on(self.link)
        self.world.run()

    # -- messages ------------------------------------------------------------------------------------

    def job(
        self,
        payload: bytes = b"x",
        service: str = "s",
        timeout_ms: int = 5_000,
        request: int | None = None,
    ) -> int:
        return self.ask(m.job(service, payload, timeout_ms), request)

    def ready(self, *services: str) -> int:
        return self.ask(m.ready(*services or ("s",)))

    def result(self, task: Reply, payload: bytes = b"y", leaving: bool | None = None) -> int:
        return self.ask(m.result(task.worker, payload, leaving))

    def heartbeat(self, task: Reply) -> int:
        return self.ask(m.heartbeat(task.worker))

    def take(self, op: int) -> Reply:
        """The next reply, which must be of that kind."""
        reply = self.hear()
        assert reply is not None, "no reply"
        assert reply.op == op, reply
        return reply

    def given(self) -> Reply:
        return self.take(m.JOB)

    def answer(self) -> Reply:
        return self.take(m.RESULT)

    def asked_to_beat(self) -> Reply:
        return self.take(m.HEARTBEAT)

    def disconnected(self) -> Reply:
        return self.take(m.DISCONNECT)


def worker_on(world: World, *services: str) -> Puppet:
    """A connection with one worker that waits for a job."""
    puppet = world.peer()
    puppet.ready(*services)
    return puppet
