"""Searches through live jobs of SQLite as `Search` asks for them: windows of rows, the rest later.

Waiting jobs come by time, all others by id, the newest first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from franca.core.history import Search
from franca.core.model import Job, JobId, JobQuery, Policy, Shelf
from franca.store.criteria import BY_TIME, Criteria, Key, Names, Order
from franca.store.rows import APART, Row, job_of
from franca.store.search import (
    LOOK_ROWS,
    Gone,
    Source,
    bound_of,
    check_order,
    columns_of,
    reading,
    select,
    sources_of,
)

READ_BODY_BYTES = 64 * 1024
"""A larger body that lies apart is not read for a page that cuts them."""
FOUND_BYTES = 64 * 1024 * 1024
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_THESE = "IN (SELECT value FROM json_each(?))"
_RUN_AT = [column.strip() for column in columns_of("jobs").split(",")].index("j.run_at")

Rows = list[tuple[Shelf, Row]]


@dataclass(slots=True)
class LiveLook:
    """A look through both shelves: for what, in which order, from behind which place.

    `reached` is a place up to which all that fits was found; None if there is nothing behind.
    """

    search: Search
    criteria: Criteria
    order: Order
    after: Key
    limit: int
    policies: dict[Policy, Policy]
    check: Callable[[], None]
    looked_at: int = 0
    reached: Key | None = None
    found: list[tuple[Key, Job]] = field(default_factory=list)
    _room: int = FOUND_BYTES

    def through(self, db: sqlite3.Connection) -> None:
        """Page by page, so that nothing waits for all of it. ValueError if a row is damaged."""
        gone = Gone()
        after = self.after
        pages = self._by_time if self.order is BY_TIME else self._by_id
        while True:
            self.check()
            with reading(db):
                skipped = gone.now(db)
                rows, reached = pages(db, after)
                self.reached = self._take(db, rows, skipped, after, reached)
            enough = len(self.found) >= self.limit or self.looked_at >= self.search.look_max
            if self.reached is None or enough or self._room <= 0:
                return
            after = self.reached

    # -- rows ---------------------------------------------------------------------------------

    def _by_id(self, db: sqlite3.Connection, after: Key) -> tuple[Rows, Key | None]:
        """The rows of the next window, and how far it goes."""
        search = self.search
        after_id = -after[0] + (after[1] < 0)
        if after_id > _HIGHEST:
            after_id = 0
        query = JobQuery(
            search.states, names=search.names, ids=search.ids, after=after_id, newest_first=True
        )
        sources = sources_of(query)
        walking = [source for source in sources if self._walks(source, query)]
        bound, looked_at = bound_of(db, walking, query)
        self.looked_at += looked_at
        conditions, values = self._conditions()
        lowest = _LOWEST if bound is None else bound
        values += [lowest, after_id - 1 if after_id else _HIGHEST]
        number = LOOK_ROWS if self._sifts() else self.limit
        ends = [] if bound is None else [bound]
        found: Rows = []
        for source in sources:
            where = f"{source.where(query, conditions)} AND j.id BETWEEN ? AND ?"
            sql = select(source.table, where, "id DESC", bodies=False)
            rows = db.execute(sql, [*values, number]).fetchall()
            check_order([(-row[0],) for row in rows])
            self.looked_at += 0 if source in walking else len(rows)
            if len(rows) == number:
                ends.append(rows[-1][0])
            found += [(source.shelf, row) for row in rows]
        return found, (-max(ends), 0) if ends else None

    def _walks(self, source: Source, query: JobQuery) -> bool:
        """Whether rows must be looked at that do not fit."""
        if query.ids or source.finds(query):
            return False
        criteria = self.criteria
        has_more = criteria.queues or criteria.kinds or criteria.names or self._sifts()
        return source.state is None or bool(has_more)

    def _by_time(self, db: sqlite3.Connection, after: Key) -> tuple[Rows, Key | None]:
        """The next rows of jobs that wait for their time, and the place of the last."""
        criteria = self.criteria
        mark = (max(_LOWEST, after[0]), max(_LOWEST, after[1]))
        few = bool(criteria.ids or criteria.names)
        narrow = few or criteria.queues or criteria.kinds or self._sifts()
        number = LOOK_ROWS if narrow else self.limit
        behind = "(+j.run_at, +j.id) > (?, ?)"
        held = f"j.id > ? AND +j.state = 0 AND {behind}"
        found: list[Rows] = [self._rows(db, Shelf.HELD, held, (_LOWEST, *mark), number)]
        if few:
            conditions, values = self._conditions()
            where = " AND ".join(["+j.state = 0 AND j.state <> 1", *conditions, behind])
            found.append(self._rows(db, Shelf.BACKLOG, where, (*values, *mark), number))
        else:
            # In two parts, as in `search.Reading`: SQLite would use the first column only.
            waiting = "j.state = 0 AND j.state <> 1 AND j.run_at"
            tail = self._rows(db, Shelf.BACKLOG, f"{waiting} = ? AND j.id > ?", mark, number)
            left = number - len(tail)
            if left > 0:
                tail += self._rows(db, Shelf.BACKLOG, f"{waiting} > ?", mark[:1], left)
            check_order([mark, *map(_time_of, tail)])
            found.append(tail)
        ends = [_time_of(rows[-1]) for rows in found if len(rows) == number]
        self.looked_at += sum(map(len, found))
        return [entry for rows in found for entry in rows], min(ends, default=None)

    def _rows(
        self, db: sqlite3.Connection, shelf: Shelf, where: str, values: Row, limit: int
    ) -> Rows:
        table = "jobs" if shelf is Shelf.HELD else "tail"
        sql = select(table, where, "run_at, id", bodies=False)
        return [(shelf, row) for row in db.execute(sql, [*values, limit])]

    def _sifts(self) -> bool:
        """Whether there are conditions that no statement knows."""
        criteria = self.criteria
        begins = any(names and names.begins for names in (criteria.queues, criteria.kinds))
        timed = bool(criteria.since or criteria.until)
        other = criteria.retried is not None or self.search.fits is not None
        return begins or timed or other

    def _conditions(self) -> tuple[list[str], list[object]]:
        """What a statement can say, but for states and the window."""
        criteria = self.criteria
        conditions: list[str] = []
        values: list[object] = []
        for column, wanted in (
            ("+j.queue", _exact(criteria.queues)),
            ("+j.kind", _exact(criteria.kinds)),
            ("j.name", criteria.names),
        ):
            if wanted:
                conditions.append(_one_of(column, len(wanted)))
                values += wanted
        if criteria.ids:
            conditions.append(f"j.id {_THESE}")
            values.append(json.dumps(list(criteria.ids)))
        return conditions, values

    # -- jobs ---------------------------------------------------------------------------------

    def _take(
        self,
        db: sqlite3.Connection,
        rows: Rows,
        gone: Collection[JobId],
        after: Key,
        reached: Key | None,
    ) -> Key | None:
        """Keep the jobs that fit; returns how far, with bodies, they were taken."""
        place, fits = self.order.of_live, self.search.fits
        jobs = [(shelf, row, job_of(row, self.policies, shelf)) for shelf, row in rows]
        keyed = [(place(job), shelf, row, job) for shelf, row, job in jobs]
        keyed.sort(key=lambda entry: entry[0])
        for key, shelf, row, job in keyed:
            if key <= after or (reached is not None and key > reached):
                continue
            if (shelf is Shelf.HELD and job.id in gone) or not self.criteria.among((job,)):
                continue
            if self.search.body_bytes < 0:
                job = self._with_body(db, shelf, row, job)
                self._room -= job.weight
            if fits is None or fits(job):
                if self.search.body_bytes >= 0:
                    job = self._with_body(db, shelf, row, job)
                self.found.append((key, job))
            if self._room <= 0:
                return key
        return reached

    def _with_body(self, db: sqlite3.Connection, shelf: Shelf, row: Row, job: Job) -> Job:
        """The job with its body, or with as much of it as is asked for."""
        most = self.search.body_bytes
        if row[5] & APART and most:
            if most > 0:
                size = db.execute("SELECT length(body) FROM bodies WHERE id = ?", row[:1])
                if (size.fetchone() or (0,))[0] > READ_BODY_BYTES:
                    return job
            body = db.execute("SELECT body, crc FROM bodies WHERE id = ?", row[:1]).fetchone()
            job = job_of((*row, *(body or (None, None))), self.policies, shelf)
        if most >= 0:
            job.body = job.body[:most]
        return job


def _exact(names: Names | None) -> Collection[str]:
    """The names that a statement can say; none if some are meant by how they begin."""
    return () if names is None or names.begins else names.exact


def _one_of(column: str, count: int) -> str:
    return f"{column} IN ({', '.join('?' * count)})"


def _time_of(entry: tuple[Shelf, Row]) -> Key:
    _, row = entry
    return row[_RUN_AT], row[0]
