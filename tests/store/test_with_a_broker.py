"""Whatever a broker does, every store holds what it was told: compared with a reference, row by row.

A broker with tiny windows does things in any order. What it drains goes to the reference store of
the simulation, to the store in memory and to SQLite; what it wants is answered by all three, and
must be the same. Now and then everything is opened again, after a stop or after a kill, and a new
broker goes on from there.
"""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.errors import NotUnique
from franca.core.limits import Limits
from franca.core.model import (
    Demand,
    Failure,
    Job,
    JobQuery,
    Millis,
    NewJob,
    OnConflict,
    OnHangUp,
    Policy,
    Schedule,
    Session,
    State,
)
from franca.core.wants import Recall, Snapshot, SupplyReady, SupplyWaiting, Want
from franca.store import group, sweep
from franca.store.memory import MemoryStore, backlog_counts
from franca.store.port import Bounds
from franca.store.rows import BODY_APART_BYTES
from franca.store.sqlite import SqliteStore
from tests.sim.disk import Disk
from tests.store.kit import LARGE, LIVE, all_fields, killed_and_copied, light_fields
from tests.support.queue_counts import QueueCount, queue_counts

LIMITS = Limits(
    window_jobs=3, window_bytes=3 * LARGE, supply_jobs=2, due_jobs=3, losses_max=3, dead_jobs=4, dead_ms=9_000,
    story_attempts=3, recent_names=3,
)  # fmt: skip
POLICIES = (
    Policy(),
    Policy(max_failures=2, delay_ms=100, lease_ms=1_000),
    Policy(max_failures=-1, max_losses=1, bury=False, loss_is_failure=True, delay_ms=3_000),
    Policy(durable=False, max_failures=1),
)

QUEUES = ("a", "b\0ü")
queues = st.sampled_from(QUEUES)


class Acting:
    """Does the same to every job that a recall brings."""

    def __init__(self, act: Callable[[Job, Millis], None]) -> None:
        self._act = act

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        for job in jobs:
            self._act(job, now)


