"""What a broker must remember at birth, read from SQLite and checked as far as it is read.

Every row that becomes part of it has a checksum, and of those that are only counted there must
be as many as were written: a wrong memory is worse than none.
"""

from __future__ import annotations

import itertools
import sqlite3

import msgspec

from franca.core.changes import QueueSetting, Totals
from franca.core.known import Known, is_known, known_of
from franca.core.model import Job, JobId, Policy, Schedule, Shelf, State, TailCount
from franca.core.tail import Snapshot
from franca.store import search
from franca.store.group import GroupWriter
from franca.store.rows import COLUMNS, Row, bodiless, job_of, seal

RECENT_NAMES = 10_000
HELD_BODIES_BYTES = 32 * 1024 * 1024
"""Large bodies of ready jobs that are read at the start; the others stay in the store."""


def read_snapshot(db: sqlite3.Connection, books: GroupWriter) -> Snapshot:
    """Read what is held and count the tail; `books` learns of it too. ValueError on damage."""
    *totals, held, tail, sealed = _totals(db)
    policies: dict[Policy, Policy] = {}
    jobs = _held(db, policies)
    tails = _tail_counts(db)
    tail_rows = sum(c.ready + c.scheduled + c.retrying + c.dead + c.leased for c in tails)
    held_rows = len({job.id for job in jobs})
    if (held_rows, tail_rows) != (held, tail):
        raise ValueError(
            f"{held} and {tail} jobs were written, {held_rows} and {tail_rows} are there"
        )
    books.held_rows, books.tail_rows = held, tail
    for batch_id, count in db.execute("SELECT id, count FROM ended ORDER BY id"):
        books.learn_ended(batch_id, count)
    settings = _sealed_rows(db, books, "queues")
    schedules = _sealed_rows(db, books, "schedules")
    if books.sealed != sealed:
        raise ValueError("the settings of queues or the schedules are damaged")
    return Snapshot(
        totals=Totals(*totals),
        held=jobs,
        tail=tails,
        first_waiting=db.execute(
            "SELECT run_at, id FROM tail WHERE state = 0 ORDER BY run_at, id LIMIT 1"
        ).fetchone(),
        queues=[QueueSetting(queue, bool(paused)) for queue, paused in settings],
        schedules=[msgspec.msgpack.decode(piece, type=Schedule) for _, piece in schedules],
        known=_known(db),
    )


def _held(db: sqlite3.Connection, policies: dict[Policy, Policy]) -> list[Job]:
    """Jobs that were in memory. Of those that run or wait, bodies that lie apart are left there."""
    rows = db.execute(search.select("jobs", bodies=False))
    jobs = [job_of(row, policies, Shelf.HELD) for row in rows]
    left = HELD_BODIES_BYTES
    whole = search.select("jobs", "j.id = ?")
    for index, job in enumerate(jobs):
        if job.away and job.state is State.READY and left > 0:
            jobs[index] = job_of(db.execute(whole, (job.id,)).fetchone(), policies, Shelf.HELD)
            left -= len(jobs[index].body)
    return jobs


def _totals(db: sqlite3.Connection) -> list[int]:
    """Counts of jobs, then how many rows there must be on each shelf, then `sealed`."""
    row: list[int] = list(db.execute("SELECT * FROM totals").fetchone() or ())
    if not row or seal(row[1:-1]) != row[-1]:
        raise ValueError("the totals are damaged")
    return row[1:-1]


def _sealed_rows(db: sqlite3.Connection, books: GroupWriter, table: str) -> list[Row]:
    rows = db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    for row in rows:
        books.seal(table, row)
    return rows


def _tail_counts(db: sqlite3.Connection) -> list[TailCount]:
    counts: dict[str, TailCount] = {}
    for queue, priority, ready in db.execute(
        "SELECT queue, priority, count(*) FROM tail WHERE state = 1 GROUP BY queue, priority"
    ).fetchall():
        count = counts.setdefault(queue, TailCount(queue))
        count.ready += ready
        count.levels[priority] = ready
    for count in counts.values():
        count.first = db.execute(
            "SELECT priority, place FROM tail WHERE state = 1 AND queue = ? "
            "ORDER BY priority, place LIMIT 1",
            (count.queue,),
        ).fetchone()
    # Found by the index and read from the table, because the two may not say the same.
    for queue, state, failed, number, amiss in db.execute(
        "SELECT j.queue, j.state, j.failures > 0, count(*), sum((i.state, i.run_at) <> "
        "(j.state, j.run_at)) FROM tail i INDEXED BY tail_timed JOIN tail j ON j.id = i.id "
        "WHERE i.state <> 1 GROUP BY 1, 2, 3"
    ):
        if amiss:
            raise ValueError("an index of the tail is damaged: its times are not those of the jobs")
        count = counts.setdefault(queue, TailCount(queue))
        if state == State.DEAD:
            count.dead += number
        elif state == State.LEASED:
            count.leased += number
        elif failed:
            count.retrying += number
        else:
            count.scheduled += number
    return list(counts.values())


def _known(db: sqlite3.Connection) -> list[Known]:
    """Names and keys that a submit may repeat though their jobs are not in memory."""
    # Without the bodies that lie apart: they may be larger than memory.
    recent = db.execute(
        f"SELECT {COLUMNS} FROM tail ORDER BY id DESC LIMIT {RECENT_NAMES}"
    ).fetchall()
    keyed = db.execute(f"SELECT {COLUMNS} FROM tail WHERE key <> '' AND state <= 1")
    known: dict[JobId, Known] = {}
    for row in itertools.chain(keyed, reversed(recent)):
        job = bodiless(row)
        if is_known(job):
            known[job.id] = known_of(job)
    return list(known.values())
