"""What is gone is gone at once; its rows are deleted a little at a time, whatever happens meanwhile."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from franca.core.changes import QueueSetting
from franca.core.model import Job, NewJob, Policy, Schedule, Shelf, State
from franca.store import group, search, sweep
from franca.store.port import Bounds, StoreDamaged
from franca.store.sqlite import SqliteStore
from tests.store.kit import LARGE, StoreFixture, a_job, all_fields, copy, killed_and_copied, tailed
from tests.store.test_sqlite_room import FullAtCommit


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "DELETED_AT_ONCE", 3)
    monkeypatch.setattr(group, "FLUSHED_ROWS", 0)
    monkeypatch.setattr(group, "FLUSHED_BYTES", 0)
    monkeypatch.setattr(sweep, "SWEPT_ROWS", 4)


def rows_of(s: StoreFixture, table: str) -> int:
    [count] = s.sqlite._db.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert isinstance(count, int)
    return count


def killed_at_every_step(s: StoreFixture, folder: Path) -> Iterator[StoreFixture]:
    """What the next server finds if this one is killed before the sweep, and after each step of it."""
    for number in range(100):
        heir = killed_and_copied(s.sqlite, folder / f"heir-{number}")
        yield StoreFixture(heir, lambda store: store)
        heir.close()
        if not s.store.has_leftovers():
            return
        s.store.tidy()
    raise AssertionError("the sweep does not end")


STAYING = [
    tailed(101, state=State.WAITING, run_at=5),
    tailed(102, state=State.DEAD, run_at=7, body=b"b" * LARGE),
    tailed(103, queue="other", body=b"b" * LARGE),
    a_job(104, body=b"b" * LARGE),
]


def backlog(count: int = 30) -> list[Job]:
    return [tailed(n, body=b"b" * (LARGE * (n % 2)), key=f"k{n}") for n in range(1, count + 1)]


def test_an_emptied_tail_is_gone_before_its_rows_are_and_after_any_kill(
    s: StoreFixture, tmp_path: Path
) -> None:
    s.write(added=[*backlog(), *STAYING])
    s.write(emptied_backlogs=["q"], added=[tailed(200, place=1)])
    expected = all_fields([*STAYING, tailed(200, place=1)])
    assert rows_of(s, "tail") == 34
    for heir in killed_at_every_step(s, tmp_path):
        assert heir.live() == expected
        assert [job.id for job in heir.ready()] == [200]
        assert {c.queue: c.ready for c in heir.snapshot.backlog if c.ready} == {"q": 1, "other": 1}
        assert [known.id for known in heir.snapshot.known if known.key] == []
        assert heir.find(limit=99) == sorted(expected)
    assert rows_of(s, "tail") == 4
    assert rows_of(s, "bodies") == 3


def test_a_flush_is_durable_before_the_rows_are_gone_and_after_any_kill(
    s: StoreFixture, tmp_path: Path
) -> None:
    s.write(
        added=[*backlog(), *STAYING],
        ended=[a_job(99, state=State.DONE)],
        queues_saved=[QueueSetting("q", True)],
        schedules_saved=[Schedule("s", NewJob("q", "k", b"", Policy()))],
    )
    s.write(emptied_backlogs=["other"])
    new = [tailed(200), tailed(201, state=State.WAITING, run_at=3), a_job(202, body=b"b" * LARGE)]
    s.write(flushed=True, added=new)
    for heir in killed_at_every_step(s, tmp_path):
        assert heir.live() == all_fields(new)
        assert (heir.snapshot.queues, heir.snapshot.schedules) == ([], [])
        assert heir.find(limit=99) == [200, 201, 202]
        heir.write(flushed=True, added=[a_job(300)])
        assert list(heir.held()) == [300]
    tables = s.sqlite._db.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'dropped%'")
    assert tables.fetchall() == []


def schema_of(s: StoreFixture) -> list[str]:
    return [name for (name,) in s.sqlite._db.execute("SELECT name FROM sqlite_schema ORDER BY 1")]


def test_a_flush_of_few_jobs_deletes_them_and_leaves_the_schema_alone(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "FLUSHED_ROWS", 40)
    monkeypatch.setattr(group, "FLUSHED_BYTES", 40 * LARGE)
    before = schema_of(s)
    for number in range(3):
        s.write(
            added=[*backlog(), *STAYING],
            ended=[a_job(99, state=State.DONE)],
            queues_saved=[QueueSetting("q", True)],
            schedules_saved=[Schedule("s", NewJob("q", "k", b"", Policy()))],
        )
        s.write(emptied_backlogs=["other"])
        s.write(flushed=True, added=[a_job(200 + number)])
        assert s.find(limit=99) == [200 + number]
        assert not s.sqlite._sweeper.has_work()
        assert list(s.held()) == [200 + number]
        assert (s.snapshot.queues, s.snapshot.schedules) == ([], [])
        s.write(flushed=True)
    assert schema_of(s) == before
    assert rows_of(s, "bodies") == 0


@pytest.mark.parametrize("again", [False, True])
def test_only_large_tables_are_put_aside(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(group, "FLUSHED_ROWS", 20)
    monkeypatch.setattr(group, "FLUSHED_BYTES", 4 * LARGE)
    s.write(added=[*backlog(21), a_job(99, body=b"b" * LARGE)])
    if again:
        s.reopen()
    s.write(flushed=True)
    assert s.sqlite._books.dropped == ["dropped_1_tail", "dropped_1_bodies"]
    assert s.live() == {}


def test_tables_that_lie_aside_are_few_however_often_all_is_flushed(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEPT_ROWS", 2_000)
    before = len(schema_of(s))
    for number in range(1, 200, 2):
        s.write(added=[tailed(number, body=b"b" * LARGE), a_job(number + 1)])
        s.write(flushed=True)
        if s.store.wants_tidying():
            s.store.tidy()
        assert len(s.sqlite._books.dropped) <= sweep.TABLES_MAX + len(group.FLUSHED)
    s.sweep()
    assert len(schema_of(s)) == before
    assert s.live() == {}


def test_many_emptied_tails_are_swept_in_one_step(s: StoreFixture) -> None:
    names = [f"q{number}" for number in range(100)]
    s.write(added=[tailed(number + 1, queue=name) for number, name in enumerate(names[:3])])
    s.write(emptied_backlogs=names)
    s.store.tidy()
    assert (rows_of(s, "tail"), s.sqlite._books.emptied) == (0, {})
    s.write()
    assert s.sqlite._books.eras == {}


def steps_of_a_recall(s: StoreFixture, **query: Any) -> int:
    """How much SQLite does for it."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    s.sqlite._db.set_progress_handler(count, 1)
    s.recall(**query)
    s.sqlite._db.set_progress_handler(None, 0)
    return steps


