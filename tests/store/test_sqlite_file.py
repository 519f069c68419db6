"""What only SQLite promises: synced commits, one shape of file, nothing left lying about."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from franca.core.changes import Changes, QueueSetting
from franca.core.model import Job, JobQuery, NewJob, Policy, Schedule, State
from franca.store import files, migrate
from franca.store.memory import MemoryStore
from franca.store.port import Bounds, StoreDamaged, StoreError
from franca.store.rows import LIFE, life_values
from franca.store.sqlite import SqliteStore
from tests.store.kit import (
    LARGE,
    StoreFixture,
    a_job,
    all_fields,
    copy,
    killed_and_copied,
    odd_jobs,
    sqlite_fixture,
    tailed,
)


class Killed(BaseException):
    """The process ends here."""


def kill_at(wanted: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name == wanted:
            raise Killed

    return step


# -- durability ---------------------------------------------------------------------------------


def test_the_log_is_written_ahead_and_every_commit_is_synced(s: StoreFixture) -> None:
    db = s.sqlite._db
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert db.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    assert db.execute("PRAGMA mmap_size").fetchone() == (0,)


def test_a_connection_that_would_not_sync_is_not_used(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Careless(sqlite3.Connection):
        def execute(self, sql: str, *_: object) -> sqlite3.Cursor:
            return super().execute(sql.replace("= FULL", "= NORMAL"))

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, **o, factory=Careless))
    with pytest.raises(StoreError, match="sync"):
        SqliteStore(path).open()


def test_a_group_that_was_written_and_not_committed_is_not_there(
    s: StoreFixture, tmp_path: Path
) -> None:
    s.write(added=[a_job(1)])
    s.store.write(Changes(added=[a_job(2)]), [])
    heir = killed_and_copied(s.sqlite, tmp_path / "heir")
    assert [job.id for job in heir.open().held] == [1]
    heir.close()


@pytest.mark.parametrize("name", ["50% full", "what?mode=memory", "a#b", "ü €", "-wal"])
def test_any_name_of_a_directory_will_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    s = sqlite_fixture(tmp_path / name / "store.db")
    s.write(added=[a_job(1)])
    assert s.find() == [1]
    s.store.backup(str(tmp_path / name / "copy"))
    assert list(s.held()) == [1]
    s.close()


def test_a_reader_in_another_process_does_not_take_the_log_away(s: StoreFixture, path: str) -> None:
    """Whoever opens and closes the file beside SQLite ends its locks; the next reader is then the last."""
    s.write(added=[a_job(1)])
    read = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM jobs').fetchall()"
    )
    subprocess.run([sys.executable, "-c", read, path], check=True)
    assert os.path.exists(f"{path}-wal")
    s.write(added=[a_job(2)])
    assert list(s.held()) == [1, 2]


# -- versions -------------------------------------------------------------------------------------


def test_a_file_of_a_newer_release_is_refused(s: StoreFixture, path: str) -> None:
    s.sqlite._db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreDamaged, match="newer release"):
        s.reopen()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(migrate.migrations())}")
    connection.close()
    assert s.reopen().held == []


def test_a_server_killed_while_it_makes_its_store_leaves_nothing_behind(path: str) -> None:
    with pytest.raises(Killed):
        SqliteStore(path, step=kill_at("migrate")).open()
    assert not os.path.exists(path)
    s = sqlite_fixture(path)
    s.write(added=[a_job(1)])
    assert list(s.held()) == [1]
    s.close()
    assert os.listdir(os.path.dirname(path)) == ["store.db"]


def test_a_migration_that_was_killed_before_its_commit_has_not_happened(
    s: StoreFixture, path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs = odd_jobs()
    s.write(added=jobs)
    s.close()
    known = migrate.migrations()
    newer = "ALTER TABLE ended ADD COLUMN mood TEXT NOT NULL DEFAULT 'good';\nDELETE FROM jobs;\n"
    monkeypatch.setattr(migrate, "migrations", lambda: [*known, newer])
    store = SqliteStore(path, step=kill_at("migrate"))
    with pytest.raises(Killed):
        store.open()
    monkeypatch.setattr(migrate, "migrations", lambda: known)
    s.store = SqliteStore(path)
    assert all_fields(s.store.open().held) == all_fields(jobs)


def test_migrations_that_are_due_are_made_once_and_in_order(
    s: StoreFixture, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s.write(added=[a_job(1)])
    known = migrate.migrations()
    more = ["CREATE TABLE first (a);\n", "INSERT INTO first VALUES (1);\n"]
    monkeypatch.setattr(migrate, "migrations", lambda: [*known, *more])
    for _ in range(2):
        assert list(s.held()) == [1]
        assert s.sqlite._db.execute("SELECT a FROM first").fetchall() == [(1,)]


# -- damage -----------------------------------------------------------------------------------------


def stocked(s: StoreFixture) -> None:
    """Something in every table."""
    s.write(
        added=[
            a_job(1),
            a_job(2, body=b"h" * LARGE, attempt_log=odd_jobs()[6].attempt_log),
            *(tailed(n, priority=n % 3, place=n) for n in range(11, 19)),
            tailed(19, body=b"t" * LARGE),
            tailed(20, state=State.WAITING, run_at=5),
            tailed(21, state=State.DEAD, run_at=5, policy=Policy(max_failures=3)),
        ],
        ended=[a_job(3, state=State.DONE)],
        queues_saved=[QueueSetting("q", False), QueueSetting("paused", True)],
        schedules_saved=[Schedule("s", NewJob("q", "k", b"", Policy()), every_ms=5)],
    )


def walk(s: StoreFixture) -> None:
    """Read everything that a server reads in its life."""
    s.reopen()
    s.ready()
    s.waiting()
    s.recall(states=(State.DEAD,))
    s.store.find(JobQuery())


DAMAGES = [
    "UPDATE jobs SET apart = 0 WHERE id = 2",
    "UPDATE bodies SET body = replace(body, 'h', 'H') WHERE id = 2",
    "UPDATE bodies SET body = replace(body, 't', 'T') WHERE id = 19",
    "UPDATE bodies SET (body, crc) = (SELECT body, crc FROM bodies WHERE id = 19) WHERE id = 2",
    "DELETE FROM bodies WHERE id = 2",
    "DELETE FROM bodies WHERE id = 19",
    "DELETE FROM jobs WHERE id = 1",
    "DELETE FROM tail WHERE id = 11",
    "DELETE FROM tail WHERE id = 20",
    "INSERT INTO tail SELECT *, 0 FROM jobs WHERE id = 1",
    *(
        f"UPDATE {table} SET {column} = {value} WHERE id IN (1, 11)"
        for table in ("jobs", "tail")
        for column, value in [
            ("queue", "'Q'"), ("kind", "'K'"), ("name", "'N'"), ("key", "'Y'"), ("priority", 77), ("apart", 1),
            ("state", 2), ("state", 99), ("place", 77), ("run_at", 77), ("failures", 77), ("crc", 77),
            ("job", "replace(job, 'body', 'BODY')"), ("job", "x'00'"), ("name", "CAST(x'ff' AS TEXT)"),
            ("priority", "'text'"), ("place", "x'00'"),
        ]
    ),
    "UPDATE jobs SET id = 99 WHERE id = 1",
    "UPDATE tail SET id = 99 WHERE id = 11",
    "UPDATE tail SET state = 4 WHERE id = 20",
    "UPDATE tail SET run_at = 6 WHERE id = 20",
    *(
        f"UPDATE totals SET {column} = {column} + 1"
        for column in ("pushed", "processed", "failures", "last_job_id", "last_place", "sealed", "crc",
                       "held_rows", "tail_rows")
    ),
    "DELETE FROM totals",
    "UPDATE queues SET paused = 1 WHERE queue = 'q'",
    "UPDATE queues SET queue = 'p' WHERE queue = 'q'",
    "DELETE FROM queues WHERE queue = 'paused'",
    "INSERT INTO queues VALUES ('more', 0)",
    "DELETE FROM schedules",
    "UPDATE schedules SET id = 'S'",
    "UPDATE schedules SET schedule = x'00'",
    "UPDATE ended SET jobs = replace(jobs, 'body', 'BODY')",
    "UPDATE ended SET jobs = x'ff'",
    "UPDATE ended SET count = 7",
    "DROP TABLE bodies",
    "DROP TABLE queues",
    "DROP INDEX tail_timed",
    "DROP INDEX tail_ready",
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_not_written_by_us_is_refused(path: str, damage: str) -> None:
    s = sqlite_fixture(path)
    stocked(s)
    walk(s)
    s.sqlite._db.execute(damage)
    with pytest.raises(StoreDamaged, match=r"store\.db"):
        walk(s)


def lead_twice_to_the_first(s: StoreFixture, path: str, tree: str) -> None:
    """Let the second entry of a table or an index be its first once more, in the file alone."""
    db = s.sqlite._db
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    root = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    [(page,)] = db.execute(root, (tree,)).fetchall()
    with open(path, "r+b") as file:
        pointers_at = (page - 1) * 4096 + 8
        file.seek(pointers_at)
        pointers = file.read(6)
        file.seek(pointers_at)
        file.write(pointers[:2] + pointers[:2] + pointers[4:])


def test_jobs_that_an_index_gives_twice_are_refused(s: StoreFixture, path: str) -> None:
    """An entry of an index that leads to another row: right row, right checksum, wrong place."""
    s.write(added=[tailed(n) for n in (1, 2, 3)])
    s.reopen()
    lead_twice_to_the_first(s, path, "tail_ready")
    s.sqlite._db.execute("PRAGMA shrink_memory").fetchall()  # it is read from the file again
    with pytest.raises(StoreDamaged, match="twice"):
        s.ready()
    with pytest.raises(StoreDamaged, match="twice"):
        s.reopen()


def test_an_index_that_says_something_else_than_the_table_is_refused(
    s: StoreFixture, path: str
) -> None:
    """A waiting job that its index counts among the dead would never fall due."""
    job = tailed(1, state=State.DEAD, run_at=77)
    s.write(added=[job, tailed(2, state=State.WAITING, run_at=77)])
    s.close()
    change_behind_an_index(path, "tail_timed", copy(job, state=State.WAITING))
    with pytest.raises(StoreDamaged, match="index"):
        SqliteStore(path).open()


def change_behind_an_index(path: str, index: str, job: Job) -> None:
    """Write a job of the tail while the schema does not know of that index."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        entry = db.execute("SELECT * FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
        db.execute("DELETE FROM sqlite_schema WHERE name = ?", (index,))
    with closing(sqlite3.connect(path)) as db, db:
        columns = ", ".join(f"{column} = ?" for column in LIFE.split(", "))
        db.execute(f"UPDATE tail SET {columns} WHERE id = ?", (*life_values(job), job.id))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", entry)


