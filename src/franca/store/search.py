"""How jobs come out of SQLite: supplies of the tail, recalls, and searches over both shelves.

Searches go in pages that look at a bounded number of rows each.

Every statement finds its rows by an index. What no index can tell apart (a queue, a kind, the names
of ready jobs) is looked for in order of ids, so many rows at a time: a page may then have
fewer jobs than were asked for, or none, and say how far it looked.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from franca.core.model import Job, JobId, JobQuery, Policy, Shelf, State
from franca.core.wants import Recall, SupplyReady, Want
from franca.store.group import GroupWriter
from franca.store.rows import APART, COLUMNS, SOUND, Row, job_of, seal

RECALLED_BYTES = 16 * 1024 * 1024
FOUND_BYTES = 64 * 1024 * 1024
"""Bodies that are read at once for a recall and for a search; a further job is not read then."""
_WAITING = "j.state = 0 AND j.state <> 1"
LOOK_ROWS = 2_000
"""Rows of one shelf that a page looks at: more would hold up whoever waits for it."""
CHECKED_ROWS = 100
"""And those before them whose order is checked: more than one page of the file has."""
LIVING = "(j.state <> 1 OR j.era + 0 = ifnull((SELECT era FROM eras WHERE queue = j.queue), 0))"
"""What a row of the tail must be, or it is only still there because nobody deleted it yet."""
_RUN_AT = [column.strip() for column in COLUMNS.split(",")].index("run_at")
_FIRST, _LAST = -(2**63), 2**63 - 1
_INDEXED = frozenset({State.WAITING, State.DEAD, State.DONE, State.CANCELLED})
"""States whose jobs are found by an index, or are on no shelf at all."""
_FITS = {State.WAITING: "{} = 0 AND j.state <> 1", State.DEAD: "{} = 4 AND j.state <> 1"}
"""How the jobs of such a state are asked for in the tail: SQLite uses an index of some rows only if
the condition of that index is said literally."""


def columns_of(table: str) -> str:
    """What `rows.bodiless` reads: the era of a row of the tail is put in front of `apart`."""
    names = [f"j.{column.strip()}" for column in COLUMNS.split(",")]
    if table == "tail":
        names[names.index("j.apart")] = "j.era << 1 | j.apart"
    return ", ".join(names)


def select(table: str, where: str = "", order: str = "", *, bodies: bool = True) -> str:
    """All columns of a shelf's jobs, with the `bodies` that lie apart; one limit if ordered."""
    sql = f"SELECT {columns_of(table)} FROM {table} j"
    if bodies:
        join = "LEFT JOIN bodies b ON j.apart AND b.id = j.id"
        sql = f"SELECT {columns_of(table)}, b.body, b.crc FROM {table} j {join}"
    if where:
        sql += f" WHERE {where}"
    if not order:
        return sql
    by = ", ".join(f"j.{column.strip()}" for column in order.split(","))
    return f"{sql} ORDER BY {by} LIMIT ?"


class Source(NamedTuple):
    """Rows of one shelf in order of their ids: all of them, or by an index those of one state."""

    shelf: Shelf
    table: str
    state: State | None

    def where(self, query: JobQuery, fits: list[str]) -> str:
        """What a row must be: what the query says of all, and what it says of this source."""
        if self.state is not None:
            # Those that are named are found by their names: the sign keeps the state's index out.
            by_other = query.ids or self.finds(query)
            state = _FITS[self.state].format("+j.state" if by_other else "j.state")
            return " AND ".join([state, *fits])
        among = ", ".join(str(int(state)) for state in query.states)
        conditions = [*fits, f"+j.state IN ({among})" if among else "1"]
        if self.shelf is Shelf.HELD:
            return " AND ".join(conditions)
        return f"({' AND '.join([*conditions, LIVING])} OR NOT {SOUND})"

    def finds(self, query: JobQuery) -> bool:
        """Whether an index leads to the names that are asked for."""
        return bool(query.names) and self.shelf is Shelf.BACKLOG and self.state is not None

    def walks(self, query: JobQuery) -> bool:
        """Whether rows must be looked at that do not fit."""
        if query.ids or query.by_time or self.finds(query):
            return False
        return self.state is None or bool(query.queue or query.kind or query.names)