def test_a_page_of_dead_jobs_costs_no_more_while_many_held_ones_are_gone(
    s: StoreFixture,
) -> None:
    held = [a_job(n) for n in range(1, 101)]
    dead = [tailed(n, state=State.DEAD, run_at=n) for n in range(201, 301)]
    s.write(added=[*held, *dead])
    query: dict[str, Any] = {"states": (State.DEAD,), "by_time": True, "limit": 2}
    before = steps_of_a_recall(s, **query)
    s.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in held])
    assert len(s.sqlite._books.gone) == 97
    assert steps_of_a_recall(s, **query) == before
    assert [job.id for job in s.recall(**query)] == [201, 202]


def test_waiting_jobs_by_time_are_found_behind_held_ones_that_are_gone(s: StoreFixture) -> None:
    held = [a_job(n, state=State.WAITING, run_at=n) for n in range(1, 31)]
    s.write(added=[*held, tailed(99, state=State.WAITING, run_at=27)])
    s.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in held[:25]])
    query: dict[str, Any] = {"states": (State.WAITING,), "by_time": True}
    assert [job.id for job in s.recall(**query, limit=3)] == [26, 27, 99]
    assert s.find(**query, limit=99) == [26, 27, 99, 28, 29, 30]


def test_many_held_jobs_are_gone_at_once_and_their_rows_later(
    s: StoreFixture, tmp_path: Path
) -> None:
    jobs = [a_job(n, body=b"b" * (LARGE * (n % 2))) for n in range(1, 21)]
    s.write(added=[*jobs, *STAYING])
    s.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in jobs])
    assert rows_of(s, "jobs") == 18
    for heir in killed_at_every_step(s, tmp_path):
        assert list(heir.held()) == [104]
        assert heir.find(limit=99) == [101, 102, 103, 104]
    assert rows_of(s, "jobs") == 1
    assert rows_of(s, "gone") == 0


