"""The ledger: which jobs are in memory, which in the tail, and what the store must be told.

It keeps one promise: what `drain` hands over, applied to a store in order, makes the store say
what memory says. It decides nothing about jobs; the broker, built on it, does. (A base class
and not a part of the broker, because every verb touches it several times.)
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from msgspec import Struct

from franca.core.changes import Changes, QueueSetting, Totals
from franca.core.limits import Limits
from franca.core.model import (
    Job,
    JobId,
    JobQuery,
    Millis,
    NewJob,
    QueueCount,
    Schedule,
    Session,
    Shelf,
    State,
    TailCount,
)
from franca.core.ready import Queue
from franca.core.waiting import Waiting

WAITING = State.WAITING
READY = State.READY
LEASED = State.LEASED
DEAD = State.DEAD
HELD = Shelf.HELD
TAIL = Shelf.TAIL
NOWHERE = Shelf.NOWHERE


NO_LIMIT = 1 << 60


class SupplyReady(Struct, frozen=True):
    """More ready jobs of this queue, those right behind `mark`, are wanted in memory.

    At most `limit`, and no further one once their bodies have `bytes_max` bytes.
    """

    queue: str
    mark: tuple[int, int]
    limit: int
    bytes_max: int = NO_LIMIT


class SupplyWaiting(Struct, frozen=True):
    """More waiting jobs, those right behind `mark`, are wanted in memory."""

    mark: tuple[Millis, int]
    limit: int
    bytes_max: int = NO_LIMIT


class Recaller(Protocol):
    """Whoever asks for jobs that may not be in memory."""

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Here they are; those in the tail are only visiting, to be changed now or let go."""


class Recall(Struct, frozen=True):
    """These jobs are wanted by `by`, wherever they lie."""

    query: JobQuery
    by: Recaller


Want = SupplyReady | SupplyWaiting | Recall


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


class Snapshot(Struct):
    """What a broker must remember at birth: everything held, and counts of the tail."""

    totals: Totals
    held: list[Job]
    tail: list[TailCount]
    first_waiting: tuple[Millis, int] | None
    queues: list[QueueSetting]
    schedules: list[Schedule]
    known: list[Known]


