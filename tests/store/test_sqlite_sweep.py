"""What is gone is gone at once; its rows are deleted a little at a time, whatever happens meanwhile."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from franca.core.changes import QueueSetting
from franca.core.model import Job, NewJob, Policy, Schedule, Shelf, State
from franca.store import group, search, sweep
from franca.store.port import StoreDamaged
from franca.store.sqlite import SqliteStore
from tests.store.kit import LARGE, StoreFixture, a_job, all_fields, copy, killed_and_copied, tailed
from tests.store.test_sqlite_room import FullAtCommit


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "DELETED_AT_ONCE", 3)
    monkeypatch.setattr(group, "FLUSHED_ROWS", 0)
    monkeypatch.setattr(group, "FLUSHED_BYTES", 0)
    monkeypatch.setattr(sweep, "SWEPT_ROWS", 4)


def rows_of(desk: StoreFixture, table: str) -> int:
    [count] = desk.sqlite._db.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert isinstance(count, int)
    return count


def killed_at_every_step(desk: StoreFixture, folder: Path) -> Iterator[StoreFixture]:
    """What the next server finds if this one is killed before the sweep, and after each step of it."""
    for number in range(100):
        heir = killed_and_copied(desk.sqlite, folder / f"heir-{number}")
        yield StoreFixture(heir, lambda store: store)
        heir.close()
        if not desk.store.has_leftovers():
            return
        desk.store.tidy()
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
    desk: StoreFixture, tmp_path: Path
) -> None:
    desk.write(added=[*backlog(), *STAYING])
    desk.write(emptied_backlogs=["q"], added=[tailed(200, place=1)])
    expected = all_fields([*STAYING, tailed(200, place=1)])
    assert rows_of(desk, "tail") == 34
    for heir in killed_at_every_step(desk, tmp_path):
        assert heir.live() == expected
        assert [job.id for job in heir.ready()] == [200]
        assert {c.queue: c.ready for c in heir.snapshot.backlog if c.ready} == {"q": 1, "other": 1}
        assert [known.id for known in heir.snapshot.known if known.key] == []
        assert heir.find(limit=99) == sorted(expected)
    assert rows_of(desk, "tail") == 4
    assert rows_of(desk, "bodies") == 3


def test_a_flush_is_durable_before_the_rows_are_gone_and_after_any_kill(
    desk: StoreFixture, tmp_path: Path
) -> None:
    desk.write(
        added=[*backlog(), *STAYING],
        ended=[a_job(99, state=State.DONE)],
        queues_saved=[QueueSetting("q", True)],
        schedules_saved=[Schedule("s", NewJob("q", "k", b"", Policy()))],
    )
    desk.write(emptied_backlogs=["other"])
    new = [tailed(200), tailed(201, state=State.WAITING, run_at=3), a_job(202, body=b"b" * LARGE)]
    desk.write(flushed=True, added=new)
    for heir in killed_at_every_step(desk, tmp_path):
        assert heir.live() == all_fields(new)
        assert (heir.snapshot.queues, heir.snapshot.schedules) == ([], [])
        assert heir.find(limit=99) == [200, 201, 202]
        heir.write(flushed=True, added=[a_job(300)])
        assert list(heir.held()) == [300]
    tables = desk.sqlite._db.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'dropped%'")
    assert tables.fetchall() == []


def schema_of(desk: StoreFixture) -> list[str]:
    return [
        name for (name,) in desk.sqlite._db.execute("SELECT name FROM sqlite_schema ORDER BY 1")
    ]


def test_a_flush_of_few_jobs_deletes_them_and_leaves_the_schema_alone(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "FLUSHED_ROWS", 40)
    monkeypatch.setattr(group, "FLUSHED_BYTES", 40 * LARGE)
    before = schema_of(desk)
    for number in range(3):
        desk.write(
            added=[*backlog(), *STAYING],
            ended=[a_job(99, state=State.DONE)],
            queues_saved=[QueueSetting("q", True)],
            schedules_saved=[Schedule("s", NewJob("q", "k", b"", Policy()))],
        )
        desk.write(emptied_backlogs=["other"])
        desk.write(flushed=True, added=[a_job(200 + number)])
        assert desk.find(limit=99) == [200 + number]
        assert not desk.sqlite._sweeper.has_work()
        assert list(desk.held()) == [200 + number]
        assert (desk.snapshot.queues, desk.snapshot.schedules) == ([], [])
        desk.write(flushed=True)
    assert schema_of(desk) == before
    assert rows_of(desk, "bodies") == 0


@pytest.mark.parametrize("again", [False, True])
def test_only_large_tables_are_put_aside(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(group, "FLUSHED_ROWS", 20)
    monkeypatch.setattr(group, "FLUSHED_BYTES", 4 * LARGE)
    desk.write(added=[*backlog(21), a_job(99, body=b"b" * LARGE)])
    if again:
        desk.reopen()
    desk.write(flushed=True)
    assert desk.sqlite._books.dropped == ["dropped_1_tail", "dropped_1_bodies"]
    assert desk.live() == {}


def test_tables_that_lie_aside_are_few_however_often_all_is_flushed(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEPT_ROWS", 2_000)
    before = len(schema_of(desk))
    for number in range(1, 200, 2):
        desk.write(added=[tailed(number, body=b"b" * LARGE), a_job(number + 1)])
        desk.write(flushed=True)
        if desk.store.wants_tidying():
            desk.store.tidy()
        assert len(desk.sqlite._books.dropped) <= sweep.TABLES_MAX + len(group.FLUSHED)
    desk.sweep()
    assert len(schema_of(desk)) == before
    assert desk.live() == {}


def test_many_emptied_tails_are_swept_in_one_step(desk: StoreFixture) -> None:
    names = [f"q{number}" for number in range(100)]
    desk.write(added=[tailed(number + 1, queue=name) for number, name in enumerate(names[:3])])
    desk.write(emptied_backlogs=names)
    desk.store.tidy()
    assert (rows_of(desk, "tail"), desk.sqlite._books.emptied) == (0, {})
    desk.write()
    assert desk.sqlite._books.eras == {}


def steps_of_a_recall(desk: StoreFixture, **query: Any) -> int:
    """How much SQLite does for it."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    desk.sqlite._db.set_progress_handler(count, 1)
    desk.recall(**query)
    desk.sqlite._db.set_progress_handler(None, 0)
    return steps


