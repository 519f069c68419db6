"""A full disk: room is made once, the group is tried again, and the books stay right."""

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from franca.core.changes import Changes
from franca.core.model import Job, JobQuery
from franca.store.port import StoreError, StoreFull
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, a_job, all_fields, sqlite_fixture

MIB = 1 << 20


class Reserve:
    """Room that can be given up once."""

    def __init__(self) -> None:
        self.asked = 0
        self.give_up: Callable[[], bool] = lambda: True

    def __call__(self) -> bool:
        self.asked += 1
        return self.give_up()


@pytest.fixture
def reserve() -> Reserve:
    return Reserve()


@pytest.fixture
def s(tmp_path: Path, reserve: Reserve) -> Iterator[StoreFixture]:
    s = sqlite_fixture(tmp_path / "store.db", make_room=reserve)
    yield s
    s.close()


def many(first: int, count: int = 50) -> list[Job]:
    return [a_job(n, body=b"b" * 1_500) for n in range(first, first + count)]


# -- in the middle of a group -----------------------------------------------------------------------


def fill(s: StoreFixture) -> None:
    """Let the file grow no more."""
    [pages] = s.sqlite._db.execute("PRAGMA page_count").fetchone()
    s.sqlite._db.execute(f"PRAGMA max_page_count = {pages}")


def test_no_room_for_a_row_is_made_good_and_the_group_written_again(
    s: StoreFixture, reserve: Reserve
) -> None:
    first, second = many(1), many(101)
    s.write(added=first)
    fill(s)

    def more() -> bool:
        s.sqlite._db.execute("PRAGMA max_page_count = 100000")
        return True

    reserve.give_up = more
    s.write(added=second, gone_from_memory=first[:10])
    assert reserve.asked == 1
    assert s.held() == all_fields([*first[10:], *second])


def test_without_room_the_group_is_not_there_and_the_store_is_full(
    s: StoreFixture, reserve: Reserve
) -> None:
    s.write(added=many(1))
    fill(s)
    reserve.give_up = lambda: False
    with pytest.raises(StoreFull, match="no room"):
        s.write(added=many(101))
    assert reserve.asked == 1
    assert list(s.held()) == list(range(1, 51))


def test_what_was_written_before_the_room_ran_out_is_undone_first(
    s: StoreFixture, reserve: Reserve
) -> None:
    class FullAtRows(FullAtCommit):
        def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
            done = self._db.executemany(sql, rows)
            if self._times:
                self._times -= 1
                raise full()
            return done

    s.sqlite._db = FullAtRows(s.sqlite._db, 1)  # type: ignore[assignment]
    jobs = many(1)
    s.write(added=jobs)
    assert reserve.asked == 1
    assert s.held() == all_fields(jobs)


# -- when it is made durable ------------------------------------------------------------------------


class FullAtCommit:
    """A connection that finds no room so many times when it commits, as SQLite would."""

    def __init__(self, db: sqlite3.Connection, times: int) -> None:
        self._db = db
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self._times:
            self._times -= 1
            self._db.execute("ROLLBACK")
            raise full()
        return self._db.execute(sql, *values)


def full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


def full_at_commit(s: StoreFixture, times: int) -> None:
    s.sqlite._db = FullAtCommit(s.sqlite._db, times)  # type: ignore[assignment]


def test_no_room_at_the_commit_is_made_good_and_the_group_written_again(
    s: StoreFixture, reserve: Reserve
) -> None:
    first, second = many(1), many(101)
    s.write(added=first)
    full_at_commit(s, 1)
    s.write(added=second, gone_from_memory=first[:10])
    assert reserve.asked == 1
    assert s.held() == all_fields([*first[10:], *second])


def test_moving_the_log_into_the_file_may_be_room_enough(s: StoreFixture, reserve: Reserve) -> None:
    reserve.give_up = lambda: False
    full_at_commit(s, 1)
    s.write(added=many(1))
    assert reserve.asked == 1
    assert list(s.held()) == list(range(1, 51))


def test_a_disk_that_stays_full_ends_it(s: StoreFixture, reserve: Reserve) -> None:
    s.write(added=many(1))
    full_at_commit(s, 2)
    with pytest.raises(StoreFull):
        s.write(added=many(101))
    assert reserve.asked == 1
    assert list(s.held()) == list(range(1, 51))


@pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_WRITE", "SQLITE_BUSY"])
def test_no_other_failure_is_tried_again(s: StoreFixture, reserve: Reserve, name: str) -> None:
    class Failing(FullAtCommit):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            try:
                return super().execute(sql, *values)
            except sqlite3.OperationalError as error:
                error.sqlite_errorname = name
                raise

    s.sqlite._db = Failing(s.sqlite._db, 1)  # type: ignore[assignment]
    with pytest.raises(StoreError, match=name):
        s.write(added=many(1))
    assert reserve.asked == 0


def test_a_checkpoint_without_room_is_left_for_later(s: StoreFixture) -> None:
    class NoCheckpoint(FullAtCommit):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return super().execute("COMMIT" if "checkpoint" in sql else sql, *values)

    s.write(added=many(1))
    db = s.sqlite._db
    s.sqlite._db = NoCheckpoint(db, 1)  # type: ignore[assignment]
    db.execute("BEGIN")
    s.store.tidy()
    s.sqlite._db = db
    assert list(s.held()) == list(range(1, 51))


# -- a file that has more unused room than the disk ---------------------------------------------------


def disk_with(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=room, f_frsize=1))


def test_room_that_the_file_does_not_need_is_given_back_to_a_short_disk(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = many(1, 2_000)
    s.write(added=jobs)
    s.store.tidy()
    large = os.path.getsize(s.sqlite.path)
    assert large > 3 * MIB
    disk_with(monkeypatch, 1 * MIB)
    s.write(gone_from_memory=jobs[:-1])
    assert s.store.wants_tidying()
    s.sweep()
    assert os.path.getsize(s.sqlite.path) < large // 10
    assert s.held() == all_fields(jobs[-1:])


@pytest.mark.parametrize(
    ("kept", "room"),
    [
        pytest.param(1, 10_000 * MIB, id="the disk has room"),
        pytest.param(1_900, 1 * MIB, id="the file is in use"),
    ],
)
def test_a_file_is_not_made_smaller_without_need(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch, kept: int, room: int
) -> None:
    jobs = many(1, 2_000)
    s.write(added=jobs)
    s.write(gone_from_memory=jobs[kept:])
    s.reopen()
    size = os.path.getsize(s.sqlite.path)
    disk_with(monkeypatch, room)
    s.store.tidy()
    assert os.path.getsize(s.sqlite.path) == size


def test_on_a_short_disk_the_log_is_moved_while_there_is_room_for_it(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    s.write(added=many(1))
    log = os.path.getsize(f"{s.sqlite.path}-wal")
    disk_with(monkeypatch, 9 * log)
    assert not s.store.wants_tidying()
    disk_with(monkeypatch, 7 * log)
    assert s.store.wants_tidying()
    s.store.tidy()
    s.write(added=[a_job(99)])
    assert not s.store.wants_tidying()


# -- a real one -----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_on_a_full_disk_jobs_can_still_end_and_their_room_is_used_again(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))

    def drop() -> bool:
        if not ballast.exists():
            return False
        ballast.unlink()
        return True

    s = sqlite_fixture(small_disk / "store.db", make_room=drop)
    jobs: list[Job] = []
    while ballast.exists():
        batch = many(len(jobs) + 1, 5)
        write_and_tidy(s, added=batch)
        jobs += batch
    assert len(jobs) > 400
    for job in jobs[:200]:
        write_and_tidy(s, gone_from_memory=[job])
    assert s.held() == all_fields(jobs[200:])
    for job in jobs[200:]:
        write_and_tidy(s, gone_from_memory=[job])
    disk = os.statvfs(small_disk)
    assert disk.f_bavail * disk.f_frsize > 1.5 * MIB
    write_and_tidy(s, added=jobs[:400])
    assert s.held() == all_fields(jobs[:400])
    s.close()


def write_and_tidy(s: StoreFixture, **changes: Any) -> None:
    """As the node does it."""
    s.write(**changes)
    if s.store.wants_tidying():
        s.store.tidy()


def test_what_does_not_fit_on_the_disk_leaves_what_was_there(small_disk: Path) -> None:
    path = str(small_disk / "store.db")
    store = SqliteStore(path)
    store.open()
    store.write(Changes(added=many(1)), [])
    store.commit()
    with pytest.raises(StoreFull):
        store.write(Changes(added=[a_job(99, body=b"b" * 3 * MIB)]), [])
        store.commit()
    store.close()
    heir = SqliteStore(path)
    assert len(heir.open().held) == 50
    assert len(heir.find(JobQuery())) == 50
    heir.close()
