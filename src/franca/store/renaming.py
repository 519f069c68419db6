"""Names in a store that was written before there was one rule for names that are no UTF-8."""

from __future__ import annotations

import sqlite3

import msgspec

from franca.core.model import Job, Schedule
from franca.core.names import renamed
from franca.store import search
from franca.store.rows import COLUMN_COUNT, COLUMNS, bodiless, row_of, seal

OLD_MARK = "\ufffd"
"""What the old form of a name begins with; a key may have it behind a prefix and a slash."""
PAGE_JOBS = 1_000
_MARKS = ", ".join("?" * COLUMN_COUNT)


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