def test_a_page_of_dead_jobs_costs_no_more_while_many_held_ones_are_gone(
    desk: StoreFixture,
) -> None:
    held = [a_job(n) for n in range(1, 101)]
    dead = [tailed(n, state=State.DEAD, run_at=n) for n in range(201, 301)]
    desk.write(added=[*held, *dead])
    query: dict[str, Any] = {"states": (State.DEAD,), "by_time": True, "limit": 2}
    before = steps_of_a_recall(desk, **query)
    desk.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in held])
    assert len(desk.sqlite._books.gone) == 97
    assert steps_of_a_recall(desk, **query) == before
    assert [job.id for job in desk.recall(**query)] == [201, 202]


def test_waiting_jobs_by_time_are_found_behind_held_ones_that_are_gone(desk: StoreFixture) -> None:
    held = [a_job(n, state=State.WAITING, run_at=n) for n in range(1, 31)]
    desk.write(added=[*held, tailed(99, state=State.WAITING, run_at=27)])
    desk.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in held[:25]])
    query: dict[str, Any] = {"states": (State.WAITING,), "by_time": True}
    assert [job.id for job in desk.recall(**query, limit=3)] == [26, 27, 99]
    assert desk.find(**query, limit=99) == [26, 27, 99, 28, 29, 30]


def test_many_held_jobs_are_gone_at_once_and_their_rows_later(
    desk: StoreFixture, tmp_path: Path
) -> None:
    jobs = [a_job(n, body=b"b" * (LARGE * (n % 2))) for n in range(1, 21)]
    desk.write(added=[*jobs, *STAYING])
    desk.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in jobs])
    assert rows_of(desk, "jobs") == 18
    for heir in killed_at_every_step(desk, tmp_path):
        assert list(heir.held()) == [104]
        assert heir.find(limit=99) == [101, 102, 103, 104]
    assert rows_of(desk, "jobs") == 1
    assert rows_of(desk, "gone") == 0


