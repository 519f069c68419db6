"""Deletes the rows of what is gone, a little at a time, so that nobody has to wait for it.

Whoever purges a queue or flushes everything is answered as soon as it is durable that the jobs are
gone; their rows may be millions. `GroupWriter` knows of them, and so does the file: a server that
is killed meanwhile is followed by one that goes on.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from franca.store.group import GroupWriter
from franca.store.rows import Row

SWEPT_ROWS = 2_000
SWEPT_BYTES = 4 * 1024 * 1024
"""What is deleted at once: so many rows, and no further one when their bodies are this large."""
_SWEPT: dict[str, tuple[str, int | str, str]] = {
    "bodies": ("id", 0, "length(body)"),
    "ended": ("id", 0, "length(jobs)"),
    "queues": ("queue", "", "0"),
    "schedules": ("id", "", "length(schedule)"),
}
"""The column that a table is in order of, its first value, and the size of a row."""
_WITH_BODY = "LEFT JOIN bodies b ON j.apart AND b.id = j.id"
_THESE = "id IN (SELECT value FROM json_each(?))"


class Sweeper:
    """One step is one transaction of its own."""

    def __init__(self, db: sqlite3.Connection, books: GroupWriter) -> None:
        self._db = db
        self._books = books

    def has_work(self) -> bool:
        """Whether rows are left of what is gone."""
        books = self._books
        return bool(books.gone or books.emptied or books.dropped)

    def sweep(self) -> None:
        """Delete some of them. If that fails, nothing has changed, in memory either."""
        books, db = self._books, self._db
        before = books.held_rows, books.tail_rows
        db.execute("BEGIN IMMEDIATE")
        try:
            if books.gone:
                forget = self._sweep_held()
            elif books.emptied:
                forget = self._sweep_tail(min(books.emptied))
            else:
                forget = self._sweep_table(books.dropped[0])
            statement, rows = books.books()
            db.executemany(statement, rows or ())
            db.execute("COMMIT")
        except sqlite3.Error:
            books.held_rows, books.tail_rows = before
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        forget()

    def _sweep_held(self) -> Callable[[], None]:
        books = self._books
        some = list(islice(books.gone, SWEPT_ROWS))
        sql = f"SELECT j.id, length(b.body) FROM jobs j {_WITH_BODY} WHERE j.{_THESE}"
        found = _few(self._db.execute(sql, (json.dumps(some),)))
        books.held_rows -= self._delete("jobs", found)
        swept = found or some
        if len(swept) == len(books.gone):
            self._db.execute("DELETE FROM gone")

        def forget() -> None:
            for job_id in swept:
                del books.gone[job_id]

        return forget

    def _sweep_tail(self, queue: str) -> Callable[[], None]:
        books = self._books
        sql = (
            f"SELECT j.id, length(b.body) FROM tail j {_WITH_BODY} "
            "WHERE j.state = 1 AND j.queue = ? AND j.era < ? LIMIT ?"
        )
        era = books.eras[queue]
        found = _few(self._db.execute(sql, (queue, era, SWEPT_ROWS)))
        books.tail_rows -= self._delete("tail", found)
        more = "SELECT 1 FROM tail WHERE state = 1 AND queue = ? LIMIT 1"
        is_empty = not found and self._db.execute(more, (queue,)).fetchone() is None

        def forget() -> None:
            if not found:
                books.emptied.discard(queue)
            if is_empty:
                books.eras_over.append(queue)

        return forget

    def _sweep_table(self, table: str) -> Callable[[], None]:
        kind = table.split("_", 2)[2]
        key, first, size = _SWEPT.get(kind, ("id", 0, "0"))
        sql = f"SELECT {key}, {size} FROM {table} WHERE {key} >= ? ORDER BY {key} LIMIT ?"
        found = _few(self._db.execute(sql, (first, SWEPT_ROWS)))
        if found:
            self._db.execute(f"DELETE FROM {table} WHERE {key} <= ?", (found[-1],))
            return lambda: None
        self._db.execute(f"DROP TABLE {table}")
        return lambda: self._books.dropped.remove(table)

    def _delete(self, table: str, ids: list[Any]) -> int:
        these = (json.dumps(ids),)
        self._db.execute(f"DELETE FROM bodies WHERE {_THESE}", these)
        return self._db.execute(f"DELETE FROM {table} WHERE {_THESE}", these).rowcount


def _few(rows: Iterable[Row]) -> list[Any]:
    """The first columns of rows whose second ones are sizes, until these are enough."""
    found: list[Any] = []
    room = SWEPT_BYTES
    for key, size in rows:
        found.append(key)
        room -= size or 0
        if room <= 0:
            break
    return found
