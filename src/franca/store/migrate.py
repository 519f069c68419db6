"""Schema versions: numbered SQL files, forward only, each in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import resources

import msgspec

from franca.core.model import Job, Schedule
from franca.core.names import OLD_MARK, renamed
from franca.store import search
from franca.store.port import StoreDamaged
from franca.store.rows import COLUMN_COUNT, COLUMNS, bodiless, row_of, seal

NAMES_VERSION = 2
"""The version from which on all names are written by one rule."""
PAGE_JOBS = 1_000
_MARKS = ", ".join("?" * COLUMN_COUNT)


def migrate(connection: sqlite3.Connection, step: Callable[[str], None]) -> None:
    """Bring the schema to this server's version. A newer one is refused, not guessed at.

    `step` is told before each file is made permanent; tests stop the server there.
    """
    files = migrations()
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(files):
        known = f"schema version {version}, this server knows up to {len(files)}"
        raise StoreDamaged(f"the store has {known}: it was written by a newer release")
    # An index of millions of jobs is sorted on the disk, not in memory.
    connection.execute("PRAGMA temp_store = FILE")
    for number, text in enumerate(files[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in _statements(text):
            connection.execute(statement)
        if number == NAMES_VERSION:
            rename_all(connection)
        connection.execute(f"PRAGMA user_version = {number}")
        step("migrate")
        connection.execute("COMMIT")
    connection.execute("PRAGMA temp_store = MEMORY")


def migrations() -> list[str]:
    """The SQL of every version, in order."""
    folder = resources.files("franca.store") / "sql" / "sqlite"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _statements(text: str) -> list[str]:
    """Single statements: `executescript` would commit in the middle."""
    statements: list[str] = []
    current = ""
    for line in text.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


# -- to version 2: names that are no UTF-8 ------------------------------------------------------


def rename_all(db: sqlite3.Connection) -> None:
    """Write every name of the old form as names are written now, inside the open transaction."""
    for table in ("jobs", "tail"):
        _rename_jobs(db, table)
    sealed = 0
    for queue, paused in db.execute("SELECT queue, paused FROM queues").fetchall():
        if renamed(queue) != queue:
            sealed ^= seal(("queues", queue, paused))
            db.execute("DELETE FROM queues WHERE queue = ?", (queue,))
            row = (renamed(queue), paused)
            if db.execute("INSERT OR IGNORE INTO queues VALUES (?, ?)", row).rowcount:
                sealed ^= seal(("queues", *row))
    for schedule_id, piece in db.execute("SELECT id, schedule FROM schedules").fetchall():
        schedule = msgspec.msgpack.decode(piece, type=Schedule)
        if renamed(schedule.job.queue) != schedule.job.queue:
            schedule.job.queue = renamed(schedule.job.queue)
            new = msgspec.msgpack.encode(schedule)
            db.execute("UPDATE schedules SET schedule = ? WHERE id = ?", (new, schedule_id))
            sealed ^= seal(("schedules", schedule_id, piece))
            sealed ^= seal(("schedules", schedule_id, new))
    if sealed:
        _reseal(db, sealed)


def _rename_jobs(db: sqlite3.Connection, table: str) -> None:
    """A page at a time: there may be more of them than memory has room for."""
    begins = f"{OLD_MARK}%"
    where = "(queue LIKE ? OR kind LIKE ? OR name LIKE ? OR key LIKE ?) AND j.id > ?"
    select = search.select(table, where, "id", bodies=False)
    after = -(2**63)
    while True:
        values = (begins, begins, begins, f"%/{begins}", after, PAGE_JOBS)
        jobs = [bodiless(row) for row in db.execute(select, values)]
        for job in jobs:
            _rename(job)
            db.execute(f"DELETE FROM {table} WHERE id = ?", (job.id,))
            db.execute(f"INSERT INTO {table} ({COLUMNS}) VALUES ({_MARKS})", row_of(job))
        if len(jobs) < PAGE_JOBS:
            return
        after = jobs[-1].id


def _rename(job: Job) -> None:
    job.queue, job.kind, job.name = map(renamed, (job.queue, job.kind, job.name))
    prefix, slash, rest = job.key.partition("/")
    job.key = prefix + slash + renamed(rest)


def _reseal(db: sqlite3.Connection, change: int) -> None:
    """Have the checksum of the small tables changed, and that of the totals with it."""
    row = db.execute("SELECT * FROM totals").fetchone()
    books = (*row[1:-2], row[-2] ^ change)
    db.execute("UPDATE totals SET sealed = ?, crc = ?", (books[-1], seal(books)))