class Stores(RuleBasedStateMachine):
    """One broker, three stores."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(
            tempfile.mkdtemp(prefix="franca-stores-", dir=memory if memory.is_dir() else None)
        )
        self.folders = itertools.count()
        self.now: Millis = 1_000_000
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(group, "DELETED_AT_ONCE", 1)
        self.patch.setattr(sweep, "SWEPT_ROWS", 2)
        self.disk = Disk()
        self.memory = MemoryStore(Bounds(10))
        self.sqlite = SqliteStore(str(self.folder / "store.db"), ended=Bounds(10))
        self.begin(self.sqlite.open())

    def begin(self, snapshot: Snapshot) -> None:
        """A new broker, with what the store says that the last one knew."""
        self.broker = Broker(LIMITS, Random(1))
        self.broker.restore_at(snapshot, self.now)
        self.keeper = self.broker.open_session("keeper", OnHangUp.KEEP, None)
        self.guest = self.open_guest()

    def open_guest(self) -> Session:
        return self.broker.open_session(f"guest-{next(self.folders)}", OnHangUp.RETURN, None)

    def teardown(self) -> None:
        try:
            self.sqlite.close()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    # -- what may happen ----------------------------------------------------------------------

    @rule(
        queue=queues, priority=st.sampled_from((0, 0, 0, -1, 2)), size=st.sampled_from((9, 9, 0, LARGE)),
        later=st.sampled_from((0, 0, 0, 0, 40, 2_000, 30_000)), policy=st.sampled_from((0, 1, 1, 2, 2, 3)),
        count=st.integers(1, 9),
    )  # fmt: skip
    def submit_many(
        self, queue: str, priority: int, size: int, later: int, policy: int, count: int
    ) -> None:
        for number in range(count):
            self.submit(f"n{number}", queue, priority, size, later, policy)

    @rule(
        key=st.sampled_from(("x", "y\0")), name=st.sampled_from(("", "n1", "n2")), queue=queues,
        later=st.sampled_from((0, 0, 40, 2_000)), replaces=st.booleans(), once=st.booleans(),
    )  # fmt: skip
    def submit_known(
        self, key: str, name: str, queue: str, later: int, replaces: bool, once: bool
    ) -> None:
        taken = self.broker.keys.get(queue, key)
        if replaces and isinstance(taken, Job) and taken.state is State.LEASED:
            return
        conflict = OnConflict.REPLACE if replaces else OnConflict.JOIN
        self.submit(name, queue, 0, 9, later, 1, key=key, on_conflict=conflict, once=once)

    def submit(
        self, name: str, queue: str, priority: int, size: int, later: int, policy: int, **more: Any
    ) -> None:
        new = NewJob(
            queue, "k", bytes(size), POLICIES[policy], name, priority=priority, digest=size
        )
        new.run_at = later and self.now + later
        self.broker.submit(replace(new, **more), self.now)

    @rule(
        order=st.sampled_from((QUEUES, QUEUES[1:], QUEUES[:1])),
        bound=st.booleans(),
        count=st.integers(1, 4),
    )
    def demand(self, order: tuple[str, ...], bound: bool, count: int) -> None:
        session = self.guest if bound else self.keeper
        for _ in range(count):
            self.broker.demand(Demand(session, order, until=self.now), self.now)

    @precondition(lambda self: any(job.state is State.LEASED for job in self.broker.jobs.values()))
    @rule(
        choice=st.integers(0, 99),
        how=st.sampled_from(("finish", "fail", "release", "later", "give back")),
    )
    def settle_one(self, choice: int, how: str) -> None:
        leased = [job for job in self.broker.jobs.values() if job.state is State.LEASED]
        job = leased[choice % len(leased)]
        broker, now = self.broker, self.now
        if how == "finish":
            broker.finish(job, job.holder, b"result", now)
        elif how == "fail":
            broker.fail(job, job.holder, Failure("E", "text", ["trace"]), now)
        elif how == "give back":
            broker.give_back(job, job.holder, now)
        else:
            broker.release(job, job.holder, now + 500 if how == "later" else 0, now)

    @rule(span=st.sampled_from((1, 60, 1_500, 40_000)))
    def time_passes(self, span: int) -> None:
        self.now += span
        self.broker.tick(self.now)

    @rule()
    def the_guest_hangs_up(self) -> None:
        self.broker.close_session(self.guest, self.now)
        self.guest = self.open_guest()

    @rule(queue=queues, word=st.sampled_from(("purge", "purge", "remove", "pause", "resume")))
    def steer(self, queue: str, word: str) -> None:
        if word == "pause":
            self.broker.pause(queue)
        elif word == "resume":
            self.broker.resume(queue, self.now)
        elif word == "remove":
            self.broker.remove_queues((queue,), self.now)
        else:
            self.broker.purge_queues((queue,), self.now)

    @rule(
        sure=st.integers(0, 9),
        name=st.sampled_from("st"),
        drop=st.booleans(),
        runs=st.sampled_from((-1, 2)),
    )
    def change_the_rest(self, sure: int, name: str, drop: bool, runs: int) -> None:
        if sure == 9:
            self.broker.flush(self.now)
        elif drop:
            self.broker.drop_schedule(name)
        else:
            new = NewJob("a", "k", b"scheduled", POLICIES[0])
            schedule = Schedule(name, new, every_ms=1_000, runs_left=runs)
            self.broker.put_schedule(schedule, self.now, fire_now=False)

    @rule(
        states=st.sampled_from(((State.DEAD,), (State.WAITING,), (State.READY,), LIVE)),
        how=st.sampled_from(("retry", "kill", "cancel")), limit=st.integers(1, 3), by_time=st.booleans(),
    )  # fmt: skip
    def operate(self, states: tuple[State, ...], how: str, limit: int, by_time: bool) -> None:
        verb: Callable[[Job, Millis], None] = getattr(self.broker, how)

        def act(job: Job, now: Millis) -> None:
            if how != "retry" or job.state in (State.WAITING, State.DEAD):
                with suppress(NotUnique):
                    verb(job, now)

        self.broker.recall(JobQuery(states=states, limit=limit, by_time=by_time), Acting(act))

    # -- what the stores say -------------------------------------------------------------------

    @rule()
    def write(self) -> None:
        """One group for all, and one answer from all."""
        broker = self.broker
        changes, wants = broker.drain(), broker.take_wants()
        answers = [store.write(changes, wants) for store in (self.disk, self.memory, self.sqlite)]
        self.sqlite.commit()
        expected, in_memory, found = (list(map(light_fields, answer)) for answer in answers)
        assert in_memory == expected
        assert found == [_looked_at(*pair) for pair in zip(wants, expected, strict=True)]
        self._supply(wants, answers[2])
        broker.events.clear()

    def _supply(self, wants: Sequence[Want], answers: list[list[Job]]) -> None:
        for want, jobs in zip(wants, answers, strict=True):
            if isinstance(want, SupplyReady):
                self.broker.supplied_ready(want, jobs, self.now)
            elif isinstance(want, SupplyWaiting):
                self.broker.supplied_waiting(want, jobs)
            else:
                page = self.broker.page_of(want, jobs)
                if page is not None:
                    want.by.recalled(want.query, page, self.now)

    @rule()
    def compare(self) -> None:
        """Once everything is written, the stores hold exactly what the broker knows."""
        self._settle()
        self.disk.verify(self.broker)
        everything = JobQuery(states=LIVE, limit=10_000)
        expected = all_fields(self.disk.find(everything))
        assert all_fields(self.sqlite.find(everything)) == expected
        assert all_fields(self.memory.find(everything)) == expected
        counts = {
            c.queue: QueueCount(c.queue, c.scheduled, c.retrying, c.ready, c.leased, c.dead)
            for c in backlog_counts(self.sqlite.find(everything))
        }
        empty = {c.queue for c in queue_counts(self.broker)} - counts.keys()
        if all(job.policy.durable for job in self.broker.jobs.values()):
            assert {c.queue: c for c in queue_counts(self.broker) if c.queue not in empty} == counts

    @rule(steps=st.integers(1, 9))
    def sweep(self, steps: int) -> None:
        """Some rows of what is gone are deleted."""
        for _ in range(steps):
            if self.sqlite.has_leftovers():
                self.sqlite.tidy()

    @rule()
    def compare_bodies(self) -> None:
        """Once nothing can wait any longer, no body is left of a job that is not there."""
        self._settle()
        while self.sqlite.has_leftovers():
            self.sqlite.tidy()
        found = {row[0] for row in self.sqlite._db.execute("SELECT id FROM bodies")}
        jobs = self.disk.find(JobQuery(states=LIVE, limit=10_000))
        assert found == {job.id for job in jobs if len(job.body) > BODY_APART_BYTES}

    def _settle(self) -> None:
        self.write()  # for the totals: a job that is not durable counts, and changes nothing else
        while self.broker.has_changes() or self.broker.wants:
            self.write()

    @rule(killed=st.booleans())
    def reopen(self, killed: bool) -> None:
        self.compare()
        if killed:
            heir = killed_and_copied(
                self.sqlite, self.folder / str(next(self.folders)), ended=Bounds(10)
            )
            self.sqlite.close()
        else:
            self.sqlite.close()
            heir = SqliteStore(self.sqlite.path, ended=Bounds(10))
        self.sqlite = heir
        found, expected = heir.open(), self.disk.snapshot()
        assert _shown(found) == _shown(expected)
        assert _shown(self.memory.open()) == _shown(expected)
        self.begin(found)


def _looked_at(want: Want, expected: dict[int, Any]) -> dict[int, Any]:
    """What a store finds that looked only up to some id."""
    if not isinstance(want, Recall) or not want.reached:
        return expected
    return {job_id: job for job_id, job in expected.items() if job_id <= want.reached}


def _shown(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot with everything in one order."""
    return {
        "totals": snapshot.totals,
        "held": light_fields(sorted(snapshot.held, key=lambda job: job.id)),
        "tail": sorted(snapshot.backlog, key=lambda count: count.queue),
        "first_waiting": snapshot.first_waiting,
        "queues": sorted(snapshot.queues, key=lambda setting: setting.queue),
        "schedules": sorted(snapshot.schedules, key=lambda schedule: schedule.id),
        "known": [
            known
            for known in sorted(snapshot.known, key=lambda known: known.id)
            if known.key or not known.attempts
        ],
    }


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=40,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
