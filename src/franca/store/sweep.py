"""Deletes the rows of what is gone, a little at a time, so that nobody has to wait for it.

And gives room in the file that is no longer needed back to the disk, a few pages at a time. A file
that was made without `auto_vacuum` cannot do that; `franca compact` makes it one that can.

Whoever purges a queue or flushes everything is answered as soon as it is durable that the jobs are
gone; their rows may be millions. `GroupWriter` knows of them, and so does the file: a server that
is killed meanwhile is followed by one that goes on.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from franca.store.group import GroupWriter
from franca.store.rows import Row

SWEPT_ROWS = 2_000
SWEPT_BYTES = 4 * 1024 * 1024
"""What is deleted at once: so many rows, and no further one when their bodies are this large."""
SWEPT_QUEUES = 200
SWEPT_TABLES = 12
"""And what it is looked for in, as long as there is little."""
TABLES_MAX = 12
"""Tables that may lie aside while other work goes first: each makes the next flush slower."""
STEPS_MAX = 8
"""Steps that are taken at once while there are more."""
PAGE_BYTES = 4_096
STEP_PAGES, STEP_PAGES_MIN = 1_000, 16
SPARE_PAGES = 1_024
"""Unused pages that a file may always have."""
SPARE_PART = 4
"""And those of which it may have more: a quarter of its pages. Then half of them are given back:
a backlog that comes and goes shall find the room that it left."""
_SWEPT: dict[str, tuple[str, int | str, str]] = {
    "bodies": ("id", 0, "length(body)"),
    "ended": ("id", 0, "length(jobs)"),
    "segments": ("id", 0, "length(ids) + length(names)"),
    "rates": ("id", 0, "length(tallies)"),
    "queues": ("queue", "", "0"),
    "schedules": ("id", "", "length(schedule)"),
    "idempotency_keys": ("id", 0, "0"),
}
"""The column that a table is in order of, its first value, and the size of a row."""
_WITH_BODY = "LEFT JOIN bodies b ON j.apart AND b.id = j.id"
_THESE = "id IN (SELECT value FROM json_each(?))"


class Sweeper:
    """One step is one transaction of its own; each kind of step yields where it is committed."""

    def __init__(self, db: sqlite3.Connection, books: GroupWriter) -> None:
        self._db = db
        self._books = books

    def has_work(self) -> bool:
        """Whether rows are left of what is gone."""
        books = self._books
        return bool(books.gone or books.emptied or books.dropped)

    def is_behind(self) -> bool:
        """Whether so many tables lie aside that it cannot wait."""
        return len(self._books.dropped) > TABLES_MAX

    def sweep(self) -> None:
        """Delete some of them, and more if that cannot wait."""
        self._step()
        for _ in range(STEPS_MAX - 1):
            if self.is_behind():
                self._step()

    def _step(self) -> None:
        """Delete some. If that fails, nothing has changed, in memory either."""
        books, db = self._books, self._db
        before = books.held_rows, books.tail_rows
        db.execute("BEGIN IMMEDIATE")
        try:
            if books.gone:
                sweep = self._sweep_held()
            elif books.emptied:
                sweep = self._sweep_tails()
            else:
                sweep = self._sweep_tables()
            next(sweep)
            statement, rows = books.totals_batch()
            db.executemany(statement, rows or ())
            db.execute("COMMIT")
        except sqlite3.Error:
            books.held_rows, books.tail_rows = before
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        next(sweep, None)  # what is gone from the file is forgotten

    def _sweep_held(self) -> Iterator[None]:
        books = self._books
        some = list(islice(books.gone, SWEPT_ROWS))
        sql = f"SELECT j.id, length(b.body) FROM jobs j {_WITH_BODY} WHERE j.{_THESE}"
        found, _ = _few(self._db.execute(sql, (json.dumps(some),)), SWEPT_BYTES)
        books.held_rows -= self._delete("jobs", found)
        swept = found or some
        if len(swept) == len(books.gone):
            self._db.execute("DELETE FROM gone")
        yield
        for job_id in swept:
            del books.gone[job_id]

    def _sweep_tails(self) -> Iterator[None]:
        """Rows of as many queues as have few; of one that has more, some."""
        books = self._books
        emptied: list[str] = []
        over: list[str] = []
        rows, room = SWEPT_ROWS, SWEPT_BYTES
        for queue in islice(books.emptied, SWEPT_QUEUES):
            sql = (
                f"SELECT j.id, length(b.body) FROM tail j {_WITH_BODY} "
                "WHERE j.state = 1 AND j.queue = ? AND j.era < ? LIMIT ?"
            )
            found, left = _few(self._db.execute(sql, (queue, books.eras[queue], rows)), room)
            books.tail_rows -= self._delete("tail", found) if found else 0
            if left <= 0 or len(found) == rows:
                break
            rows, room = rows - len(found), left
            emptied.append(queue)
            more = "SELECT 1 FROM tail WHERE state = 1 AND queue = ? LIMIT 1"
            if self._db.execute(more, (queue,)).fetchone() is None:
                over.append(queue)
        yield
        for queue in emptied:
            del books.emptied[queue]
        books.eras_over.extend(over)

    def _sweep_tables(self) -> Iterator[None]:
        """As many tables as have few rows; of one that has more, some rows."""
        gone: list[str] = []
        rows, room = SWEPT_ROWS, SWEPT_BYTES
        for table in self._books.dropped[:SWEPT_TABLES]:
            key, first, size = _SWEPT.get(table.split("_", 2)[2], ("id", 0, "0"))
            sql = f"SELECT {key}, {size} FROM {table} WHERE {key} >= ? ORDER BY {key} LIMIT ?"
            found, left = _few(self._db.execute(sql, (first, rows)), room)
            if left <= 0 or len(found) == rows:
                self._db.execute(f"DELETE FROM {table} WHERE {key} <= ?", (found[-1],))
                break
            rows, room = rows - len(found), left
            self._db.execute(f"DROP TABLE {table}")
            gone.append(table)
        yield
        del self._books.dropped[: len(gone)]

    def _delete(self, table: str, ids: list[Any]) -> int:
        these = (json.dumps(ids),)
        self._db.execute(f"DELETE FROM bodies WHERE {_THESE}", these)
        return self._db.execute(f"DELETE FROM {table} WHERE {_THESE}", these).rowcount


def _few(rows: Iterable[Row], room: int) -> tuple[list[Any], int]:
    """The first columns of rows whose second ones are sizes, until these fill the room; the rest.

    Without rest there may be more of them.
    """
    found: list[Any] = []
    for key, size in rows:
        found.append(key)
        room -= size or 0
        if room <= 0:
            break
    return found, room


class Shrinker:
    """Looks at how many pages of the file are unused, and lets the last ones go.

    `shrinking` says that it has looked, and that some are to go.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.shrinking = False
        self._can_shrink = db.execute("PRAGMA auto_vacuum").fetchone() == (2,)

    def has_work(self, room: int) -> bool:
        """Whether the file has unused pages to spare, or enough to help a disk without room."""
        if not self._can_shrink:
            return False
        if not self.shrinking:
            unused, pages = self._pages()
            many = unused > SPARE_PAGES and unused > pages // SPARE_PART
            self.shrinking = many or unused * PAGE_BYTES > room // 4
        return self.shrinking

    def shrink(self, room: int) -> bool:
        """Let a few pages go; False if that was all. The file is cut when its log is moved."""
        # Pages that are moved pass through the log, each with one or two that lead to it.
        few = max(STEP_PAGES_MIN, min(STEP_PAGES, room // (4 * PAGE_BYTES)))
        # Stepped to its end: `execute` would stop after one page.
        self._db.executescript(f"PRAGMA incremental_vacuum({few})")
        unused, pages = self._pages()
        spare = max(SPARE_PAGES, pages // SPARE_PART) // 2
        self.shrinking = unused > spare or unused * PAGE_BYTES > room // 16
        return self.shrinking

    def _pages(self) -> tuple[int, int]:
        [unused] = self._db.execute("PRAGMA freelist_count").fetchone()
        [pages] = self._db.execute("PRAGMA page_count").fetchone()
        return unused, pages
