"""MemoDB on this server: its settings, its workers, its clients' requests."""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis, Policy
from franca.protocols.conversation import Link, Service, WorkerView
from franca.protocols.memodb.conversation import MemoDBConversation
from franca.protocols.memodb.messages import task
from franca.protocols.memodb.requests import Requests
from franca.protocols.memodb.workers import Workers

SWEEP_MS: Final = 1_000
KINDS_MAX: Final = 1_024
LOSSES: Final = 3
"""How often a job whose worker was lost is given to another."""


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


class Kind(Struct, frozen=True):
    """All jobs of one service and timeout. `task` is how a JOB says both."""

    service: str
    policy: Policy
    task: bytes


class MemoDBService(Service):
    """What all MemoDB connections share. Which ids of workers are ours comes from `rng`.

    `kinds` are found by the bytes with which clients name them; `conversations` are all that
    are open.
    """

    name = "memodb"

    def __init__(self, broker: Broker, settings: MemoDBSettings, rng: Random) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.workers_by_id = Workers(broker, rng)
        self.requests = Requests(
            broker, settings.remember_ms, settings.remember_replies, settings.remember_bytes
        )
        self.kinds: dict[bytes, Kind] = {}
        self.conversations: dict[MemoDBConversation, None] = {}
        self.stopping = False
        self._boot = f"m{rng.getrandbits(32):08x}-"
        self._jobs = 0
        self._sweep_at: Millis = NEVER

    def open(self, link: Link, now: Millis) -> MemoDBConversation:
        """Begin the dialogue on a new link; both sides say at once what they are."""
        conversation = MemoDBConversation(self, link)
        self.conversations[conversation] = None
        return conversation

    def next_name(self) -> str:
        """A name for a job, which workers of other protocols call it by."""
        self._jobs += 1
        return f"{self._boot}{self._jobs}"

    def learn_kind(self, said: bytes, service: str, timeout_ms: int) -> Kind:
        """How jobs of a service and timeout are treated; `said` is how a client writes both.

        A timeout of nothing is over as soon as the job is given out.
        """
        policy = Policy(
            losses=LOSSES,
            bury=False,
            lease_ms=max(timeout_ms, 1),
            durable=False,
            dies_unwatched=True,
            expiry_is_failure=True,
        )
        kind = Kind(service, policy, task(service, timeout_ms))
        if said:
            if len(self.kinds) >= KINDS_MAX:
                self.kinds.clear()
            self.kinds[said] = kind
        return kind

    def tick(self, now: Millis) -> None:
        """Forget silent workers and old replies, and drop clients that wait for nobody."""
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_MS
            self.workers_by_id.sweep(now)
            self.requests.sweep(now)
            for conversation in self.conversations:
                conversation.drop_unserved(now)

    def workers(self) -> list[WorkerView]:
        """The workers that said READY and are still there."""
        return self.workers_by_id.views(self.name)

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet`, or to `stop`: it is told to begin anew."""
        try:
            worker = self.workers_by_id.by_id.get(bytes.fromhex(name))
        except ValueError:
            return False
        if worker is None or what not in ("quiet", "stop"):
            return False
        worker.conversation.hush(worker, leaving=what == "stop")
        return True

    def stop(self, now: Millis) -> None:
        """The server is about to stop: nobody is given a job, results still reach their clients."""
        self.stopping = True

    def consumers(self) -> int:
        """How many workers still hold a job."""
        return self.workers_by_id.working()
