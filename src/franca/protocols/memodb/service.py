"""MemoDB on this server: its settings, its workers, its clients' requests."""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link, Service, WorkerView
from franca.protocols.memodb.clients import Room
from franca.protocols.memodb.conversation import MemoDBConversation
from franca.protocols.memodb.kinds import Kinds
from franca.protocols.memodb.requests import Requests
from franca.protocols.memodb.workers import Workers

SWEEP_MS: Final = 1_000


class MemoDBSettings(Struct, frozen=True):
    """What an operator may choose."""

    heartbeat_ms: int = 10_000
    """How long a worker waits for a job before it is asked for a sign of life."""
    heartbeat_due_ms: int = 10_000
    """How long it may take to give one."""
    start_ms: int = 10_000
    """How long a client is kept waiting for a service that nobody offers."""
    remember_ms: int = 60_000
    """How long a reply is remembered for the case that it was lost on the way."""
    remember_replies: int = 16_384
    """And how many of them."""
    remember_bytes: int = 64 * 1024 * 1024
    """And how many bytes of them."""
    share_jobs: int = 1_000
    """Jobs that one connection may have under way."""
    share_bytes: int = 64 * 1024 * 1024
    """And bytes of them; one job may always be."""
    large_bytes: int = 256 * 1024 * 1024
    """Bytes of large jobs that all connections together may have under way."""


class MemoDBService(Service):
    """What all MemoDB connections share. Which ids of workers are ours comes from `rng`."""

    name = "memodb"

    def __init__(self, broker: Broker, settings: MemoDBSettings, rng: Random) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.registry = Workers(broker, rng)
        self.kinds = Kinds(f"m{rng.getrandbits(32):08x}")
        self.room = Room(settings.large_bytes)
        self.requests = Requests(
            broker, settings.remember_ms, settings.remember_replies, settings.remember_bytes
        )
        self.conversations: dict[MemoDBConversation, None] = {}
        self.stopping = False
        self._sweep_at: Millis = NEVER

    def open(self, link: Link, now: Millis) -> MemoDBConversation:
        """Begin the dialogue on a new link; both sides say at once what they are."""
        conversation = MemoDBConversation(self, link)
        self.conversations[conversation] = None
        return conversation

    def tick(self, now: Millis) -> None:
        """Forget silent workers and old replies, and drop clients that wait for nobody."""
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_MS
            self.registry.sweep(now)
            self.requests.sweep(now)
            for conversation in self.conversations:
                conversation.clients.drop_unserved(now)

    def workers(self) -> list[WorkerView]:
        """The workers that said READY and are still there."""
        return self.registry.views(self.name)

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet`, or to `stop`: it is told to begin anew."""
        try:
            worker = self.registry.by_id.get(bytes.fromhex(name))
        except ValueError:
            return False
        if worker is None or what not in ("quiet", "stop"):
            return False
        worker.crew.hush(worker, leaving=what == "stop")
        return True

    def stop(self, now: Millis) -> None:
        """The server is about to stop: nobody is given a job, results still reach their clients."""
        self.stopping = True

    def consumers(self) -> int:
        """How many workers still hold a job."""
        return self.registry.working()
