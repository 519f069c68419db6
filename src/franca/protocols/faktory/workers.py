"""Worker processes by their `wid`: their heartbeats, and which are to be quiet or to leave.

A worker is known from its first HELLO until its last connection closes or a minute without a
BEAT is over. Its state only moves on: running, quiet, terminate; it holds for every connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from franca.core.model import NEVER, Job, JobId, Millis
from franca.protocols.faktory.messages import Beat, Hello
from franca.protocols.service import WorkerView, runs_of, state_of

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation

ANONYMOUS: Final = "link "
"""What the holder's name of a connection without a `wid` begins with, in the store too. That of
another protocol, whose leases outlive their connections, has its name and a space before it."""
SILENCE_MS: Final = 60_000
"""A worker without a BEAT for so long is taken for gone, and its connections are closed."""
OVERDUE_MS: Final = 30_000
"""Workers beat every fifteen seconds; one that missed a BEAT is shown as stalled."""
_NONE: Final[Mapping[JobId, Job]] = {}
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


STATES: Final = {"quiet": WorkerState.QUIET, "terminate": WorkerState.TERMINATE}
ASKED: Final = {"quiet": WorkerState.QUIET, "stop": WorkerState.TERMINATE}


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
    connections: dict[FaktoryConversation, None] = field(default_factory=dict)

    def described_in(self) -> int:
        """The bytes that its hostname and its labels take."""
        chars = len(self.hostname) + sum(map(len, self.labels))
        return _CHARACTER_BYTES * chars + _LABEL_BYTES * len(self.labels)


class Workers:
    """All workers that are known now. `reaped` counts those whose heartbeats stopped.

    Once the server is `stopping`, every worker is asked to leave.
    """

    def __init__(self) -> None:
        self.stopping = False
        self.by_wid: dict[str, Worker] = {}
        self.reaped = 0
        self.described_in = 0

    def join(self, wid: str, hello: Hello, connection: FaktoryConversation, now: Millis) -> Worker:
        """A connection says that it belongs to this worker; the first one describes it.

        A description that is too long is cut: it is only shown to operators.
        """
        worker = self.by_wid.get(wid)
        if worker is None:
            labels = hello.labels or []
            worker = self.by_wid[wid] = Worker(
                wid=wid,
                hostname=(hello.hostname or "")[:HOSTNAME_CHARS_MAX],
                pid=hello.pid or 0,
                labels=[(label or "")[:LABEL_CHARS_MAX] for label in labels[:LABELS_MAX]],
                started_at=now,
                beat_at=now,
                rss_kb=hello.rss_kb or 0,
            )
            if self.described_in + worker.described_in() > DESCRIPTIONS_BYTES_MAX:
                worker.hostname, worker.labels = "", []
            self.described_in += worker.described_in()
        worker.connections[connection] = None
        if self.stopping:
            self.move(worker, WorkerState.TERMINATE)
        return worker

    def leave(self, worker: Worker, connection: FaktoryConversation) -> None:
        """A connection is gone; with the last one, so are the worker and its state."""
        worker.connections.pop(connection, None)
        if not worker.connections and self.by_wid.get(worker.wid) is worker:
            self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        del self.by_wid[worker.wid]
        self.described_in -= worker.described_in()

    def beat(self, beat: Beat, now: Millis) -> Worker | None:
        """A heartbeat, which may tell a new state; None if there is no such worker."""
        worker = self.by_wid.get(beat.wid or "")
        if worker is None:
            return None
        worker.beat_at = now
        worker.rss_kb = beat.rss_kb or 0
        worker.works = True
        self.move(worker, STATES.get(beat.current_state or "", WorkerState.RUNNING))
        return worker

    def move(self, worker: Worker, state: WorkerState) -> None:
        """Ask a worker to be in this state, if it is not further already."""
        if state > worker.state:
            worker.state = state
            for connection in worker.connections:
                connection.fetching.stop_giving_jobs()

    def stop(self) -> None:
        """Ask every worker to leave, also those that come later."""
        self.stopping = True
        for worker in self.by_wid.values():
            self.move(worker, WorkerState.TERMINATE)

    def reap(self, now: Millis) -> None:
        """Close the connections of workers without heartbeats. Their leases go on."""
        silent = [w for w in self.by_wid.values() if now - w.beat_at > SILENCE_MS]
        for worker in silent:
            self._forget(worker)
            self.reaped += 1
            for connection in list(worker.connections):
                connection.drop(now)

    def consumers(self) -> int:
        """How many connections belong to workers that fetch or beat."""
        return sum(len(w.connections) for w in self.by_wid.values() if w.works)

    def views(
        self, protocol: str, jobs: Mapping[str, Mapping[JobId, Job]], now: Millis
    ) -> Iterator[WorkerView]:
        """The workers as operators see them, given what everybody runs."""
        return (
            WorkerView(
                name=worker.wid,
                protocol=protocol,
                host=worker.hostname,
                pid=worker.pid,
                labels=worker.labels,
                state=state_of(
                    running,
                    stopping=worker.state is WorkerState.TERMINATE,
                    quiet=worker.state is WorkerState.QUIET,
                    stalled=now - worker.beat_at > OVERDUE_MS,
                ),
                started_at=worker.started_at,
                seen_at=worker.beat_at,
                rss_kb=worker.rss_kb,
                connections=len(worker.connections),
                queues=_queues_of(worker),
                running=running,
                fetched_at=max(
                    (one.fetching.asked_at for one in worker.connections), default=NEVER
                ),
            )
            for worker in list(self.by_wid.values())
            for running in (runs_of(jobs.get(worker.wid, _NONE).values()),)
        )


def _queues_of(worker: Worker) -> list[str]:
    """The queues that a worker fetches from, as many as are shown."""
    names: dict[str, None] = {}
    for connection in worker.connections:
        names.update(dict.fromkeys(connection.fetching.queues()[:QUEUES_SHOWN_MAX]))
        if len(names) >= QUEUES_SHOWN_MAX:
            break
    return sorted(names)[:QUEUES_SHOWN_MAX]