def read_page(
    db: sqlite3.Connection, query: JobQuery, sources: list[Source], gone: Collection[JobId]
) -> tuple[list[tuple[Shelf, Row]], JobId]:
    """Rows of the next jobs that fit, without bodies that lie apart, and how far was looked.

    That is an id, up to which all that fits is there, which may be nothing; 0 if it is the end.
    Those that are held and `gone` have only not been deleted yet.
    """
    limit = query.limit
    fits, values = _conditions(query)
    within = [f"j.id IN ({', '.join('?' * len(query.ids))})"] if query.ids else []
    values += query.ids
    bound = None
    order = "run_at, id"
    if not query.by_time:
        order = "id DESC" if query.newest_first else "id"
        bound, _ = bound_of(db, [source for source in sources if source.walks(query)], query)
        edge = _FIRST if query.newest_first else _LAST
        ends = sorted((_next_id(query), edge if bound is None else bound))
        within.append("j.id BETWEEN ? AND ?")
        values += ends
    found: list[tuple[Shelf, Row]] = []
    for source in sources:
        where = " AND ".join([source.where(query, fits), *within])
        sql = select(source.table, where, order, bodies=False)
        held_and_gone = gone if query.by_time and source.shelf is Shelf.HELD else ()
        rows = db.execute(sql, [*values, limit + len(held_and_gone)])
        # By time there are no pages: of held jobs it must be looked behind those that are gone.
        living = (row for row in rows if row[0] not in held_and_gone)
        found += [(source.shelf, row) for row in islice(living, limit)]
    if query.by_time:
        found.sort(key=lambda entry: (entry[1][_RUN_AT], entry[1][0]))
        return found[:limit], 0
    found.sort(key=lambda entry: entry[1][0], reverse=query.newest_first)
    there = [entry for entry in found[:limit] if entry[1][0] not in gone]
    return there, bound or 0 if len(found) < limit else found[limit - 1][1][0]


class Gone:
    """The same for one who reads page by page: what is gone now may not have been, and be back."""

    def __init__(self) -> None:
        self._ids: Collection[JobId] = ()
        self._marks: list[Row] = []

    def now(self, db: sqlite3.Connection) -> Collection[JobId]:
        """By the file, as this transaction sees it."""
        if (marks := db.execute("SELECT id, crc FROM gone").fetchall()) != self._marks:
            self._ids, self._marks = read_gone(db), marks
        return self._ids


