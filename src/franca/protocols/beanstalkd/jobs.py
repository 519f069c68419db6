"""A beanstalkd job as the core sees it, and any job as beanstalkd's commands show it.

A buried job is a dead one, a delayed job a waiting one. What beanstalkd counts of a job beyond what
the core does is kept in the job's `extra`.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from franca.core.model import NEVER, Job, JobId, JobQuery, Millis, NewJob, Policy, State
from franca.protocols.beanstalkd.messages import Put
from franca.protocols.beanstalkd.wire import U32_MAX
from franca.protocols.bodies import BYTES, as_bytes

if TYPE_CHECKING:
    from franca.protocols.beanstalkd.conversation import BeanstalkdConversation

ORIGIN: Final = "beanstalkd"
URGENT_BELOW: Final = 1024
STATES: Final = {
    State.WAITING: "delayed",
    State.READY: "ready",
    State.LEASED: "reserved",
    State.DEAD: "buried",
}
_ID_MAX: Final = (1 << 63) - 1
"""No job has a larger id, and the store knows no larger numbers."""
_PACKING: Final = Packing(">III")
_POLICIES_KEPT: Final = 1_000


class Counts(NamedTuple):
    """What `stats-job` shows of a job and the core does not keep."""

    delay_s: int = 0
    releases: int = 0
    kicks: int = 0

    def packed(self) -> bytes:
        """As `extra`, which is empty for most jobs."""
        return _PACKING.pack(*(min(count, U32_MAX) for count in self)) if any(self) else b""


def counts_of(job: Job) -> Counts:
    """What is counted of a job; nothing of one that came by another protocol."""
    if job.origin != ORIGIN or len(job.extra) != _PACKING.size:
        return Counts()
    return Counts(*_PACKING.unpack(job.extra))


def counted(job: Job, counts: Counts) -> bytes | None:
    """The `extra` of a job with these counts; another protocol's is left alone."""
    return counts.packed() if job.origin == ORIGIN else None


@lru_cache(_POLICIES_KEPT)
def _policy(ttr_s: int) -> Policy:
    """A job is run until it is deleted, and buried jobs stay until they are kicked or deleted."""
    return Policy(lease_ms=1_000 * ttr_s, never_given_up=True, keeps_place=True, keep_dead=True)


def new_job(put: Put, tube: str, name: str, wall: Millis) -> NewJob:
    """The job that `put` describes. Other protocols call it by its id, which is its name."""
    run_at = wall + 1_000 * put.delay_s if put.delay_s else NEVER
    return NewJob(
        tube,
        tube,
        put.body,
        _policy(put.ttr_s or 1),
        name,
        media=BYTES,
        origin=ORIGIN,
        priority=put.priority,
        run_at=run_at,
        extra=Counts(put.delay_s).packed() if put.delay_s else b"",
    )


def body_of(job: Job) -> bytes:
    """What a worker is sent."""
    return job.body if job.media == BYTES else as_bytes(job.media, job.body)


def shown_priority(job: Job) -> int:
    """The priority of a job of any protocol, within what beanstalkd has numbers for."""
    return min(max(job.priority, 0), U32_MAX)


def stats(job: Job, now: Millis, wall: Millis) -> list[tuple[str, object]]:
    """What `stats-job` shows. Moments of waiting jobs are of the wall clock."""
    counts = counts_of(job)
    left_ms = 0
    if job.state is State.LEASED and job.until:
        left_ms = job.until - now
    elif job.state is State.WAITING:
        left_ms = job.run_at - wall
    return [
        ("id", job.id),
        ("tube", job.queue),
        ("state", STATES[job.state]),
        ("pri", shown_priority(job)),
        ("age", max(now - job.created_at, 0) // 1_000),
        ("delay", counts.delay_s),
        ("ttr", job.policy.lease_ms // 1_000),
        ("time-left", max(left_ms, 0) // 1_000),
        ("file", 0),
        ("reserves", job.attempts),
        ("timeouts", job.expiries),
        ("releases", counts.releases),
        ("buries", job.failures),
        ("kicks", counts.kicks),
    ]


def find(conversation: BeanstalkdConversation, job_id: JobId) -> Generator[Any, Any, Job | None]:
    """The job that has this id, wherever it lies, as part of a task; None if there is none."""
    job = conversation.broker.jobs.get(job_id)
    if job is None or job.away:
        jobs = (yield JobQuery(ids=(job_id,), limit=1)) if job_id <= _ID_MAX else []
        job = jobs[0] if jobs else None
    return job if job is not None and job.state in STATES else None