def test_jobs_that_come_back_to_their_old_place_are_not_swept(s: StoreFixture) -> None:
    """A lease that was held through the purge and then returned."""
    jobs = backlog(12)
    s.write(added=jobs)
    leased = copy(jobs[4], shelf=Shelf.HELD, state=State.LEASED, holder="w")
    s.write(moved=[leased])
    s.write(emptied_backlogs=["q"])
    back = copy(leased, shelf=Shelf.BACKLOG, state=State.READY, holder="")
    s.write(moved=[back])
    s.sweep()
    assert all_fields(s.ready()) == all_fields([back])
    s.write(emptied_backlogs=["q"])
    assert s.ready() == []
    s.sweep()
    s.write(added=[tailed(99)])
    assert s.sqlite._books.eras == {}, "a queue without rows begins again"
    s.reopen()
    assert [job.id for job in s.ready()] == [99]


def test_a_step_is_small_however_large_the_bodies(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEPT_BYTES", 2 * LARGE)
    monkeypatch.setattr(sweep, "SWEPT_ROWS", 100)
    s.write(added=[tailed(n, body=b"b" * LARGE) for n in range(1, 11)])
    s.write(emptied_backlogs=["q"])
    s.store.tidy()
    assert rows_of(s, "tail") == 8
    s.write(flushed=True)
    left = [rows_of(s, "dropped_1_bodies")]
    while "dropped_1_bodies" in s.sqlite._books.dropped:
        left.append(rows_of(s, "dropped_1_bodies"))
        s.store.tidy()
    assert left == [8, 8, 6, 4, 2, 0]


def test_a_sweep_without_room_changes_nothing_and_is_tried_again(s: StoreFixture) -> None:
    s.write(added=[*backlog(), *STAYING])
    s.write(emptied_backlogs=["q"])
    db = s.sqlite._db
    full: Any = FullAtCommit(db, 3)
    s.sqlite._sweeper._db = full
    for _ in range(3):
        s.store.tidy()
    assert rows_of(s, "tail") == 33
    s.sweep()
    assert rows_of(s, "tail") == 3
    s.reopen()
    assert s.live() == all_fields(STAYING)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE eras SET era = 2",
        "DELETE FROM eras",
        "UPDATE eras SET queue = 'p'",
        "UPDATE tail SET era = 1 WHERE id = 3",
        "UPDATE tail SET era = 7 WHERE id = 3",
        "UPDATE gone SET ids = x'0100000000000000'",
        "DELETE FROM jobs WHERE id = 60",
        "DELETE FROM tail WHERE id = 3",
    ],
)
def test_damage_that_would_bring_back_what_is_gone_is_noticed(s: StoreFixture, damage: str) -> None:
    held = [a_job(n) for n in range(50, 70)]
    s.write(added=[*backlog(9), *held])
    s.write(emptied_backlogs=["q"], gone_from_memory=held)
    s.write(added=[tailed(200)])
    s.sqlite._db.execute(damage)
    with pytest.raises(StoreDamaged):
        s.reopen()
        s.ready()


def test_a_search_reads_on_while_everything_is_flushed(s: StoreFixture) -> None:
    s.write(added=backlog())
    assert len(s.find(limit=99)) == 30
    s.write(flushed=True, added=[tailed(99)])
    assert s.find(limit=99) == [99]
    s.sweep()
    assert s.find(limit=99) == [99]


def test_a_search_does_not_list_what_is_swept_while_it_looks(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are in what it sees, but nobody else knows any more that they are gone."""
    jobs = [a_job(n) for n in range(1, 21)]
    s.write(added=[*jobs, *STAYING])
    s.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in jobs])
    read_page = search.read_page

    def swept_meanwhile(db: sqlite3.Connection, *arguments: Any) -> object:
        db.execute("SELECT count(*) FROM jobs").fetchone()
        s.sweep()
        return read_page(db, *arguments)

    monkeypatch.setattr(search, "read_page", swept_meanwhile)
    assert s.find(limit=99) == [101, 102, 103, 104]
    assert s.sqlite._books.gone == {}


def test_pieces_of_history_are_small_and_few_are_dropped_at_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "PIECE_JOBS", 4)
    monkeypatch.setattr(group, "PIECE_BYTES", 3_000)
    store = SqliteStore(path, ended=Bounds(10))
    s = StoreFixture(store, lambda store: store)
    for start in range(1, 101, 10):
        ended = [a_job(n, state=State.DONE, result=b"r" * 1_000) for n in range(start, start + 10)]
        s.write(ended=ended)
        s.sweep()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT max(length(jobs)), max(count) FROM ended").fetchone() < (3_001, 4)
    assert s.find(limit=99)[-10:] == list(range(91, 101))
    assert len(s.find(limit=99)) <= 30
    store.close()
