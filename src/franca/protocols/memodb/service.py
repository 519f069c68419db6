"""MemoDB on this server: its settings, its workers, its clients' requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

import msgspec

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link
from franca.protocols.declaration import Surroundings
from franca.protocols.memodb.conversation import MemoDBConversation
from franca.protocols.memodb.jobs import Intake
from franca.protocols.memodb.messages import Header
from franca.protocols.memodb.outbox import Unsent
from franca.protocols.memodb.requests import Requests, Room
from franca.protocols.memodb.settings import MemoDBSettings
from franca.protocols.memodb.workers import BEATING, LOST, WORKING, Workers
from franca.protocols.service import Service, WorkerView, runs_of, state_of

SWEEP_MS: Final = 1_000


class MemoDBService(Service):
    """What all MemoDB connections share. Which ids of workers are ours comes from `rng`."""

    name = "memodb"

    def __init__(self, broker: Broker, settings: MemoDBSettings, rng: Random) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.registry = Workers(broker, rng)
        self.intake = Intake(f"m{rng.getrandbits(32):08x}")
        self.job_headers: dict[bytes, Header] = {}
        self.room = Room(settings.large_bytes)
        self.unsent = Unsent(settings.unsent_bytes)
        self.requests = Requests(broker, settings)
        self.conversations: dict[MemoDBConversation, None] = {}
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

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """The workers that said READY and are still there."""
        return (
            WorkerView(
                name=worker.id.hex(),
                protocol=self.name,
                host=worker.connection_workers.link.peer.address,
                state=state_of(running, quiet=not worker.wanted, stalled=worker.doing == BEATING),
                started_at=worker.started_at,
                seen_at=worker.seen_at,
                queues=worker.services,
                running=running,
                fetched_at=worker.asked_at,
            )
            for worker in list(self.registry.by_id.values())
            if worker.doing != LOST
            for running in (runs_of(worker.session.leases.values()),)
        )

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet`, or to `stop`: it is told to begin anew."""
        try:
            worker = self.registry.by_id.get(bytes.fromhex(name))
        except ValueError:
            return False
        if worker is None or what not in ("quiet", "stop"):
            return False
        worker.connection_workers.stop_giving_jobs(worker, leaving=what == "stop")
        return True

    def consumers(self) -> int:
        """How many workers still hold a job."""
        return sum(worker.doing == WORKING for worker in self.registry.by_id.values())


def build(chosen: Mapping[str, object], around: Surroundings) -> MemoDBService:
    """The service with what was chosen for it."""
    return MemoDBService(around.broker, msgspec.convert(chosen, MemoDBSettings), around.rng)