def test_a_row_that_its_table_gives_twice_is_refused(s: StoreFixture, path: str) -> None:
    s.write(added=[a_job(n) for n in (1, 2, 3)])
    s.reopen()
    lead_twice_to_the_first(s, path, "jobs")
    s.close()
    with pytest.raises(StoreDamaged, match="3 and 0 jobs were written, 2 and 0"):
        SqliteStore(path).open()


def test_a_file_that_is_no_store_is_refused(path: str) -> None:
    Path(path).write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreDamaged, match="not a database"):
        SqliteStore(path).open()


def test_an_empty_file_is_not_taken_for_a_new_store(s: StoreFixture, path: str) -> None:
    s.close()
    os.truncate(path, 0)
    with pytest.raises(StoreDamaged, match="empty"):
        SqliteStore(path).open()


def test_a_log_without_its_file_is_refused(s: StoreFixture, tmp_path: Path) -> None:
    s.write(added=[a_job(1)])
    heir = killed_and_copied(s.sqlite, tmp_path / "heir")
    os.unlink(heir.path)
    with pytest.raises(StoreDamaged, match="missing"):
        heir.open()


# -- the history --------------------------------------------------------------------------------------


def test_no_history_may_be_kept(path: str) -> None:
    s = sqlite_fixture(path, ended=Bounds(0))
    s.write(ended=[a_job(1, state=State.DONE)])
    assert s.find() == []
    assert s.held() == {}
    s.close()


