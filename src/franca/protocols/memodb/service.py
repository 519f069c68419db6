"""MemoDB on this server: its settings, its workers, its clients' requests."""

from __future__ import annotations

from random import Random
from typing import Final

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link, Service, WorkerView
from franca.protocols.memodb.conversation import MemoDBConversation
from franca.protocols.memodb.kinds import Kinds
from franca.protocols.memodb.outbox import Unsent
from franca.protocols.memodb.requests import Requests
from franca.protocols.memodb.room import Room
from franca.protocols.memodb.settings import MemoDBSettings
from franca.protocols.memodb.workers import Workers

SWEEP_MS: Final = 1_000


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
        self.unsent = Unsent(settings.unsent_bytes)
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
            self.unsent.sweep()
            self.room.sweep()
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
