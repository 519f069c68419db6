"""How jobs come out of SQLite: supplies of the tail, recalls, and searches page by page."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from msgspec.structs import replace

from franca.core.model import Job, JobId, JobQuery, Policy, Shelf
from franca.core.tail import Recall, SupplyReady, Want
from franca.store import search
from franca.store.group import GroupWriter
from franca.store.rows import APART, Row, job_of

RECALLED_BYTES = 16 * 1024 * 1024
FOUND_BYTES = 64 * 1024 * 1024
"""Bodies that are read at once for a recall and for a search; a further job is not read then."""
_WAITING = "j.state = 0 AND j.state <> 1"


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
            sql = search.select("tail", where, "priority, place")
            values = (want.queue, self._books.eras.get(want.queue, 0), *want.mark, want.limit)
            jobs = self._tail(db, sql, values, want.bytes_max)
            _check_order([want.mark, *((job.priority, job.place) for job in jobs)])
            return jobs
        # In two parts, because of (run_at, id) SQLite would use the first only, and any number of
        # jobs may have the same time.
        same = f"{_WAITING} AND j.run_at = ? AND j.id > ?"
        sql = search.select("tail", same, "id", bodies=False)
        jobs = self._tail(db, sql, (*want.mark, want.limit), want.bytes_max)
        room = want.bytes_max - sum(job.weight for job in jobs)
        if len(jobs) < want.limit and room > 0:
            later = f"{_WAITING} AND j.run_at > ?"
            sql = search.select("tail", later, "run_at, id", bodies=False)
            jobs += self._tail(db, sql, (want.mark[0], want.limit - len(jobs)), room)
        _check_order([want.mark, *((job.run_at, job.id) for job in jobs)])
        return jobs

    def _tail(
        self, db: sqlite3.Connection, sql: str, values: Sequence[object], bytes_max: int
    ) -> list[Job]:
        jobs: list[Job] = []
        for row in db.execute(sql, values):
            job = job_of(row, self._policies, Shelf.TAIL)
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
        sources = [s for s in search.sources_of(query) if s.shelf is not skip]
        page = search.read_page(db, query, sources, gone)
        jobs: list[Job] = []
        for shelf, row in page.rows:
            if row[6] & APART and query.with_bodies:
                body = db.execute("SELECT body, crc FROM bodies WHERE id = ?", row[:1]).fetchone()
                row += body or (None, None)
            jobs.append(job_of(row, self._policies, shelf))
            room -= jobs[-1].weight
            if room <= 0 and not query.by_time:
                return jobs, jobs[-1].id
        return jobs, page.reached

    def find_live(
        self, db: sqlite3.Connection, query: JobQuery, check: Callable[[], None]
    ) -> list[Job]:
        """Page by page, so that nothing has to wait for all of it; each after a `check`."""
        found: list[Job] = []
        room = FOUND_BYTES
        rest = query
        gone: Collection[JobId] = ()
        marks: list[Row] = []
        while True:
            check()
            db.execute("BEGIN")
            try:
                # By the file, at the moment of this page: what is gone now may not have been.
                if (found_marks := db.execute("SELECT id, crc FROM gone").fetchall()) != marks:
                    gone, marks = search.read_gone(db), found_marks
                jobs, reached = self._page(db, rest, room, gone)
            finally:
                db.execute("ROLLBACK")
            found += jobs
            room -= sum(job.weight for job in jobs)
            if len(found) >= query.limit or not reached or room <= 0:
                return found
            rest = replace(query, after=reached, limit=query.limit - len(found))


def _check_order(keys: list[tuple[int, int]]) -> None:
    """Each job comes once and in its turn; a damaged index may say otherwise."""
    if any(first >= second for first, second in pairwise(keys)):
        raise ValueError("an index of the tail is damaged: jobs come twice or in disorder")