class Ledger:
    """All jobs in memory, by id, name and key; queues and their windows; what has changed."""

    __slots__ = (
        "_by_key",
        "_by_name",
        "_dirty",
        "_emptied",
        "_ended",
        "_flushed",
        "_recent",
        "_schedules_changed",
        "_settings",
        "_spared",
        "_watchers",
        "jobs",
        "limits",
        "pending_bytes",
        "queues",
        "totals",
        "waiting",
        "wants",
    )

    def __init__(self, limits: Limits, totals: Totals) -> None:
        self.limits = limits
        self.totals = totals
        self.jobs: dict[JobId, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.waiting = Waiting()
        self.wants: list[Want] = []
        self.pending_bytes = 0
        self._by_name: dict[str, Job | list[Job]] = {}
        self._by_key: dict[tuple[str, str], Job | Known] = {}
        self._watchers: dict[JobId, dict[Session, int]] = {}
        self._recent: OrderedDict[str, Known] = OrderedDict()
        self._dirty: dict[JobId, Job] = {}
        self._ended: list[Job] = []
        self._flushed = False
        self._emptied: list[str] = []
        self._spared: list[JobId] = []
        self._settings: dict[str, QueueSetting | None] = {}
        self._schedules_changed: dict[str, Schedule | None] = {}

    # -- birth ----------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what the store remembers. Only for a ledger that has seen nothing yet."""
        self.totals = snapshot.totals
        for setting in snapshot.queues:
            self.queue(setting.queue).paused = setting.paused
        self._settings.clear()  # the store knows them: it just told us
        for count in snapshot.tail:
            queue = self.queue(count.queue)
            queue.tail = count.ready
            queue.mark = (count.first[0], count.first[1] - 1) if count.first else None
            queue.scheduled += count.scheduled
            queue.retrying += count.retrying
            queue.dead += count.dead
            self.waiting.tail += count.scheduled + count.retrying
        if snapshot.first_waiting is not None:
            self.waiting.mark = (snapshot.first_waiting[0], snapshot.first_waiting[1] - 1)
            self._want_waiting()
        for known in snapshot.known:
            if known.state <= READY:
                self._know(known)

    # -- lookups --------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue of that name, made if it is new."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name)
        if not queue.listed:
            queue.listed = True
            self._settings[name] = QueueSetting(name, queue.paused)
        return queue

    def next_id(self) -> JobId:
        """The id of the next new job: its submitter may put it into the job's name."""
        return self.totals.last_job_id + 1

    def sole(self, name: str) -> Job | None:
        """The one job in memory that goes by this public name; None if none or several do."""
        found = self._by_name.get(name)
        return None if isinstance(found, list) else found

    def named(self, name: str) -> list[Job]:
        """Every job in memory that goes by this public name, oldest first."""
        found = self._by_name.get(name)
        if found is None:
            return []
        return found[:] if isinstance(found, list) else [found]

    def keyed(self, queue: str, key: str) -> Job | Known | None:
        """The live job of this queue that has this key, or what is known of it in the tail."""
        return self._by_key.get((queue, key))

    def counts(self) -> list[QueueCount]:
        """How many jobs each queue has, by where they are."""
        return [
            QueueCount(q.name, q.scheduled, q.retrying, q.ready, q.leased, q.dead)
            for q in self.queues.values()
            if q.listed
        ]

    # -- a job's way through memory ---------------------------------------------------------

    def _make(self, new: NewJob, job_id: JobId, now: Millis) -> Job:
        return Job(
            job_id,
            new.queue,
            new.kind,
            new.name,
            new.key,
            new.body,
            new.media,
            new.origin,
            new.policy,
            new.priority,
            new.created_at or now,
            new.extra,
            run_at=new.run_at,
            start_by=new.start_by,
            digest=new.digest,
        )

    def _hold(self, job: Job) -> None:
        """Keep a job in memory and find it by id, name and key."""
        self.jobs[job.id] = job
        name = job.name
        if name:
            other = self._by_name.setdefault(name, job)
            if other is not job:
                if isinstance(other, list):
                    if job not in other:
                        other.append(job)
                else:
                    self._by_name[name] = [other, job]
        if job.key:
            self._by_key[(job.queue, job.key)] = job

    def _forget(self, job: Job) -> None:
        """Let a job go from memory; the store keeps what it was told."""
        if self.jobs.pop(job.id, None) is None:
            return
        name = job.name
        if name:
            found = self._by_name.pop(name, None)
            if found is not job and found is not None:
                if isinstance(found, list):
                    found.remove(job)
                    if len(found) == 1:
                        found = found[0]
                self._by_name[name] = found
        if job.key and self._by_key.get((job.queue, job.key)) is job:
            del self._by_key[(job.queue, job.key)]

    def _touch(self, job: Job) -> None:
        """The store must hear of this job's new state."""
        if job.policy.durable:
            self._dirty[job.id] = job

    def _may_leave(self, job: Job) -> bool:
        """Whether a job may live in the store alone: not if it is not there, or is watched."""
        return job.policy.durable and job.id not in self._watchers

    def _to_tail(self, job: Job) -> None:
        """Let a job live in the store alone. Its queue's or the waiting count is the caller's."""
        self._forget(job)
        if job.shelf is not TAIL:
            self._touch(job)
        self._remember(job)

    def _remember(self, job: Job) -> None:
        if job.key or (job.name and not job.attempts):
            self._know(known_of(job))

    def _know(self, known: Known) -> None:
        if known.key:
            self._by_key[(known.queue, known.key)] = known
        if known.name and not known.attempts:
            self._recent[known.name] = known
            if len(self._recent) > self.limits.recent_names:
                self._recent.popitem(last=False)

    def _unknow(self, job: Job | Known) -> None:
        """A job has left the tail: what was remembered in its place is dropped."""
        known = self._recent.get(job.name)
        if known is not None and known.id == job.id:
            del self._recent[job.name]
        if job.key:
            taken = self._by_key.get((job.queue, job.key))
            if taken is not None and taken.id == job.id:
                del self._by_key[(job.queue, job.key)]

    # -- what the store is told, and what it is asked ---------------------------------------

    def has_changes(self) -> bool:
        """Whether `drain` would hand over anything."""
        return bool(
            self._dirty
            or self._settings
            or self._schedules_changed
            or self._flushed
            or self._emptied
            or self._ended
        )

    def drain(self) -> Changes:
        """Everything that changed since the last drain, collapsed; it must be committed."""
        changes = Changes(
            flushed=self._flushed,
            emptied_tails=self._emptied,
            spared=self._spared,
            ended=self._ended,
            totals=self.totals,
        )
        jobs = self.jobs
        added, updated = changes.added, changes.updated
        for job_id, job in self._dirty.items():
            had = job.shelf
            if job_id in jobs:
                want = HELD
            elif job.state <= LEASED or (job.state is DEAD and job.policy.bury):
                want = TAIL
            else:
                want = NOWHERE
            if want is had:
                if want is not NOWHERE:
                    updated.append(job)
                continue
            job.shelf = want
            if had is NOWHERE:
                added.append(job)
            elif want is not NOWHERE:
                changes.moved.append(job)
            elif had is HELD:
                changes.gone_held.append(job)
            else:
                changes.gone_tail.append(job)
        for name, setting in self._settings.items():
            if setting is None:
                changes.queues_gone.append(name)
            else:
                changes.queues_saved.append(setting)
        for schedule_id, schedule in self._schedules_changed.items():
            if schedule is None:
                changes.schedules_gone.append(schedule_id)
            else:
                changes.schedules_saved.append(schedule)
        self._dirty = {}
        self._ended = []
        self._flushed = False
        self._emptied = []
        self._spared = []
        self._settings = {}
        self._schedules_changed = {}
        self.pending_bytes = 0
        return changes

    def take_wants(self) -> list[Want]:
        """What memory would like from the store, to be read behind the writes of this drain.

        The answers must be handed in before anything else happens to memory. At most one
        recall at a time: what is done with its jobs must be written before the next one reads.
        """
        recalls = [want for want in self.wants if isinstance(want, Recall)]
        wants = [want for want in self.wants if not isinstance(want, Recall)]
        self.wants = list(recalls[1:])
        return wants + recalls[:1]

    def recall(self, query: JobQuery, by: Recaller) -> None:
        """Ask the store for jobs; `by` is handed them in a later turn."""
        self.wants.append(Recall(query, by))

    def resolve(self, query: JobQuery, found: list[Job]) -> list[Job]:
        """Jobs that the store found, those in memory in place of their rows if still fitting."""
        jobs = [self.jobs.get(job.id) or self._dirty.get(job.id, job) for job in found]
        return [job for job in jobs if not query.states or job.state in query.states]

    def _want_ready(self, queue: Queue) -> None:
        if queue.tail and not queue.supplying and queue.mark is not None:
            queue.supplying = True
            limits = self.limits
            self.wants.append(
                SupplyReady(queue.name, queue.mark, limits.supply_jobs, limits.supply_bytes)
            )

    def _want_waiting(self) -> None:
        waiting = self.waiting
        if waiting.tail and not waiting.supplying and waiting.mark is not None:
            waiting.supplying = True
            limits = self.limits
            self.wants.append(SupplyWaiting(waiting.mark, limits.supply_jobs, limits.supply_bytes))


def is_known(job: Job) -> bool:
    """Whether a submit may mean this job of the tail: it has the key, or says the same again."""
    return job.state <= READY and bool(job.key or (job.name and not job.attempts))


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
    )
