"""What is remembered of a job that only the store has, and that a submit may name again."""

from __future__ import annotations

from msgspec import Struct

from franca.core.model import NEVER, Job, JobId, Millis, Policy, State

_TAIL_POLICY = Policy()


class Known(Struct, gc=False):
    """What is remembered of a job in the tail that a submit may name again."""

    id: JobId
    queue: str
    kind: str
    digest: int
    run_at: Millis
    state: State
    name: str
    key: str
    attempts: int = 0
    failures: int = 0
    priority: int = 0


def is_known(job: Job) -> bool:
    """Whether a submit may mean this job of the tail: it has the key, or says the same again."""
    return job.state <= State.READY and bool(job.key or (job.name and not job.attempts))


def known_of(job: Job) -> Known:
    """What is remembered of a job in the tail."""
    return Known(
        job.id,
        job.queue,
        job.kind,
        job.digest,
        job.run_at,
        job.state,
        job.name,
        job.key,
        job.attempts,
        job.failures,
        job.priority,
    )


def unseen(known: Known) -> Job:
    """What can be said of a job in the tail that ends without being looked at."""
    names = (known.queue, known.kind, known.name, known.key)
    job = Job(known.id, *names, b"", "", "", _TAIL_POLICY, 0, NEVER)
    job.state = State.CANCELLED
    return job


class WaitedFor:
    """Jobs of the tail that somebody waits for. Ready ones are kept by their queues: of one queue
    they may all go at once, and they may be very many."""

    __slots__ = ("_others", "_ready")

    def __init__(self) -> None:
        self._ready: dict[str, dict[JobId, Known]] = {}
        self._others: dict[JobId, Known] = {}

    def add(self, known: Known) -> None:
        """Somebody waits for a job of the tail."""
        mine = self._others
        if known.state is State.READY:
            mine = self._ready.setdefault(known.queue, {})
        mine[known.id] = known

    def drop(self, job: Job | Known) -> None:
        """A job is in the tail no longer; nothing happens if nobody waits for it."""
        self._others.pop(job.id, None)
        mine = self._ready.get(job.queue)
        if mine is not None:
            mine.pop(job.id, None)
            if not mine:
                del self._ready[job.queue]

    def take_ready(self, queue: str) -> dict[JobId, Known]:
        """Forget the ready jobs of one queue; returns them."""
        return self._ready.pop(queue, {})

    def take_all(self) -> list[dict[JobId, Known]]:
        """Forget all of them; returns them."""
        taken = [*self._ready.values(), self._others]
        self._ready, self._others = {}, {}
        return taken
