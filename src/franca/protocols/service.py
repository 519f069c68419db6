"""What one protocol keeps for all its links, and what operators see of its workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from franca.core.model import NEVER, Job, JobId, Millis
from franca.protocols.conversation import Conversation, Link

RUNNING_SHOWN = 100
"""Jobs that are shown of one worker."""


class RunView(Struct):
    """A job that a worker runs, as operators see it."""

    id: JobId
    type: str
    queue: str
    started_at: Millis


class WorkerView(Struct, kw_only=True):
    """A worker as operators see it, whatever its protocol.

    `state` is as in `state_of`. `fetched_at` is when it last asked for a job, if it did.
    """

    name: str
    protocol: str
    host: str
    pid: int = 0
    labels: Sequence[str] = ()
    state: str
    started_at: Millis
    seen_at: Millis
    rss_kb: int = 0
    connections: int = 1
    queues: Sequence[str] = ()
    running: Sequence[RunView] = ()
    fetched_at: Millis = NEVER


def state_of(
    running: Sequence[RunView],
    *,
    stopping: bool = False,
    quiet: bool = False,
    stalled: bool = False,
) -> str:
    """What a worker is doing, as far as its protocol knows.

    It is `stopping` when it finishes what it runs and leaves, `quiet` when it takes no more jobs,
    `stalled` when a sign of life is overdue; else `busy` or `idle`.
    """
    if stopping:
        return "stopping"
    if quiet:
        return "quiet"
    if stalled:
        return "stalled"
    return "busy" if running else "idle"


def runs_of(jobs: Iterable[Job]) -> list[RunView]:
    """What is shown of the jobs that a worker runs: some, if there are many."""
    some = islice(jobs, RUNNING_SHOWN)
    return [RunView(job.id, job.kind, job.queue, job.started_at) for job in some]


class Service(ABC):
    """What one protocol keeps for all its links."""

    name: str
    file = ""
    """The path of a file that the service wants to have read to it, now and when it changes."""
    refusal = b""
    """What a peer is told when there are too many connections already."""
    stopping = False

    @abstractmethod
    def open(self, link: Link, now: Millis) -> Conversation:
        """Begin the dialogue on a new link; a greeting may be written at once."""

    def tick(self, now: Millis) -> None:
        """Called now and then, at least 50 ms apart, for what the protocol itself must time."""

    def extra_listeners(self) -> Mapping[str, Service]:
        """Further listeners of this protocol that share what it keeps, by their names."""
        return {}

    def take_file(self, content: bytes) -> str:
        """What `file` says now; returns a word about it. ValueError, and all stays as it was."""
        return ""

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """The workers that this protocol knows of now; who is overdue is known at a time only.

        Each view is made when it is asked for: of many workers, a few in one turn.
        """
        return iter(())

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet` or to `stop`; False if it is not one of this protocol's."""
        return False

    def over_http(self, path: str, now: Millis) -> Sequence[bytes] | None:
        """What the original server answers over HTTP at this path, for monitors, in pieces.

        None if that is nothing. If there are no pieces, they come when it is asked again next turn.
        """
        return None

    def drain(self) -> None:
        """SIGUSR1: take no new jobs any more, where the protocol has a word for it."""

    def stop(self, now: Millis) -> None:
        """The server is about to stop. Conversations are told one by one after this."""
        self.stopping = True

    def consumers(self) -> int:
        """How many links still belong to workers that were asked to leave."""
        return 0


class Listener(Service):
    """A further listener of a protocol, whose service keeps everything for it."""

    def __init__(self, name: str, begin: Callable[[Link, Millis], Conversation]) -> None:
        self.name = name
        self._begin = begin

    def open(self, link: Link, now: Millis) -> Conversation:
        """Begin the dialogue on a new link."""
        return self._begin(link, now)
