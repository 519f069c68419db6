"""A world with one broker, its engine and MemoDB peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Job, Millis, NewJob, OnHangUp, Policy, Session
from franca.engine.engine import Engine
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
from franca.store.memory import MemoryStore

START: Millis = 1_790_000_000_000
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


class World:
    """The server and everybody who speaks to it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: MemoDBSettings | None = None,
        seed: int = 1,
    ) -> None:
        self.limits = limits or Limits()
        self.now = START
        self.broker = Broker(self.limits, Random(seed))
        self.service = MemoDBService(self.broker, settings or MemoDBSettings(), Random(seed))
        self.engine = Engine(self.broker, {"memodb": self.service}, self.limits)
        self.store = MemoryStore()
        self.puppets: dict[Link, Puppet] = {}
        self._links = 0

    def connect(self, *, unix: bool = False) -> Puppet:
        """A peer that has said nothing yet."""
        self._links += 1
        peer = Peer("unix" if unix else "127.0.0.1:9", local=True, unix=unix)
        link = self.engine.open_link("memodb", f"l{self._links}", peer, self.now)
        puppet = self.puppets[link] = Puppet(self, link)
        self.run()
        return puppet

    def peer(self, *, unix: bool = False) -> Puppet:
        """A peer with the handshake behind it."""
        puppet = self.connect(unix=unix)
        puppet.send(sp.HELLO_OF_CLIENT)
        assert bytes(puppet.unread) == sp.HELLO_OF_SERVER
        puppet.unread.clear()
        return puppet

    def run(self) -> None:
        """Turn until everything that can be said is said; commit in between."""
        for _ in range(100_000):
            self.engine.turn(self.now)
            if self.broker.has_changes():
                self.store.write(self.broker.drain(), [])
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
            puppet.sent.append(sum(map(len, link.out)))
            puppet.unread += b"".join(link.out)
            puppet.waited_for_commit |= link.after_commit
            link.out.clear()
            link.after_commit = False
            if puppet.chokes_at and puppet.sent[-1] > puppet.chokes_at:
                self.engine.hold_back(link)
            if link.closing and not link.closed:
                self.engine.close_link(link, self.now, unheard=False)

    def pass_time(self, ms: int, step: int = 50) -> None:
        """Let time go by, in steps that a node would make."""
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + step, end)
            self.run()

    @property
    def jobs(self) -> list[Job]:
        """Every job that there is."""
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


class Puppet:
    """One connection, of NNG or of somebody who writes bytes by hand."""

    def __init__(self, world: World, link: Link) -> None:
        self.world = world
        self.link = link
        self.unread = bytearray()
        self.sent: list[int] = []
        self.chokes_at = 0
        self.waited_for_commit = False
        self._last_request = len(world.puppets) * 1_000
        self._unix = link.peer.unix

    @property
    def conversation(self) -> MemoDBConversation:
        assert isinstance(self.link.conversation, MemoDBConversation)
        return self.link.conversation

    @property
    def is_hung_up(self) -> bool:
        return self.link.closed

    def send(self, data: bytes) -> None:
        """Say something, and let the server act on it."""
        if not self.link.closed:
            self.world.engine.received(self.link, data)
        self.world.run()

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
        replies: list[Reply] = []
        while (reply := self.hear()) is not None:
            replies.append(reply)
        return replies

    def call(self, message: bytes) -> Reply:
        """Ask, and hear the answer, which must be there without time passing."""
        request = self.ask(message)
        reply = self.hear()
        assert reply is not None, f"no answer to {message[:80]!r}"
        assert reply.request == request
        assert not self.unread
        return reply

    def hang_up(self, *, unheard: bool = False) -> None:
        """The peer is gone."""
        self.world.engine.close_link(self.link, self.world.now, unheard=unheard)
        self.world.run()

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
