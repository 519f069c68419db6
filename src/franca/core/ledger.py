"""The ledger: which jobs are in memory, what each is called, and what the store must be told.

It keeps one promise: what `drain` hands over, applied to a store in order, makes the store say
what memory says. It decides nothing about jobs; the broker, built on it, does. (A base class
and not a part of the broker, because every verb touches it several times.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from franca.core.changes import Changes, QueueSetting, Totals
from franca.core.errors import TooMuch
from franca.core.idle import IdleQueues
from franca.core.keys import Keys
from franca.core.known import Known
from franca.core.limits import Limits
from franca.core.locks import Locks
from franca.core.model import (
    Attempt,
    Failure,
    Job,
    JobId,
    Millis,
    NewJob,
    QueueCount,
    Schedule,
    Session,
    Shelf,
    State,
    bare_weight,
    story_bytes,
)
from franca.core.namesakes import LOOKED_AT, Namesakes
from franca.core.ready import Queue, Windows, queue_bytes
from franca.core.waiting import Waiting

WAITING = State.WAITING
READY = State.READY
LEASED = State.LEASED
DEAD = State.DEAD
HELD = Shelf.HELD
TAIL = Shelf.TAIL
NOWHERE = Shelf.NOWHERE
AMPLE_BYTES = 1 << 62
QUEUES_OWN = 4
"""The part of what queues may take that is theirs, however many keys there are."""
TOO_MANY_QUEUES = "there are too many queues; try again when some are empty"


class Ledger:
    """All jobs in memory, by id, name and key; queues and their windows; what has changed."""

    __slots__ = (
        "_by_name",
        "_dirty",
        "_emptied",
        "_ended",
        "_flushed",
        "_gone",
        "_recent",
        "_schedules_changed",
        "_settings",
        "_shared",
        "_spared",
        "_watchers",
        "idle",
        "jobs",
        "keys",
        "keys_most",
        "limits",
        "locks",
        "pending_bytes",
        "queues",
        "queues_bytes",
        "queues_most",
        "room_bytes",
        "totals",
        "waiting",
        "watches",
        "windows",
    )

    def __init__(self, limits: Limits, totals: Totals) -> None:
        self.limits = limits
        self.totals = totals
        self.jobs: dict[JobId, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.queues_bytes = 0
        self.queues_most = limits.queues_bytes
        self.keys_most = limits.keyed_bytes
        self.watches = 0
        self.windows = Windows()
        self.idle = IdleQueues()
        self.waiting = Waiting()
        self.pending_bytes = 0
        self.room_bytes = AMPLE_BYTES
        self._by_name: dict[str, Job | Namesakes] = {}
        self._shared: dict[str, Namesakes] = {}
        self.keys = Keys()
        self.locks = Locks()
        self._watchers: dict[JobId, dict[Session, int]] = {}
        self._recent: OrderedDict[str, Known] = OrderedDict()
        self._dirty: dict[JobId, Job] = {}
        self._ended: list[Job] = []
        self._gone: list[Job] = []
        self._flushed = False
        self._emptied: list[str] = []
        self._spared: list[JobId] = []
        self._settings: dict[str, QueueSetting | None] = {}
        self._schedules_changed: dict[str, Schedule | None] = {}

    # -- lookups --------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue of that name, made if it is new."""
        queue = self.queues.get(name) or self._new_queue(name)
        if not queue.listed:
            queue.listed = True
            self._settings[name] = QueueSetting(name, queue.paused)
            self.idle.add(queue)
        return queue

    def list_queue(self, *names: str) -> None:
        """Have queues of these names listed: all, or none and `TooMuch` if there are too many."""
        self._check_no_new(names)
        for name in names:
            self.queue(name)

    def _new_queue(self, name: str) -> Queue:
        queue = self.queues[name] = Queue(name, self.windows)
        self.queues_bytes += queue_bytes(name)
        return queue

    def _check_no_new(self, names: Iterable[str]) -> None:
        """Refuse names of queues that there are not yet, while there are too many."""
        if self.queues_bytes >= self.queues_most:
            for name in names:
                if name not in self.queues:
                    raise TooMuch(TOO_MANY_QUEUES)

    def _share_names(self) -> None:
        """Queues beyond a quarter of what they may take share the room of keys with these."""
        limits = self.limits
        own = limits.queues_bytes // QUEUES_OWN
        self.queues_most = min(
            own + max(limits.keyed_bytes - self.keys.bytes, 0), limits.queues_bytes
        )
        self.keys_most = limits.keyed_bytes - max(self.queues_bytes - own, 0)

    def next_id(self) -> JobId:
        """The id of the next new job: its submitter may put it into the job's name."""
        return self.totals.last_job_id + 1

    def sole(self, name: str) -> Job | None:
        """The one job in memory that goes by this public name; None if none or several do."""
        found = self._by_name.get(name)
        return None if isinstance(found, Namesakes) else found

    def named(self, name: str) -> list[Job]:
        """Every job in memory that goes by this public name, oldest first. They may be many."""
        return list(self.all_named(name))

    def all_named(self, name: str) -> Iterable[Job]:
        """The same, to be looked at before anything changes."""
        found = self._by_name.get(name)
        if found is None:
            return ()
        return found.jobs.values() if isinstance(found, Namesakes) else (found,)

    def ids_named(self, name: str) -> list[JobId]:
        """Their ids, which are quickly taken however many they are."""
        found = self._by_name.get(name)
        if found is None:
            return []
        return list(found.jobs) if isinstance(found, Namesakes) else [found.id]

    def first_named(self, name: str) -> Iterator[Job]:
        """The same, as many as are looked at."""
        found = self._by_name.get(name)
        if isinstance(found, Namesakes):
            return islice(found.jobs.values(), LOOKED_AT)
        return iter(() if found is None else (found,))

    def last_named(self, name: str) -> Iterator[Job]:
        """The last jobs in memory that go by this public name, newest first."""
        found = self._by_name.get(name)
        if isinstance(found, Namesakes):
            return found.newest()
        return iter(() if found is None else (found,))

    def held_as(self, name: str, holder: str) -> Iterator[Job]:
        """Jobs of this public name that `holder` runs."""
        found = self._by_name.get(name)
        if isinstance(found, Namesakes):
            return found.held_by(holder)
        is_held = found is not None and found.state is LEASED and found.holder == holder
        return iter((found,) if found is not None and is_held else ())

    def running_as(self, name: str) -> Iterator[Job]:
        """Jobs of this public name that anybody runs, as many as are looked at."""
        found = self._by_name.get(name)
        if isinstance(found, Namesakes):
            return found.running()
        return iter((found,) if found is not None and found.state is LEASED else ())

    def returned_as(self, name: str) -> Iterator[Job]:
        """Jobs of this public name that will be run once more, as many as are looked at."""
        found = self._by_name.get(name)
        if isinstance(found, Namesakes):
            return found.returned()
        will_run = found is not None and found.state is not LEASED and found.attempts > 0
        return iter((found,) if found is not None and will_run else ())

    def keyed(self, queue: str, key: str) -> Job | Known | None:
        """The live job of this queue that has this key, or what is known of it in the tail."""
        return self.keys.get(queue, key)

    def counts(self) -> list[QueueCount]:
        """How many jobs each queue has, by where they are."""
        return [
            QueueCount(q.name, q.scheduled, q.retrying, q.ready, q.leased, q.dead)
            for q in self.queues.values()
            if q.listed
        ]

    # -- a job's way through memory ---------------------------------------------------------

    def _make(self, new: NewJob, job_id: JobId, now: Millis) -> Job:
        job = Job(
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
        if new.failures:
            job.failures = new.failures
        # As `bare_weight`, without a call: every job comes here.
        job.weight = len(new.body) + len(new.extra) + len(new.name) + len(new.kind) + len(new.key)
        return job

    def _hold(self, job: Job) -> None:
        """Keep a job in memory and find it by id, name and key."""
        self.jobs[job.id] = job
        name = job.name
        if name:
            other = self._by_name.setdefault(name, job)
            if other is not job:
                if isinstance(other, Namesakes):
                    other.add(job)
                else:
                    self._by_name[name] = self._shared[name] = Namesakes(other, job)
        if job.key:
            self.keys.put(job)

    def _forget(self, job: Job) -> None:
        """Let a job go from memory; the store keeps what it was told."""
        if self.jobs.pop(job.id, None) is None:
            return
        name = job.name
        if name:
            found = self._by_name.pop(name, None)
            if found is not job and found is not None:
                if isinstance(found, Namesakes):
                    found.discard(job)
                    if len(found.jobs) == 1:
                        del self._shared[name]
                        [found] = found.jobs.values()
                self._by_name[name] = found
        if job.key:
            self.keys.drop(job)

    def _runs_no_more(self, job: Job) -> None:
        """Let a run that is over not be found by its name."""
        if job.name in self._shared:
            self._shared[job.name].unlease(job)

    def _touch(self, job: Job) -> None:
        """The store must hear of this job's new state."""
        if job.policy.durable:
            self._dirty[job.id] = job

    def _note_attempt(self, job: Job, how: str, failure: Failure, now: Millis) -> None:
        """A run is over: the last few are remembered with the job, the newest with its trace."""
        story = job.story
        if story is None:
            story = job.story = []
        elif story:
            story[-1].trace = []
            del story[: max(0, len(story) - self.limits.story_attempts + 1)]
        story.append(
            Attempt(job.holder, job.started_at, now, how, failure.kind, failure.text, failure.trace)
        )
        while (size := story_bytes(story)) > self.limits.story_bytes and len(story) > 1:
            del story[0]
        job.weight = bare_weight(job) + size
        if job.policy.durable:
            self.pending_bytes += size

    # -- what the store is told -------------------------------------------------------------

    @property
    def pending_jobs(self) -> int:
        """How many jobs have changed since the last drain."""
        return len(self._dirty)

    def is_behind(self, times: int = 1) -> bool:
        """Whether more waits for the disk than may, or so many times as much."""
        limits = self.limits
        return (
            self.pending_bytes > times * limits.pending_bytes
            or len(self._dirty) > times * limits.pending_jobs
        )

    def has_changes(self) -> bool:
        """Whether `drain` would hand over anything."""
        return bool(
            self._dirty
            or self._settings
            or self._schedules_changed
            or self._flushed
            or self._emptied
            or self._gone
            or self._ended
        )

    def drain(self) -> Changes:
        """Everything that changed since the last drain, collapsed; it must be committed."""
        changes = Changes(
            flushed=self._flushed,
            emptied_tails=self._emptied,
            spared=self._spared,
            gone_held=self._gone,
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
        if self._settings or self._schedules_changed:
            self._drain_rules(changes)
        self._dirty = {}
        self._ended = []
        self._gone = []
        self._flushed = False
        self._emptied = []
        self._spared = []
        # What is new needs room twice, in the log and in the file.
        self.room_bytes -= 2 * self.pending_bytes
        self.pending_bytes = 0
        return changes

    def _drain_rules(self, changes: Changes) -> None:
        """Queues and schedules, which seldom change."""
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
        self._settings = {}
        self._schedules_changed = {}
