"""A store that forgets: for those who want no disk, and for tests. Nothing survives a stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy

from msgspec.structs import replace

from franca.core.changes import Changes, QueueSetting, Totals
from franca.core.model import BacklogCount, Job, JobId, JobQuery, Schedule, Shelf, State
from franca.core.stubs import needs_stub, stub_of
from franca.core.wants import Recall, Snapshot, SupplyReady, SupplyWaiting, Want
from franca.store.port import Store, StoreError, count_timed, fits, order_of
from franca.store.rows import BODY_APART_BYTES

HELD = Shelf.HELD


class MemoryStore(Store):
    """Dictionaries in the server's own memory; jobs are the broker's own objects."""

    instant = True

    def __init__(self, ended_jobs: int = 10_000) -> None:
        self.held: dict[JobId, Job] = {}
        self.tail: dict[JobId, Job] = {}
        self.bodies: dict[JobId, bytes] = {}
        self.ended: deque[Job] = deque(maxlen=ended_jobs)
        self.queues: dict[str, QueueSetting] = {}
        self.schedules: dict[str, Schedule] = {}
        self.totals = Totals()

    def open(self) -> Snapshot:
        """An empty memory, or what this object was told before."""
        waiting = [(j.run_at, j.id) for j in self.tail.values() if j.state is State.WAITING]
        return Snapshot(
            totals=copy(self.totals),
            held=list(self.held.values()),
            backlog=backlog_counts(self.tail.values()),
            first_waiting=min(waiting, default=None),
            queues=list(self.queues.values()),
            schedules=list(self.schedules.values()),
            known=[stub_of(job) for job in self.tail.values() if needs_stub(job)],
        )

    def write(self, changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        """Take a group in; it is as durable as this store ever makes it."""
        if changes.flushed:
            for shelf in (self.held, self.tail, self.bodies, self.queues, self.schedules):
                shelf.clear()
            self.ended.clear()
        for queue in changes.emptied_backlogs:
            spared = set(changes.spared)
            for job in [j for j in self.tail.values() if j.queue == queue]:
                if job.state is State.READY and job.id not in spared:
                    del self.tail[job.id]
                    self.bodies.pop(job.id, None)
        held, tail = self.held, self.tail
        for job in changes.added:
            if len(job.body) > BODY_APART_BYTES:
                self.bodies[job.id] = job.body
        for job in changes.moved:
            (tail if job.shelf is HELD else held).pop(job.id, None)
        for jobs in (changes.moved, changes.added, changes.updated):
            for job in jobs:
                (held if job.shelf is HELD else tail)[job.id] = job
        for job in changes.gone_from_memory:
            held.pop(job.id, None)
        for job in changes.gone_from_backlog:
            tail.pop(job.id, None)
        if self.bodies:
            for job in (*changes.gone_from_memory, *changes.gone_from_backlog):
                self.bodies.pop(job.id, None)
        self.ended.extend(changes.ended)
        self.queues |= {setting.queue: setting for setting in changes.queues_saved}
        for name in changes.queues_gone:
            self.queues.pop(name, None)
        self.schedules |= {schedule.id: schedule for schedule in changes.schedules_saved}
        for schedule_id in changes.schedules_gone:
            self.schedules.pop(schedule_id, None)
        self.totals = changes.totals
        return [self._supply(want) for want in wants]

    def _supply(self, want: Want) -> list[Job]:
        if isinstance(want, Recall):
            return self._search(want.query, with_ended=False)
        found: list[tuple[tuple[int, int], Job]] = []
        for job in self.tail.values():
            if isinstance(want, SupplyReady):
                if job.state is State.READY and job.queue == want.queue:
                    found.append(((job.priority, job.place), job))
            elif isinstance(want, SupplyWaiting) and job.state is State.WAITING:
                found.append(((job.run_at, job.id), job))
        ordered = sorted((pair for pair in found if pair[0] > want.mark), key=lambda pair: pair[0])
        supplied: list[Job] = []
        left = want.bytes_max
        for _, job in ordered[: want.limit]:
            if left <= 0:
                break
            if isinstance(want, SupplyReady) and job.away:
                job.body, job.away = self.bodies[job.id], False
                job.weight += len(job.body)
            supplied.append(job)
            left -= job.weight
        return supplied

    def commit(self) -> None:
        """Nothing to wait for."""

    def find(self, query: JobQuery) -> list[Job]:
        """Everything that fits; in memory there is only one truth."""
        return self._search(query, with_ended=True)

    def _search(self, query: JobQuery, *, with_ended: bool) -> list[Job]:
        jobs = [*self.held.values(), *self.tail.values(), *(self.ended if with_ended else ())]
        found = sorted((job for job in jobs if fits(job, query)), key=order_of(query))
        return [self._whole(job) for job in found[: query.limit]]

    def _whole(self, job: Job) -> Job:
        return replace(job, body=self.bodies[job.id], away=False) if job.away else job

    def backup(self, path: str, spare_bytes: int = 0) -> None:
        """Refused: there is nothing that would survive in the first place."""
        raise StoreError("a store in memory cannot be backed up")

    def close(self) -> None:
        """Nothing to do."""


def backlog_counts(jobs: Iterable[Job]) -> list[BacklogCount]:
    """Count jobs by queue, and note the first ready one of each."""
    counts: dict[str, BacklogCount] = {}
    for job in jobs:
        count = counts.setdefault(job.queue, BacklogCount(job.queue))
        if job.state is State.READY:
            count.ready += 1
            count.levels[job.priority] = count.levels.get(job.priority, 0) + 1
            key = (job.priority, job.place)
            count.first = min(count.first, key) if count.first else key
        else:
            count_timed(count, job.state, job.failures > 0, job.policy.keep_dead)
    return list(counts.values())