def test_jobs_that_come_back_to_their_old_place_are_not_swept(desk: StoreFixture) -> None:
    """A lease that was held through the purge and then returned."""
    jobs = backlog(12)
    desk.write(added=jobs)
    leased = copy(jobs[4], shelf=Shelf.HELD, state=State.LEASED, holder="w")
    desk.write(moved=[leased])
    desk.write(emptied_backlogs=["q"])
    back = copy(leased, shelf=Shelf.BACKLOG, state=State.READY, holder="")
    desk.write(moved=[back])
    desk.sweep()
    assert all_fields(desk.ready()) == all_fields([back])
    desk.write(emptied_backlogs=["q"])
    assert desk.ready() == []
    desk.sweep()
    desk.write(added=[tailed(99)])
    assert desk.sqlite._books.eras == {}, "a queue without rows begins again"
    desk.reopen()
    assert [job.id for job in desk.ready()] == [99]


def test_a_step_is_small_however_large_the_bodies(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEPT_BYTES", 2 * LARGE)
    monkeypatch.setattr(sweep, "SWEPT_ROWS", 100)
    desk.write(added=[tailed(n, body=b"b" * LARGE) for n in range(1, 11)])
    desk.write(emptied_backlogs=["q"])
    desk.store.tidy()
    assert rows_of(desk, "tail") == 8
    desk.write(flushed=True)
    left = [rows_of(desk, "dropped_1_bodies")]
    while "dropped_1_bodies" in desk.sqlite._books.dropped:
        left.append(rows_of(desk, "dropped_1_bodies"))
        desk.store.tidy()
    assert left == [8, 8, 6, 4, 2, 0]


def test_a_sweep_without_room_changes_nothing_and_is_tried_again(desk: StoreFixture) -> None:
    desk.write(added=[*backlog(), *STAYING])
    desk.write(emptied_backlogs=["q"])
    db = desk.sqlite._db
    full: Any = FullAtCommit(db, 3)
    desk.sqlite._sweeper._db = full
    for _ in range(3):
        desk.store.tidy()
    assert rows_of(desk, "tail") == 33
    desk.sweep()
    assert rows_of(desk, "tail") == 3
    desk.reopen()
    assert desk.live() == all_fields(STAYING)


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
def test_damage_that_would_bring_back_what_is_gone_is_noticed(
    desk: StoreFixture, damage: str
) -> None:
    held = [a_job(n) for n in range(50, 70)]
    desk.write(added=[*backlog(9), *held])
    desk.write(emptied_backlogs=["q"], gone_from_memory=held)
    desk.write(added=[tailed(200)])
    desk.sqlite._db.execute(damage)
    with pytest.raises(StoreDamaged):
        desk.reopen()
        desk.ready()


def test_a_search_reads_on_while_everything_is_flushed(desk: StoreFixture) -> None:
    desk.write(added=backlog())
    assert len(desk.find(limit=99)) == 30
    desk.write(flushed=True, added=[tailed(99)])
    assert desk.find(limit=99) == [99]
    desk.sweep()
    assert desk.find(limit=99) == [99]


def test_a_search_does_not_list_what_is_swept_while_it_looks(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are in what it sees, but nobody else knows any more that they are gone."""
    jobs = [a_job(n) for n in range(1, 21)]
    desk.write(added=[*jobs, *STAYING])
    desk.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in jobs])
    read_page = search.read_page

    def swept_meanwhile(db: sqlite3.Connection, *arguments: Any) -> object:
        db.execute("SELECT count(*) FROM jobs").fetchone()
        desk.sweep()
        return read_page(db, *arguments)

    monkeypatch.setattr(search, "read_page", swept_meanwhile)
    assert desk.find(limit=99) == [101, 102, 103, 104]
    assert desk.sqlite._books.gone == {}


def test_pieces_of_history_are_small_and_few_are_dropped_at_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "PIECE_JOBS", 4)
    monkeypatch.setattr(group, "PIECE_BYTES", 3_000)
    monkeypatch.setattr(group, "DROPPED_BYTES", 5_000)
    store = SqliteStore(path, ended_jobs=10)
    desk = StoreFixture(store, lambda store: store)
    for start in range(1, 101, 10):
        ended = [a_job(n, state=State.DONE, result=b"r" * 1_000) for n in range(start, start + 10)]
        desk.write(ended=ended)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT max(length(jobs)), max(count) FROM ended").fetchone() < (3_001, 4)
    assert desk.find(limit=99)[-10:] == list(range(91, 101))
    assert len(desk.find(limit=99)) <= 30
    store.close()
