"""A world with one broker, its engine and MemoDB peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from franca.core.limits import Limits
from franca.core.model import Job, NewJob, OnHangUp, Policy, Session
from franca.protocols.conversation import Link, Peer
from franca.protocols.memodb import messages, sp
from franca.protocols.memodb.conversation import MemoDBConversation
from franca.protocols.memodb.messages import (
    DISCONNECT,
    HEARTBEAT,
    JOB,
    RESULT,
    encode_heartbeat,
    encode_job,
    encode_ready,
    encode_result,
    read_header,
)
from franca.protocols.memodb.service import MemoDBService
from franca.protocols.memodb.settings import MemoDBSettings
from tests.protocols.world import AnyPuppet, AnyWorld

SECOND = 1_000


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

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: MemoDBSettings | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__(limits, seed=seed)
        self.service = MemoDBService(self.broker, settings or MemoDBSettings(), Random(seed))
        self.serve({"memodb": self.service})

    def connect(self, *, unix: bool = False) -> Puppet:
        """A peer that has said nothing yet."""
        peer = Peer("unix" if unix else "127.0.0.1:9", local=True, unix=unix)
        return self.add(Puppet(self, self.open_link("memodb", peer)))

    def peer(self, *, unix: bool = False) -> Puppet:
        """A peer with the handshake behind it."""
        puppet = self.connect(unix=unix)
        puppet.send(sp.HELLO_OF_CLIENT)
        assert bytes(puppet.unread) == sp.HELLO_OF_SERVER
        puppet.unread.clear()
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

    def tell(self, *_: object) -> None: ...


class Puppet(AnyPuppet):
    """One connection, of NNG or of somebody who writes bytes by hand."""

    world: World

    def __init__(self, world: World, link: Link) -> None:
        super().__init__(world, link)
        self.sent: list[int] = []
        self.chokes_at = 0
        self._last_request = len(world.puppets) * 1_000
        self._unix = link.peer.unix

    @property
    def conversation(self) -> MemoDBConversation:
        assert isinstance(self.link.conversation, MemoDBConversation)
        return self.link.conversation

    def receive(self, said: list[bytes]) -> None:
        """Take what the server said; if it is too much at once, nothing more for a while."""
        super().receive(said)
        self.sent.append(sum(map(len, said)))
        if self.chokes_at and self.sent[-1] > self.chokes_at:
            self.world.engine.hold_back(self.link)

    def frame(self, body: bytes) -> bytes:
        head = sp.head_over_ipc if self._unix else sp.head_over_tcp
        return head(len(body)) + body

    def ask(self, message: bytes, request: int | None = None, *hops: int) -> int:
        """Send a request, as one context of a socket would; its id."""
        if request is None:
            self._last_request += 1
            request = self._last_request
        self.send(self.frame(stack(request, *hops) + message))
        return request

    def hear(self) -> Reply | None:
        """The next reply, if there is one."""
        head = 8 + self._unix
        if len(self.unread) < head:
            return None
        if self._unix:
            assert self.unread[0] == 1
        size = int.from_bytes(self.unread[head - 8 : head], "big")
        assert len(self.unread) >= head + size, "half a reply"
        body = bytes(self.unread[head : head + size])
        del self.unread[: head + size]
        at = sp.stack_end(body, 0, size)
        assert at > 0
        header = read_header(body, at, size, 1_024)
        request = int.from_bytes(body[at - 4 : at], "big") & ~(1 << 31)
        said = (request, header.op, header.id, body[header.end :])
        return Reply(*said, header.service, header.timeout_ms)

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
        return self.ask(encode_job(service, timeout_ms, payload), request)

    def ready(self, *services: str) -> int:
        return self.ask(encode_ready(services or ("s",)))

    def result(self, task: Reply, payload: bytes = b"y", leaving: bool | None = None) -> int:
        return self.ask(encode_result(payload, task.worker, leaving))

    def heartbeat(self, task: Reply) -> int:
        return self.ask(encode_heartbeat(task.worker))

    def take(self, op: int) -> Reply:
        """The next reply, which must be of that kind."""
        reply = self.hear()
        assert reply is not None, "no reply"
        assert reply.op == op, reply
        return reply

    def given(self) -> Reply:
        return self.take(JOB)

    def answer(self) -> Reply:
        return self.take(RESULT)

    def asked_to_beat(self) -> Reply:
        return self.take(HEARTBEAT)

    def disconnected(self) -> Reply:
        return self.take(DISCONNECT)


def worker_on(world: World, *services: str) -> Puppet:
    """A connection with one worker that waits for a job."""
    puppet = world.peer()
    puppet.ready(*services)
    return puppet


__all__ = ["Puppet", "Reply", "World", "messages", "stack", "worker_on"]
