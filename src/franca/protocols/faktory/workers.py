"""Worker processes by their `wid`: who beats, who is to be quiet, who has fallen silent.

A worker is known from its first HELLO until its last connection closes or a minute without a
BEAT is over. Its state only moves on: running, quiet, terminate; it holds for every connection.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

from msgspec import Struct, field

from franca.core.model import Millis
from franca.protocols.conversation import WorkerView
from franca.protocols.faktory.messages import Hello

SILENCE_MS: Final = 60_000
"""A worker that has not said BEAT for so long is taken for gone, and hung up on."""


class WorkerState(IntEnum):
    """What a worker has been asked to do, or says that it does."""

    RUNNING = 0
    QUIET = 1
    TERMINATE = 2

    @property
    def word(self) -> str:
        """The state as the protocol writes it."""
        return self.name.lower()


STATES: Final = {"quiet": WorkerState.QUIET, "terminate": WorkerState.TERMINATE}
ASKED: Final = {"quiet": WorkerState.QUIET, "stop": WorkerState.TERMINATE}


class Connection(Protocol):
    """A worker's connection, as far as the registry needs to reach it."""

    def hush(self) -> None:
        """Give this connection no more jobs."""

    def drop(self, now: Millis) -> None:
        """Hang up."""

    def fetched_queues(self) -> tuple[str, ...]:
        """The queues that it asked last."""


class Worker(Struct, eq=False):
    """One process. `works` once it has shown that it is a consumer, by a BEAT or a FETCH."""

    wid: str
    hostname: str
    pid: int
    labels: list[str]
    started_at: Millis
    beat_at: Millis
    rss_kb: int = 0
    state: WorkerState = WorkerState.RUNNING
    works: bool = False
    connections: dict[Connection, None] = field(default_factory=dict)


class Workers:
    """All workers that are known now. `reaped` counts those that fell silent."""

    def __init__(self) -> None:
        self.by_wid: dict[str, Worker] = {}
        self.reaped = 0

    def join(self, wid: str, hello: Hello, connection: Connection, now: Millis) -> Worker:
        """A connection says that it belongs to this worker; the first one describes it."""
        worker = self.by_wid.get(wid)
        if worker is None:
            worker = self.by_wid[wid] = Worker(
                wid=wid,
                hostname=hello.hostname or "",
                pid=hello.pid or 0,
                labels=[label or "" for label in hello.labels or ()],
                started_at=now,
                beat_at=now,
                rss_kb=hello.rss_kb or 0,
            )
        worker.connections[connection] = None
        return worker

    def leave(self, worker: Worker, connection: Connection) -> None:
        """A connection is gone; with the last one, so is the worker and what it was told."""
        worker.connections.pop(connection, None)
        if not worker.connections and self.by_wid.get(worker.wid) is worker:
            del self.by_wid[worker.wid]

    def beat(self, wid: str, says: str, rss_kb: int, now: Millis) -> Worker | None:
        """A worker lives, and may say what it is about to do; None if nobody knows it."""
        worker = self.by_wid.get(wid)
        if worker is None:
            return None
        worker.beat_at = now
        worker.rss_kb = rss_kb
        worker.works = True
        self.move(worker, STATES.get(says, WorkerState.RUNNING))
        return worker

    def move(self, worker: Worker, state: WorkerState) -> None:
        """Ask a worker to be in this state, if it is not further already."""
        if state > worker.state:
            worker.state = state
            for connection in worker.connections:
                connection.hush()

    def move_all(self, state: WorkerState) -> None:
        """Ask every worker."""
        for worker in self.by_wid.values():
            self.move(worker, state)

    def reap(self, now: Millis) -> None:
        """Hang up on workers that have not beaten for too long. What they hold, they hold."""
        silent = [w for w in self.by_wid.values() if now - w.beat_at > SILENCE_MS]
        for worker in silent:
            del self.by_wid[worker.wid]
            self.reaped += 1
            for connection in list(worker.connections):
                connection.drop(now)

    def consumers(self) -> int:
        """How many connections belong to workers that fetch or beat."""
        return sum(len(w.connections) for w in self.by_wid.values() if w.works)

    def views(self, protocol: str) -> list[WorkerView]:
        """The workers as operators see them."""
        return [
            WorkerView(
                name=worker.wid,
                protocol=protocol,
                host=worker.hostname,
                pid=worker.pid,
                labels=worker.labels,
                state=worker.state.word,
                started_at=worker.started_at,
                seen_at=worker.beat_at,
                rss_kb=worker.rss_kb,
                connections=len(worker.connections),
                queues=sorted({q for c in worker.connections for q in c.fetched_queues()}),
            )
            for worker in self.by_wid.values()
        ]
