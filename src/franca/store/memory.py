"""A store that forgets: for those who want no disk, and for tests. Nothing survives a stop."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from operator import itemgetter

from msgspec.structs import replace

from franca.core.changes import IDEMPOTENCY_MS, Changes, IdempotencyKey, QueueSetting, Totals
from franca.core.history import HOUR_MS, Found, Past, Rates, RatesQuery, Search, Tallies
from franca.core.model import (
    NEVER,
    BacklogCount,
    Job,
    JobId,
    JobQuery,
    Millis,
    Schedule,
    Shelf,
    State,
)
from franca.core.stubs import needs_stub, stub_of
from franca.core.wants import Recall, Snapshot, SupplyReady, SupplyWaiting, Want
from franca.store import rates
from franca.store.criteria import Criteria, Key, order_of_search, put_together, read_cursor
from franca.store.ended import encode_notes, rows_of
from franca.store.port import KEPT, Bounds, Store, StoreError, count_timed, fits, order_of
from franca.store.rows import BODY_APART_BYTES
from franca.store.segments import Growing

HELD = Shelf.HELD
ENDED_JOBS = 10_000
ENDED_BYTES = 64 * 1024 * 1024
KEYS = 100_000
"""What is remembered of ended jobs, and how many idempotency keys, if no less is asked for."""


class MemoryStore(Store):
    """Dictionaries in the server's own memory; jobs are the broker's own objects."""

    instant = True

    def __init__(self, ended: Bounds = KEPT) -> None:
        self.held: dict[JobId, Job] = {}
        self.tail: dict[JobId, Job] = {}
        self.bodies: dict[JobId, bytes] = {}
        self.ended: deque[Job] = deque()
        self._kept = Bounds(
            min(ended.jobs, ENDED_JOBS), min(ended.bytes, ENDED_BYTES), ended.ms,
            min(ended.keys, KEYS),
        )  # fmt: skip
        self._ended_bytes = self._cancelled = 0
        self._slots: rates.Slots = {}
        self._latest: Millis = NEVER
        self._hour = 0
        self.queues: dict[str, QueueSetting] = {}
        self.schedules: dict[str, Schedule] = {}
        self.keys: dict[str, IdempotencyKey] = {}
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
            self.keys.clear()
            self.ended.clear()
            self._slots.clear()
            self._ended_bytes = self._cancelled = 0
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
        if changes.ended or changes.failed or changes.died:
            self._remember(changes)
        self.queues |= {setting.queue: setting for setting in changes.queues_saved}
        for name in changes.queues_gone:
            self.queues.pop(name, None)
        self.schedules |= {schedule.id: schedule for schedule in changes.schedules_saved}
        for schedule_id in changes.schedules_gone:
            self.schedules.pop(schedule_id, None)
        if changes.idempotency_keys:
            self._keep_keys(changes.idempotency_keys)
        self.totals = changes.totals
        return [self._supply(want) for want in wants]

    def _remember(self, changes: Changes) -> None:
        growing = Growing(1)
        if changes.ended:
            growing.add(rows_of(changes.ended), 0)
            self.ended.extend(changes.ended)
            self._ended_bytes += sum(map(_size_of, changes.ended))
        _, notes = encode_notes(changes.failed, changes.died)
        if notes:
            growing.add_notes(notes, 0)
        self._cancelled += growing.counted().cancelled
        self._latest = growing.max_at
        rates.fold(growing.happened, self._slots)
        self._forget_old()

    def _keep_keys(self, keys: Sequence[IdempotencyKey]) -> None:
        for key in keys:
            self.keys.pop(key.key, None)
            self.keys[key.key] = key
            oldest = next(iter(self.keys.values()))
            if len(self.keys) > self._kept.keys or oldest.at <= key.at - IDEMPOTENCY_MS:
                del self.keys[oldest.key]

    def _forget_old(self) -> None:
        kept, ended = self._kept, self.ended
        while ended and (
            len(ended) > kept.jobs
            or self._ended_bytes > kept.bytes
            or ended[0].ended_at < self._latest - kept.ms
        ):
            job = ended.popleft()
            self._ended_bytes -= _size_of(job)
            self._cancelled -= job.state is State.CANCELLED
        if self._latest // HOUR_MS != self._hour:
            self._hour = self._latest // HOUR_MS
            slots = self._slots.items()
            self._slots = {slot: of for slot, of in slots if not slot.is_old(self._latest)}

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

    def search(self, search: Search) -> Found:
        """The same, all at once."""
        order, criteria = order_of_search(search), Criteria.of_search(search)
        after = read_cursor(order, search.cursor)
        live = [*self.held.values(), *self.tail.values()] if criteria.wants_live() else []
        ended = [*self.ended] if criteria.wants_ended() else []
        entries: list[tuple[Key, Job]] = []
        found = Found([], looked_at=len(live) + len(ended), of=len(live) + len(ended))
        for job in criteria.among([*live, *ended]):
            key = order.of_live(job)
            if search.body_bytes < 0:
                job = self._whole(job)
            if key > after and (search.fits is None or search.fits(job)):
                entries.append((key, job))
        if not criteria.wants_live() and criteria.are_counted() and search.fits is None:
            found.total = len(criteria.among(ended))
        few = heapq.nsmallest(search.limit + 1, entries, key=itemgetter(0))
        copies = [(key, replace(self._whole(job))) for key, job in few]
        put_together(found, search, copies, [])
        return found

    def find_keys(self, keys: Sequence[str]) -> list[IdempotencyKey]:
        """Those that are remembered."""
        return [self.keys[key] for key in keys if key in self.keys]

    def past(self) -> Past:
        """What is remembered."""
        ended = self.ended
        done = len(ended) - self._cancelled
        oldest = ended[0].ended_at if ended else NEVER
        return Past(done, self._cancelled, self._ended_bytes, oldest)

    def note(self, at: Millis, queues: Tallies, kinds: Tallies) -> None:
        """Count it at once."""
        self._latest = at
        rates.fold_noted(at, {"queue": queues, "kind": kinds}, self._slots)

    def rates(self, query: RatesQuery) -> Rates:
        """What is remembered of some time."""
        return rates.answer(query, [*self._slots.items()])

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


def _size_of(job: Job) -> int:
    return job.weight + len(job.result)
