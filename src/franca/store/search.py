"""Searches over both shelves, in pages that look at a bounded number of rows each.

Every statement finds its rows by an index. What no index can tell apart (a queue, a kind, the names
of ready jobs) is looked for in order of ids, so many rows at a time: a page may then have
fewer jobs than were asked for, or none, and say how far it looked.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple

from franca.core.model import JobId, JobQuery, QueueCount, Shelf, State
from franca.store.rows import COLUMNS, Row, seal

LOOK_ROWS = 2_000
"""Rows of one shelf that a page looks at: more would hold up whoever waits for it."""
LIVING = "(j.state <> 1 OR j.era = ifnull((SELECT e.era FROM eras e WHERE e.queue = j.queue), 0))"
"""What a row of the tail must be, or it is only still there because nobody deleted it yet."""
_RUN_AT = [column.strip() for column in COLUMNS.split(",")].index("run_at")
_FIRST, _LAST = -(2**63), 2**63 - 1
_INDEXED = frozenset({State.WAITING, State.DEAD, State.DONE, State.CANCELLED})
"""States whose jobs are found by an index, or are on no shelf at all."""
_FITS: dict[State, str] = {
    State.WAITING: "{} = 0 AND j.state <> 1",
    State.DEAD: "{} = 4 AND j.state <> 1",
}
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

    def where(self, query: JobQuery) -> str:
        """What a row must be, besides what the query says of all."""
        if self.state is not None:
            # Those that are named are found by their names: the sign keeps the state's index out.
            by_other = query.ids or self.finds(query)
            return _FITS[self.state].format("+j.state" if by_other else "j.state")
        among = ", ".join(str(int(state)) for state in query.states)
        conditions = [f"+j.state IN ({among})"] if among else []
        return " AND ".join([*conditions, LIVING] if self.shelf is Shelf.TAIL else conditions)

    def finds(self, query: JobQuery) -> bool:
        """Whether an index leads to the names that are asked for."""
        return bool(query.names) and self.shelf is Shelf.TAIL and self.state is not None

    def walks(self, query: JobQuery) -> bool:
        """Whether rows must be looked at that do not fit."""
        if query.ids or query.by_time or self.finds(query):
            return False
        return self.state is None or bool(query.queue or query.kind or query.names)


class Page(NamedTuple):
    """Rows without bodies that lie apart, and the id up to which was looked; 0 if to the end.

    A page that looked further has all that fits up to there, which may be nothing.
    """

    rows: list[tuple[Shelf, Row]]
    reached: JobId


def read_page(
    db: sqlite3.Connection, query: JobQuery, sources: list[Source], gone: Collection[JobId]
) -> Page:
    """The next jobs that fit; those that are held and `gone` have only not been deleted yet."""
    limit = query.limit
    conditions, values = _conditions(query)
    bound = None
    order = "j.run_at, j.id"
    if not query.by_time:
        order = "j.id DESC" if query.newest_first else "j.id"
        bound = _bound(db, [source for source in sources if source.walks(query)], query)
        edge = _FIRST if query.newest_first else _LAST
        ends = sorted((_next_id(query), edge if bound is None else bound))
        conditions.append("j.id BETWEEN ? AND ?")
        values += ends
    found: list[tuple[Shelf, Row]] = []
    for source in sources:
        where = " AND ".join(filter(None, [source.where(query), *conditions])) or "1"
        columns, table = columns_of(source.table), source.table
        sql = f"SELECT {columns} FROM {table} j WHERE {where} ORDER BY {order} LIMIT ?"
        held_and_gone: Collection[JobId] = ()
        if query.by_time and source.shelf is Shelf.HELD:
            held_and_gone = gone
        rows = db.execute(sql, [*values, limit + len(held_and_gone)])
        # By time there are no pages: of held jobs it must be looked behind those that are gone.
        living = (row for row in rows if row[0] not in held_and_gone)
        found += [(source.shelf, row) for row in islice(living, limit)]
    found.sort(key=_by_time if query.by_time else _by_id, reverse=query.newest_first)
    if query.by_time:
        return Page(found[:limit], 0)
    there = [entry for entry in found[:limit] if entry[1][0] not in gone]
    return Page(there, bound or 0 if len(found) < limit else _by_id(found[limit - 1]))


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
    held, tail = Source(Shelf.HELD, "jobs", None), Source(Shelf.TAIL, "tail", None)
    if not query.states or not _INDEXED.issuperset(query.states):
        return [held, tail]
    # Held jobs have no index, which each of them would pay for. Dead ones are never held.
    sources = [held] if State.WAITING in query.states else []
    return sources + [tail._replace(state=state) for state in _FITS if state in query.states]


def _bound(db: sqlite3.Connection, sources: list[Source], query: JobQuery) -> JobId | None:
    """The id up to which none of these has more rows than a page looks at; None if they end."""
    sign, order = ("<=", "DESC") if query.newest_first else (">=", "")
    bounds: list[JobId] = []
    for source in sources:
        state = "1"
        if source.state is not None:
            state = _FITS[source.state].format("j.state")
        sql = (
            f"SELECT j.id FROM {source.table} j WHERE {state} AND j.id {sign} ? "
            f"ORDER BY j.id {order} LIMIT 1 OFFSET {LOOK_ROWS - 1}"
        )
        bounds += [job_id for (job_id,) in db.execute(sql, (_next_id(query),))]
    if not bounds:
        return None
    return max(bounds) if query.newest_first else min(bounds)


def _next_id(query: JobQuery) -> JobId:
    """The first id that the page may begin with."""
    if not query.after:
        return _LAST if query.newest_first else _FIRST
    return query.after - 1 if query.newest_first else query.after + 1


def _conditions(query: JobQuery) -> tuple[list[str], list[object]]:
    """What the query says of all jobs, but for their states and the page."""
    conditions: list[str] = []
    values: list[object] = []
    if query.queue:
        conditions.append("+j.queue = ?")
        values.append(query.queue)
    if query.kind:
        conditions.append("j.kind = ?")
        values.append(query.kind)
    if query.names:
        conditions.append(f"j.name IN ({_marks(query.names)})")
        values += query.names
    if query.ids:
        conditions.append(f"j.id IN ({_marks(query.ids)})")
        values += query.ids
    return conditions, values


def count_rows(rows: Iterable[tuple[str, int, int, int]]) -> list[QueueCount]:
    """Counts by queue from rows of (queue, state, ever failed, count)."""
    counts: dict[str, QueueCount] = {}
    for queue, state, failed, number in rows:
        count = counts.setdefault(queue, QueueCount(queue))
        if state == State.READY:
            count.ready += number
        elif state == State.LEASED:
            count.leased += number
        elif state == State.DEAD:
            count.dead += number
        elif failed:
            count.retrying += number
        else:
            count.scheduled += number
    return list(counts.values())


def _by_id(found: tuple[Shelf, Row]) -> JobId:
    job_id: JobId = found[1][0]
    return job_id


def _by_time(found: tuple[Shelf, Row]) -> tuple[int, JobId]:
    row = found[1]
    return row[_RUN_AT], row[0]


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
