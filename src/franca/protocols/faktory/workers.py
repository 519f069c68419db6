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


HOSTNAME_CHARS_MAX: Final = 255
LABELS_MAX: Final = 32
LABEL_CHARS_MAX: Final = 100
DESCRIPTIONS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Hostnames and labels of all workers together; those of further ones are not kept."""
QUEUES_SHOWN_MAX: Final = 100
_CHARACTER_BYTES: Final = 4
_LABEL_BYTES: Final = 80


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

    def described_in(self) -> int:
        """The bytes that its hostname and its labels take."""
        chars = len(self.hostname) + sum(map(len, self.labels))
        return _CHARACTER_BYTES * chars + _LABEL_BYTES * len(self.labels)


class Workers:
    """All workers that are known now. `reaped` counts those that fell silent."""

    def __init__(self) -> None:
        self.by_wid: dict[str, Worker] = {}
        self.reaped = 0
        self.described_in = 0

    def join(self, wid: str, hello: Hello, connection: Connection, now: Millis) -> Worker:
        """A connection says that it belongs to this worker; the first one describes it.

        What is too long of a description is cut: it is for operators to look at.
        """
        worker = self.by_wid.get(wid)
        if worker is None:
            worker = self.by_wid[wid] = Worker(
                wid=wid,
                hostname=(hello.hostname or "")[:HOSTNAME_CHARS_MAX],
                pid=hello.pid or 0,
                labels=[(label or "")[:LABEL_CHARS_MAX] for label in _few(hello.labels)],
                started_at=now,
                beat_at=now,
                rss_kb=hello.rss_kb or 0,
            )
            if self.described_in + worker.described_in() > DESCRIPTIONS_BYTES_MAX:
                worker.hostname, worker.labels = "", []
            self.described_in += worker.described_in()
        worker.connections[connection] = None
        return worker

    def leave(self, worker: Worker, connection: Connection) -> None:
        """A connection is gone; with the last one, so is the worker and what it was told."""
        worker.connections.pop(connection, None)
        if not worker.connections and self.by_wid.get(worker.wid) is worker:
            self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        del self.by_wid[worker.wid]
        self.described_in -= worker.described_in()

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
            self._forget(worker)
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
                queues=_queues_of(worker),
            )
            for worker in self.by_wid.values()
        ]


def _few(labels: list[str | None] | None) -> list[str | None]:
    return labels[:LABELS_MAX] if labels else []


def _queues_of(worker: Worker) -> list[str]:
    """The queues that a worker asks, as many as anybody looks at."""
    names: dict[str, None] = {}
    for connection in worker.connections:
        names.update(dict.fromkeys(connection.fetched_queues()[:QUEUES_SHOWN_MAX]))
        if len(names) >= QUEUES_SHOWN_MAX:
            break
    return sorted(names)[:QUEUES_SHOWN_MAX]
