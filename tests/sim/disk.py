"""The reference store: plain dictionaries of copies, told exactly what a real store is told.

It keeps no object of the broker's, so that nothing the broker does later can leak into it: jobs go
through the rows of the real stores (`franca/store/rows.py`), of which a change writes only the
columns that may change. And it believes nothing: a row that is added must be new, one that is
changed or goes must be there. A group is written, can be read behind, and is then committed or, in a
crash, undone.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.changes import Changes, QueueSetting, Totals
from franca.core.model import Job, JobId, JobQuery, Schedule, Shelf, State
from franca.core.stubs import needs_stub, stub_of
from franca.core.wants import Recall, Snapshot, SupplyReady, SupplyWaiting, Want
from franca.store.memory import backlog_counts
from franca.store.port import Store, fits, order_of
from franca.store.rows import COLUMN_COUNT, Row, body_row, job_of, life_values, row_of

HELD, BACKLOG = Shelf.HELD, Shelf.BACKLOG
READY, WAITING, LEASED, DEAD = State.READY, State.WAITING, State.LEASED, State.DEAD
# A lease may end earlier in memory than in its row: a restart cuts it. The others are memory's alone.
UNCOMPARED = {"until", "timed", "shelf", "away", "weight", "reported"}
KEPT = ("rows", "_columns", "settings", "schedules", "totals", "settled")
FIELDS = [name for name in Job.__struct_fields__ if name not in UNCOMPARED]


class Disk:
    """Rows on two shelves, settings, schedules and counts, as of the last write."""

    def __init__(self, large_body_bytes: int = 2_048) -> None:
        self.large_body_bytes = large_body_bytes
        self.rows: dict[JobId, Job] = {}
        self._columns: dict[JobId, tuple[Row, Shelf]] = {}
        self.settings: dict[str, QueueSetting] = {}
        self.schedules: dict[str, Schedule] = {}
        self.totals = Totals()
        self.settled: set[str] = set()
        self._before: dict[str, Any] = {}

    # -- what a store does ------------------------------------------------------------------

    def write(self, changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        """Take a group in, and answer what is wanted as it is behind that group."""
        self._before = {name: copy(getattr(self, name)) for name in KEPT}
        if changes.flushed:
            self._settle(self.rows.values())
            self.rows, self.settings, self.schedules = {}, {}, {}
        for queue in changes.emptied_backlogs:
            ready = [j for j in self._on(BACKLOG) if j.queue == queue and j.state is READY]
            emptied = [job for job in ready if job.id not in changes.spared]
            self._settle(emptied)
            for job in emptied:
                del self.rows[job.id]
        for job in changes.added:
            assert job.id not in self.rows, f"job {job.id} is added twice"
            self._put(job, row_of(job))
        for jobs, stay in ((changes.updated, True), (changes.moved, False)):
            for job in jobs:
                there = self.rows[job.id].shelf is job.shelf
                assert there is stay, f"job {job.id} was on the wrong shelf"
                self._put_again(job)
        for shelf, gone in ((HELD, changes.gone_from_memory), (BACKLOG, changes.gone_from_backlog)):
            for job in gone:
                assert self.rows[job.id].shelf is shelf, f"job {job.id} goes from the wrong shelf"
                del self.rows[job.id]
        self._settle([*changes.gone_from_memory, *changes.gone_from_backlog, *changes.ended])
        self.settings.update((setting.queue, setting) for setting in changes.queues_saved)
        self.schedules.update((s.id, replace(s)) for s in changes.schedules_saved)
        for name in changes.queues_gone:
            self.settings.pop(name, None)
        for schedule_id in changes.schedules_gone:
            self.schedules.pop(schedule_id, None)
        self.totals = copy(changes.totals)
        return [self._answer(want) for want in wants]

    def commit(self) -> None:
        """What was written is durable."""
        self._before = {}

    def revert(self) -> None:
        """Forget the last group: the server died before it was durable."""
        vars(self).update(self._before)

    def snapshot(self) -> Snapshot:
        """What a broker must remember at birth."""
        tail = list(self._on(BACKLOG))
        waiting = [(job.run_at, job.id) for job in tail if job.state is WAITING]
        return Snapshot(
            totals=copy(self.totals),
            held=[self._light(job) for job in self._on(HELD)],
            backlog=backlog_counts(tail),
            first_waiting=min(waiting, default=None),
            queues=[self.settings[name] for name in sorted(self.settings)],
            schedules=[replace(schedule) for schedule in self.schedules.values()],
            known=[stub_of(job) for job in tail if needs_stub(job)],
        )

    open = snapshot

    def find(self, query: JobQuery) -> list[Job]:
        """Rows that fit, as the store's search would find them."""
        found = sorted((j for j in self.rows.values() if fits(j, query)), key=order_of(query))
        return [self._read(job.id) for job in found[: query.limit]]

    def _put(self, job: Job, row: Row) -> None:
        """Have a row and its body, and the job that they stand for."""
        self._columns[job.id] = (*row, *body_row(job)[1:]), job.shelf
        self.rows[job.id] = self._read(job.id)

    def _read(self, job_id: JobId) -> Job:
        row, shelf = self._columns[job_id]
        return job_of(row, {}, shelf)

    def _put_again(self, job: Job) -> None:
        """Write what may have changed; a body that is away stays as it was written."""
        if job.away:
            assert not job.body, f"job {job.id} is away and has a body"
            job = replace(job, body=self.rows[job.id].body, away=False)
        columns, _ = self._columns[job.id]
        life = life_values(job)
        self._put(job, (*columns[: COLUMN_COUNT - len(life)], *life))

    def _light(self, job: Job) -> Job:
        """The job of a row without a large body, unless it is ready to be given to somebody."""
        light = self._read(job.id)
        if job.state is not READY and len(job.body) > self.large_body_bytes:
            light.body, light.away = b"", True
        return light

    def _answer(self, want: Want) -> list[Job]:
        if isinstance(want, Recall):
            return self.find(want.query)
        rows = [(_place(job), job) for job in self._on(BACKLOG) if job.state is _WANTED[type(want)]]
        if isinstance(want, SupplyReady):
            rows = [(place, job) for place, job in rows if job.queue == want.queue]
        behind = sorted((place, job.id) for place, job in rows if place > want.mark)
        return [self._light(self.rows[job_id]) for _, job_id in behind[: want.limit]]

    def _on(self, shelf: Shelf) -> Iterable[Job]:
        return (job for job in self.rows.values() if job.shelf is shelf)

    def _settle(self, jobs: Iterable[Job]) -> None:
        """Names of jobs that have ended: what a producer was promised is kept."""
        self.settled.update(job.name for job in jobs)

    # -- what only a test asks ----------------------------------------------------------------

    def verify(self, broker: Broker) -> None:
        """Everything durable that is alive is here exactly once, as the broker knows it.

        Only right behind a write, while nothing has changed since.
        """
        assert not broker.has_changes(), "there is something that the disk was not told"
        durable = {job.id: job for job in broker.jobs.values() if job.policy.durable}
        for job in durable.values():
            row = self.rows[job.id]
            assert row.shelf is job.shelf, f"job {job.id} lies on {row.shelf}, not {job.shelf}"
            names = [name for name in FIELDS if not (job.away and name == "body")]
            wrong = [name for name in names if getattr(row, name) != getattr(job, name)]
            assert not (job.away and job.state is READY), f"job {job.id} is ready without a body"
            assert not wrong, f"job {job.id}: {wrong} differ"
            assert job.until <= row.until, f"job {job.id} is leased longer in memory"
        alone = [job for job in self.rows.values() if job.id not in durable]
        assert all(job.shelf is BACKLOG for job in alone), "a held row is not in memory"
        assert all(job.state is not LEASED for job in alone), "a lease is in the tail"
        for queue in broker.queues.values():
            mine = [job for job in alone if job.queue == queue.name]
            ready = [(j.priority, j.place) for j in mine if j.state is READY]
            assert len(ready) == queue.backlog, f"{queue.name}: {queue.backlog} in the tail"
            levels = Counter(priority for priority, _ in ready)
            assert levels == queue.backlog_levels, f"{queue.name}: {levels} in the tail"
            assert (queue.mark is None) == (not ready), f"{queue.name}: mark {queue.mark}"
            assert not ready or min(ready) > (queue.mark or min(ready)), f"{queue.name}: mark"
            assert sum(job.state is DEAD for job in mine) == queue.dead, f"{queue.name}: dead"
        waiting = [(job.run_at, job.id) for job in alone if job.state is WAITING]
        line = broker.waiting
        assert len(waiting) == line.backlog, f"{line.backlog} waiting in the tail"
        assert not waiting or min(waiting) > (line.mark or min(waiting)), "the waiting mark"
        assert {job.queue for job in alone} <= set(broker.queues), "a queue is forgotten"
        assert self.schedules.keys() == broker.schedules.by_id.keys(), "schedules differ"
        listed = {q.name: (q.paused, q.paused_until) for q in broker.queues.values() if q.listed}
        settings = {s.queue: (s.paused, s.until) for s in self.settings.values()}
        assert listed == settings, "settings differ"
        kept = sum(job.state is DEAD and job.policy.keep_dead for job in alone)
        assert kept == broker.backlog.kept_dead, f"{kept} dead jobs are kept, and miscounted"


def write_out(broker: Broker, disk: Disk | Store, now: int) -> None:
    """One group, from the broker to the disk, and what was wanted back into memory."""
    changes, wants = broker.drain(), broker.take_wants()
    for want, jobs in zip(wants, disk.write(changes, wants), strict=True):
        if isinstance(want, SupplyReady):
            broker.supplied_ready(want, jobs, now)
        elif isinstance(want, SupplyWaiting):
            broker.supplied_waiting(want, jobs)
        else:
            want.by.recalled(want.query, broker.backlog.wants.resolve(want.query, jobs), now)


def settle(broker: Broker, disk: Disk, now: int) -> None:
    """Write out until the broker wants nothing more and nothing has changed."""
    while broker.has_changes() or broker.wants:
        write_out(broker, disk, now)


_WANTED = {SupplyReady: READY, SupplyWaiting: WAITING}


def _place(job: Job) -> tuple[int, int]:
    """Where a job of the tail stands among those of its state."""
    return (job.priority, job.place) if job.state is READY else (job.run_at, job.id)
