"""Workers by the id that they were given: what each is doing, and when it is taken for gone.

| state | what it means | what it may say |
|---|---|---|
| PARKED | its request waits for a job | the same request again, or HEARTBEAT |
| WORKING | it was given a job | RESULT |
| BEATING | it was asked for a sign of life | HEARTBEAT |
| LOST | its connection broke | the same, on a new connection |

Whatever else it says is out of step and answered DISCONNECT, upon which it begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Final

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import NEVER, Demand, Job, JobId, Millis, OnHangUp, Session
from franca.protocols.memodb import cbor
from franca.protocols.memodb.messages import Message
from franca.protocols.memodb.wire import ID_BYTES
from franca.protocols.numbers import MEMODB

if TYPE_CHECKING:
    from franca.protocols.memodb.worker_commands import ConnectionWorkers

LOST_MAX: Final = 10_000
"""Workers whose connection broke that are remembered; the oldest go first."""
LOST_MS_MAX: Final = 600_000
"""And for how long at most, however long its job may take."""
SHARES: Final = 4
"""What all workers may take is enough for so many connections."""
WORKER_COSTS_BYTES: Final = 1_024
SERVICE_COSTS_BYTES: Final = 256
"""What a worker and each of its services take besides their names, roughly."""


PARKED: Final = 0
WORKING: Final = 1
BEATING: Final = 2
LOST: Final = 3


@dataclass(slots=True, eq=False)
class Worker:
    """One worker; several may share a connection. Not a Struct, whose members are set slowly.

    `head` is how its id stands in headers, `stack` is whom to answer. `ready` is its READY, until
    it sends something else; `said` is how that began and `said_bytes` how long it was: NNG sends a
    request again when it waits too long.
    `until` is when the job that it holds must be done, or by when it must be heard of. `durable`
    if its next answer must wait for the disk. `answer` is the count of its last JOB in the outbox.
    `lost_job` is what it held when its connection broke; the job itself may be large, and end.
    """

    id: bytes
    services: tuple[str, ...]
    session: Session
    connection_workers: ConnectionWorkers
    stack: bytes
    ready: bytes
    started_at: Millis
    cost: int
    seen_at: Millis = field(init=False)
    asked_at: Millis = NEVER
    head: bytes = field(init=False)
    wanted: tuple[str, ...] = field(init=False)
    said: bytes = b""
    said_bytes: int = 0
    doing: int = PARKED
    demand: Demand | None = None
    job: Job | None = None
    lost_job: JobId = 0
    until: Millis = NEVER
    leaving: bool = False
    durable: bool = False
    answer: int = 0

    def __post_init__(self) -> None:
        self.seen_at = self.started_at
        self.head = cbor.of_bytes(self.id)
        self.wanted = self.services


class Workers:
    """All workers. Who knows an id may speak for its worker, so nobody can guess the next one.

    `bytes` is what all of them take.
    """

    def __init__(self, broker: Broker, rng: Random) -> None:
        self.by_id: dict[bytes, Worker] = {}
        self.bytes = 0
        self._broker = broker
        # Who has seen many numbers of such a generator knows the next ones: it gives a secret only.
        self._secret = rng.getrandbits(256).to_bytes(32, "big")
        self._number = 0
        self._lost: dict[Worker, None] = {}

    def add(
        self, message: Message, connection_workers: ConnectionWorkers, ready: bytes, now: Millis
    ) -> Worker | None:
        """The new worker of a READY; None if there is no room for its services."""
        assert message.header is not None
        services = message.header.services
        names = sum(SERVICE_COSTS_BYTES + len(service) for service in services)
        cost = WORKER_COSTS_BYTES + len(ready) + names
        if not self._has_room(cost, connection_workers, now):
            connection_workers.link.note("a READY of more services than workers may offer together")
            return None
        worker_id = self._new_id()
        session = self._open_session(worker_id, services, connection_workers, now)
        if session is None:
            return None
        stack = message.stack
        worker = Worker(worker_id, services, session, connection_workers, stack, ready, now, cost)
        self.by_id[worker_id] = worker
        self.bytes += cost
        connection_workers.bytes += cost
        return worker

    def _new_id(self) -> bytes:
        while True:
            self._number += 1
            number = self._number.to_bytes(8, "big")
            worker_id = blake2b(number, key=self._secret, digest_size=ID_BYTES).digest()
            if worker_id not in self.by_id:
                return worker_id

    def _has_room(self, size: int, connection_workers: ConnectionWorkers, now: Millis) -> bool:
        """Whether a worker may come in that takes so much, and leave some to other connections.

        Those whose connection broke make room for it.
        """
        most = self._broker.limits.offered_bytes
        if connection_workers.bytes and connection_workers.bytes + size > most // SHARES:
            return False
        while self.bytes + size > most and self._lost:
            self.dismiss(next(iter(self._lost)), now)
        return self.bytes + size <= most

    def _open_session(
        self,
        worker_id: bytes,
        services: tuple[str, ...],
        connection_workers: ConnectionWorkers,
        now: Millis,
    ) -> Session | None:
        """A session that serves all of these; None if there are too many queues for that."""
        holder, owner = f"memodb-{worker_id.hex()}", connection_workers.conversation
        session = self._broker.open_session(holder, OnHangUp.RETURN, owner, MEMODB)
        try:
            for service in services:
                self._broker.serve(session, service)
        except Refused as refusal:
            # Nobody else knows of it: left open, it would serve the first of them for ever.
            self._broker.close_session(session, now)
            connection_workers.link.note(f"a worker of {len(services)} services: {refusal.text}")
            return None
        return session

    def dismiss(self, worker: Worker, now: Millis) -> None:
        """Forget a worker; a job that it holds goes to another."""
        if self.by_id.pop(worker.id, None) is not None:
            self.bytes -= worker.cost
        self._lost.pop(worker, None)
        worker.connection_workers.remove(worker)
        self._broker.close_session(worker.session, now)

    def lose(self, worker: Worker, due_ms: int, now: Millis) -> None:
        """A worker's connection broke: its job goes to another at once, its id is kept a while."""
        worker.until = max(min(worker.until, now + LOST_MS_MAX), now + due_ms)
        worker.doing = LOST
        worker.lost_job = 0 if worker.job is None else worker.job.id
        worker.job = None
        worker.demand = None
        self._broker.close_session(worker.session, now)
        self._lost[worker] = None
        if len(self._lost) > LOST_MAX:
            self.dismiss(next(iter(self._lost)), now)

    def move(self, worker: Worker, connection_workers: ConnectionWorkers, now: Millis) -> bool:
        """A worker sends on another connection than before.

        False, and all is as it was, if it was lost and there is no room for its queues now.
        """
        session: Session | None = worker.session
        if worker.doing == LOST:
            session = self._open_session(worker.id, worker.services, connection_workers, now)
        if session is None:
            return False
        self._lost.pop(worker, None)
        worker.connection_workers.remove(worker)
        worker.connection_workers = connection_workers
        worker.answer = 0  # nothing was sent to it there
        connection_workers.bytes += worker.cost
        worker.session = session
        session.owner = connection_workers.conversation
        return True

    def sweep(self, now: Millis) -> None:
        """Forget those who owe a sign of life and gave none; resume those who were deferred."""
        silent = []
        for worker in self.by_id.values():
            if worker.doing >= BEATING and worker.until <= now:
                silent.append(worker)
            elif worker.doing == PARKED and worker.demand is None:
                worker.connection_workers.defer(worker)
        for worker in silent:
            self.dismiss(worker, now)
