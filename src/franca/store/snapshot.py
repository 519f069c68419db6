"""What a broker must remember at birth, read from SQLite and checked as far as it is read.

And what a store must: the rows of jobs that are gone, and how its tables are made.

Every row that becomes part of it has a checksum, and of those that are only counted there must
be as many as were written: a wrong memory is worse than none.
"""

from __future__ import annotations

import itertools
import re
import sqlite3

import msgspec

from franca.core.changes import QueueSetting, Totals
from franca.core.model import KEPT_MS, NEVER, BacklogCount, Job, Policy, Schedule, Shelf, State
from franca.core.stubs import Stub, needs_stub, stub_of
from franca.core.wants import Snapshot
from franca.store import search
from franca.store.group import FLUSHED_BYTES, GroupWriter
from franca.store.port import count_timed
from franca.store.rows import BODY_APART_BYTES, SOUND, Row, bodiless, job_of, seal
from franca.store.segments import SEGMENT_COLUMNS, read_segment

RECENT_NAMES = 10_000
HELD_BODIES_BYTES = 24 * 1024 * 1024
"""Large bodies of ready jobs that are read at the start; the others stay in the store."""

_ID_SUMS = "coalesce(sum({0} & 0xffffffff), 0), coalesce(sum({0} >> 32), 0)"
"""What indexes have in common that are about the same jobs. In halves: no sum is too large."""