@contextmanager
def reading(db: sqlite3.Connection) -> Iterator[None]:
    """One view of the file inside the block."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def read_gone(db: sqlite3.Connection) -> dict[JobId, None]:
    """Held jobs that are only still there because nobody deleted their rows yet.

    ValueError if that is not what was written.
    """
    gone: dict[JobId, None] = {}
    for *row, crc in db.execute("SELECT * FROM gone ORDER BY id"):
        if seal(row) != crc:
            raise ValueError("the list of jobs that are gone is damaged")
        ids = array("q")
        ids.frombytes(row[1])
        gone.update(dict.fromkeys(ids))
    return gone


def sources_of(query: JobQuery) -> list[Source]:
    """Where to look."""
    held, tail = Source(Shelf.HELD, "jobs", None), Source(Shelf.BACKLOG, "tail", None)
    if not query.states or not _INDEXED.issuperset(query.states):
        return [held, tail]
    # Held jobs have no index, which each of them would pay for. Dead ones are never held.
    sources = [held] if State.WAITING in query.states else []
    return sources + [tail._replace(state=state) for state in _FITS if state in query.states]


def bound_of(
    db: sqlite3.Connection, sources: list[Source], query: JobQuery
) -> tuple[JobId | None, int]:
    """The id up to which none of these has more rows than a page looks at; None if they end.

    And how many rows there are up to it, at most.
    """
    step = -1 if query.newest_first else 1
    ways = [(">=", ""), ("<", "DESC")] if step > 0 else [("<=", "DESC"), (">", "")]
    start = _next_id(query)
    bounds: list[JobId] = []
    looked_at = 0
    for source in sources:
        state = "1" if source.state is None else _FITS[source.state].format("j.state")
        where = f"{source.table} j WHERE {state} AND j.id"
        sql = f"SELECT j.id FROM {where} {{}} ? ORDER BY j.id {{}} LIMIT ?"
        # Some before the start too, and a mark right before it: they are not on that side of it if
        # the search was led astray.
        ids, before = (
            db.execute(sql.format(*way), (start, number)).fetchall()
            for way, number in zip(ways, (LOOK_ROWS, CHECKED_ROWS), strict=True)
        )
        check_order([*before[::-1], (start - (step > 0), 0), *ids][::step])
        looked_at += len(ids)
        bounds += [job_id for (job_id,) in ids[LOOK_ROWS - 1 :]]
    if not bounds:
        return None, looked_at
    return max(bounds) if query.newest_first else min(bounds), looked_at


def _next_id(query: JobQuery) -> JobId:
    """The first id that the page may begin with."""
    if not query.after:
        return _LAST if query.newest_first else _FIRST
    return query.after - 1 if query.newest_first else query.after + 1


def _conditions(query: JobQuery) -> tuple[list[str], list[object]]:
    """What the query says of all jobs, but for their states, their ids and the page."""
    conditions: list[str] = []
    values: list[object] = []
    for column, wanted in (
        ("+j.queue", (query.queue,) if query.queue else ()),
        ("j.kind", (query.kind,) if query.kind else ()),
        ("j.name", query.names),
    ):
        if wanted:
            conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
            values += wanted
    return conditions, values


class Reading:
    """Reads on any connection. ValueError if a row is not what was written."""

    def __init__(self, books: GroupWriter) -> None:
        self._books = books
        self._policies: dict[Policy, Policy] = {}

    def supplies(self, db: sqlite3.Connection, wants: Sequence[Want]) -> list[list[Job]]:
        """Answers to the first of these wants, as many as may be brought at once."""
        answers: list[list[Job]] = []
        read = 0
        for want in wants:
            if not isinstance(want, Recall) and read >= want.bytes_max:
                break
            answers.append(self._supply(db, want))
            read += sum(job.weight for job in answers[-1])
        return answers

    def _supply(self, db: sqlite3.Connection, want: Want) -> list[Job]:
        if isinstance(want, Recall):
            # What is held and has one of these names, the broker finds in memory.
            skip = Shelf.HELD if want.query.names else None
            gone = self._books.gone
            jobs, want.reached = self._page(db, want.query, RECALLED_BYTES, gone, skip=skip)
            return jobs
        if isinstance(want, SupplyReady):
            where = "j.state = 1 AND j.queue = ? AND j.era = ? AND (j.priority, j.place) > (?, ?)"
            sql = select("tail", where, "priority, place")
            values = (want.queue, self._books.eras.get(want.queue, 0), *want.mark, want.limit)
            jobs = self._tail(db, sql, values, want.bytes_max)
            check_order([want.mark, *((job.priority, job.place) for job in jobs)])
            return jobs
        # In two parts, because of (run_at, id) SQLite would use the first only, and any number of
        # jobs may have the same time.
        sql = select("tail", f"{_WAITING} AND j.run_at = ? AND j.id > ?", "id", bodies=False)
        jobs = self._tail(db, sql, (*want.mark, want.limit), want.bytes_max)
        room = want.bytes_max - sum(job.weight for job in jobs)
        if len(jobs) < want.limit and room > 0:
            sql = select("tail", f"{_WAITING} AND j.run_at > ?", "run_at, id", bodies=False)
            jobs += self._tail(db, sql, (want.mark[0], want.limit - len(jobs)), room)
        check_order([want.mark, *((job.run_at, job.id) for job in jobs)])
        return jobs

    def _tail(
        self, db: sqlite3.Connection, sql: str, values: Sequence[object], bytes_max: int
    ) -> list[Job]:
        jobs: list[Job] = []
        for row in db.execute(sql, values):
            job = job_of(row, self._policies, Shelf.BACKLOG)
            jobs.append(job)
            bytes_max -= job.weight
            if bytes_max <= 0:
                break
        return jobs

    def _page(
        self,
        db: sqlite3.Connection,
        query: JobQuery,
        room: int,
        gone: Collection[JobId],
        *,
        skip: Shelf | None = None,
    ) -> tuple[list[Job], JobId]:
        """The next jobs that fit, and how far was looked, which is 0 if all that fit are here."""
        sources = [s for s in sources_of(query) if s.shelf is not skip]
        rows, reached = read_page(db, query, sources, gone)
        jobs: list[Job] = []
        for shelf, row in rows:
            if row[5] & APART and query.with_bodies:
                body = db.execute("SELECT body, crc FROM bodies WHERE id = ?", row[:1]).fetchone()
                row += body or (None, None)
            jobs.append(job_of(row, self._policies, shelf))
            room -= jobs[-1].weight
            if room <= 0 and not query.by_time:
                return jobs, jobs[-1].id
        return jobs, reached

    def find_live(
        self, db: sqlite3.Connection, query: JobQuery, check: Callable[[], None]
    ) -> list[Job]:
        """Page by page, so that nothing has to wait for all of it; each after a `check`."""
        found: list[Job] = []
        room = FOUND_BYTES
        rest = query
        gone = Gone()
        while True:
            check()
            with reading(db):
                jobs, reached = self._page(db, rest, room, gone.now(db))
            found += jobs
            room -= sum(job.weight for job in jobs)
            if len(found) >= query.limit or not reached or room <= 0:
                return found
            rest = replace(query, after=reached, limit=query.limit - len(found))


def check_order(keys: Iterable[Row]) -> None:
    """Each job comes once and in its turn; a damaged table or index may say otherwise."""
    if any(first >= second for first, second in pairwise(keys)):
        raise ValueError("the tail or an index of it is damaged: jobs come twice or in disorder")