# -- backup -------------------------------------------------------------------------------------------


def test_a_backup_is_whole_and_opens(s: StoreFixture, tmp_path: Path) -> None:
    stocked(s)
    s.write(added=[a_job(99)])
    target = str(tmp_path / "copy.db")
    s.store.backup(target)
    s.write(added=[a_job(100)])
    restored = sqlite_fixture(target)
    expected = s.live()
    del expected[100]
    assert restored.live() == expected
    assert restored.find(limit=99) == s.find(limit=99)[:-1]
    assert restored.snapshot.queues == s.reopen().queues
    restored.write(added=[a_job(101)])
    walk(restored)
    restored.close()


def test_a_backup_is_of_what_is_committed_and_hinders_nobody(
    s: StoreFixture, tmp_path: Path
) -> None:
    s.write(added=[a_job(1)])
    s.store.write(Changes(added=[a_job(2)]), [])
    s.store.backup(str(tmp_path / "copy.db"))
    s.store.commit()
    copied = SqliteStore(str(tmp_path / "copy.db"))
    assert [job.id for job in copied.open().held] == [1]
    copied.close()
    assert list(s.held()) == [1, 2]


def test_what_is_in_memory_cannot_be_backed_up(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="memory"):
        MemoryStore().backup(str(tmp_path / "copy"))


def test_a_backup_takes_the_place_of_nothing(s: StoreFixture, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(StoreError, match="exists"):
        s.store.backup(str(tmp_path / "copy.db"))
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_backup_that_fails_leaves_no_half_of_one(
    s: StoreFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stocked(s)

    def failing(path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "sync", failing)
    with pytest.raises(StoreError, match="Input/output"):
        s.store.backup(str(tmp_path / "copy.db"))
    assert sorted(os.listdir(tmp_path)) == ["store.db", "store.db-shm", "store.db-wal"]
    with pytest.raises(StoreError, match="nowhere"):
        s.store.backup(str(tmp_path / "nowhere" / "copy.db"))