def read_snapshot(db: sqlite3.Connection, books: GroupWriter) -> Snapshot:
    """Read what is held and count the tail; `books` learns of it too. ValueError on damage."""
    *counts, held, tail, sealed = _totals(db)
    totals = Totals(*counts)
    books.learn_totals(totals)
    _learn_schema(db, books)
    settings = _sealed_rows(db, books, "queues")
    schedules = _sealed_rows(db, books, "schedules")
    books.eras = dict(_sealed_rows(db, books, "eras"))
    _learn_history(db, books)
    if books.sealed != sealed:
        raise ValueError("the settings of queues, schedules, or the list of segments are damaged")
    books.gone = search.read_gone(db)
    policies: dict[Policy, Policy] = {}
    jobs = _held(db, policies)
    held_rows = len({job.id for job in jobs})
    backlogs, tail_rows = _backlog_counts(db, books)
    if (held_rows, tail_rows) != (held, tail):
        there = f"{held_rows} and {tail_rows} are there"
        raise ValueError(f"{held} and {tail} jobs were written, {there}")
    books.held_rows, books.tail_rows = held, tail
    books.body_bytes = _body_bytes(db)
    return Snapshot(
        totals=totals,
        held=[job for job in jobs if job.id not in books.gone],
        backlog=backlogs,
        first_waiting=db.execute(
            "SELECT run_at, id FROM tail WHERE state = 0 AND state <> 1 ORDER BY run_at, id LIMIT 1"
        ).fetchone(),
        queues=[
            QueueSetting(queue, bool(paused), paused if paused > 1 else NEVER)
            for queue, paused in settings
        ],
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


def _learn_history(db: sqlite3.Connection, books: GroupWriter) -> None:
    """Know of all segments, and count what lies behind them as when it was written."""
    history = books.history
    for row in db.execute(f"SELECT {SEGMENT_COLUMNS} FROM segments ORDER BY id"):
        history.learn_segment(read_segment(row))
        books.seal("segments", (row[0], row[-1]))
    for row in db.execute("SELECT * FROM ended WHERE id > ? ORDER BY id", (history.last_piece,)):
        history.learn_piece(row)
    some = "SELECT length(tallies) AS size FROM rates"
    rates = db.execute(f"SELECT count(*), coalesce(sum(size), 0) FROM ({some})")
    books.rate_rows, books.rate_bytes = rates.fetchone()
    [first] = db.execute("SELECT coalesce(min(id), 1) FROM idempotency_keys").fetchone()
    [books.last_key] = db.execute("SELECT coalesce(max(id), 0) FROM idempotency_keys").fetchone()
    books.key_rows = books.last_key - first + 1


def _learn_schema(db: sqlite3.Connection, books: GroupWriter) -> None:
    """Know how to make the tables anew, and which ones a flush put aside."""
    for table, name, sql in db.execute(
        "SELECT tbl_name, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC"
    ):
        books.schema.setdefault(table, []).append(sql)
        number = re.search(r"_(\d+)(_|$)", name)
        if number is not None:
            books.flushes = max(books.flushes, int(number[1]))
    books.dropped += [table for table in books.schema if table.startswith("dropped_")]


def _backlog_counts(db: sqlite3.Connection, books: GroupWriter) -> tuple[list[BacklogCount], int]:
    """What each queue has in the tail, and how many rows there are, those that are gone too."""
    counts: dict[str, BacklogCount] = {}
    rows = 0
    for queue, era, priority, number in _ready_groups(db, books):
        rows += number
        now = books.eras.get(queue, 0)
        if era > now:
            raise ValueError(f"the tail of queue {queue!r} is of an era that has not begun")
        if era < now:
            books.emptied[queue] = None
            continue
        count = counts.setdefault(queue, BacklogCount(queue))
        count.ready += number
        count.levels[priority] = number
    for count in counts.values():
        count.first = db.execute(
            "SELECT priority, place FROM tail WHERE state = 1 AND queue = ? AND era = ? "
            "ORDER BY priority, place LIMIT 1",
            (count.queue, books.eras.get(count.queue, 0)),
        ).fetchone()
    books.eras_over += [q for q in books.eras if q not in counts and q not in books.emptied]
    # Found by an index and read from the table. Who is not sound, or not where a search would look
    # for it, is not counted: the sum is then another than that of what was written.
    low = high = 0
    timed, states = _index(books, "tail_timed"), _index(books, "tail_states")
    is_in = "EXISTS (SELECT 1 FROM tail s INDEXED BY {} WHERE s.state <> 1 AND {})"
    by_state = is_in.format(states, "(s.state, s.id) = (j.state, j.id)")
    by_time = is_in.format(timed, "(s.state, s.run_at, s.id) = (j.state, j.run_at, j.id)")
    for queue, state, failed, kept, number, low_sum, high_sum in db.execute(
        f"SELECT j.queue, j.state, j.failures > 0, j.run_at >= {KEPT_MS}, count(*), "
        f"{_ID_SUMS.format('i.id')} FROM tail i INDEXED BY {timed} JOIN tail j ON j.id = i.id "
        f"WHERE i.state <> 1 AND {SOUND} AND {by_state} AND {by_time} GROUP BY 1, 2, 3, 4"
    ):
        rows += number
        low, high = low + low_sum, high + high_sum
        count = counts.setdefault(queue, BacklogCount(queue))
        count_timed(count, State(state), failed, kept, number)
    named = f"tail INDEXED BY {_index(books, 'tail_named')} WHERE state <> 1"
    if db.execute(f"SELECT {_ID_SUMS.format('id')} FROM {named}").fetchone() != (low, high):
        raise ValueError("two indexes of the tail are not about the same jobs")
    return list(counts.values()), rows


def _index(books: GroupWriter, name: str) -> str:
    """What an index of the tail is called now: a flush makes it anew under another name."""
    for sql in books.schema.get("tail", ()):
        if sql.startswith(f"CREATE INDEX {name}"):
            return sql.split()[2]
    raise ValueError(f"the index {name} is missing")


def _ready_groups(db: sqlite3.Connection, books: GroupWriter) -> list[tuple[str, int, int, int]]:
    """How many READY rows of the tail there are by queue, era and priority, in this order.

    They are counted in the index, which is compared with the table at the two ends of each group:
    to compare all of it would be to read the whole tail. An entry that is not what was written
    and changes a count, or leads a search astray, is at such an end or out of its order.
    """
    index = _index(books, "tail_ready")
    groups: list[tuple[str, int, int, int]] = db.execute(
        f"SELECT queue, era, priority, count(*) FROM tail INDEXED BY {index} WHERE state = 1 "
        "GROUP BY queue, era, priority"
    ).fetchall()
    keys = [group[:3] for group in groups]
    entry = (
        "SELECT (i.queue, i.era, i.priority, i.place) IS (j.queue, j.era, j.priority, j.place) "
        f"AND j.state = 1 FROM tail i INDEXED BY {index} LEFT JOIN tail j ON j.id = i.id "
        "WHERE i.state = 1 AND i.queue = ? AND i.era = ? AND i.priority = ? ORDER BY i.place"
    )
    for key, end in itertools.product(keys, ("", " DESC")):
        if db.execute(f"{entry}{end} LIMIT 1", key).fetchone() != (1,):
            raise ValueError(f"an index of the tail is damaged: {key[0]!r} is not a job's queue")
    search.check_order(keys)
    places = f"SELECT place FROM tail INDEXED BY {index} WHERE state = 1 AND "
    for key in keys:
        search.check_order(db.execute(f"{places} (queue, era, priority) = (?, ?, ?)", key))
    return groups


def _body_bytes(db: sqlite3.Connection) -> int:
    """The size of bodies that lie apart, as far as it matters to a flush: each is a large one."""
    some = f"SELECT length(body) AS size FROM bodies LIMIT {FLUSHED_BYTES // BODY_APART_BYTES + 1}"
    [size] = db.execute(f"SELECT coalesce(sum(size), 0) FROM ({some})").fetchone()
    return int(size)


def _known(db: sqlite3.Connection) -> list[Stub]:
    """Names and keys that a submit may repeat though their jobs are not in memory."""
    # Without the bodies that lie apart: they may be larger than memory.
    rows = f"SELECT {search.columns_of('tail')} FROM tail j WHERE ({search.LIVING}"
    sound = f"OR NOT {SOUND})"
    recent = db.execute(f"{rows} {sound} ORDER BY j.id DESC LIMIT {RECENT_NAMES}").fetchall()
    keyed = db.execute(f"{rows} AND j.state <= 1 {sound} AND j.key <> ''")
    jobs = map(bodiless, itertools.chain(keyed, reversed(recent)))
    return list({job.id: stub_of(job) for job in jobs if needs_stub(job)}.values())
