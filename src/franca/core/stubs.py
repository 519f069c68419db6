"""What is remembered of a job that only the store has, and that a submit may name again."""

from __future__ import annotations

from operator import attrgetter

from msgspec import Struct

from franca.core.model import NEVER, Job, JobId, Millis, Policy, State

_BACKLOG_POLICY = Policy()


class Stub(Struct, gc=False):
    """What is remembered of a job in the backlog that a submit may name again."""

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


_fields_of = attrgetter(*Stub.__struct_fields__)


def needs_stub(job: Job) -> bool:
    """Whether a submit may mean this job of the backlog: it has the key, or says the same again."""
    return job.state <= State.READY and bool(job.key or (job.name and not job.attempts))


def stub_of(job: Job) -> Stub:
    """What is remembered of a job in the backlog."""
    return Stub(*_fields_of(job))


def unseen(known: Stub) -> Job:
    """What can be said of a job in the backlog that ends without being looked at."""
    names = (known.queue, known.kind, known.name, known.key)
    job = Job(known.id, *names, b"", "", "", _BACKLOG_POLICY, 0, NEVER)
    job.state = State.CANCELLED
    return job
