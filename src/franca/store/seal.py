"""Makes segments of what has ended, behind the groups that wrote it, and drops the oldest.

Rates are written in the same transaction as the segment that they come of: a server that is killed
is followed by one that makes both anew from the pieces, or none.
"""

from __future__ import annotations

import sqlite3

from msgspec.structs import astuple

from franca.store import rates
from franca.store.group import GroupWriter
from franca.store.rates import Slots
from franca.store.rows import seal
from franca.store.segments import Segment

TRIMMED_ROWS = 200
"""Rows of rates that go at once."""
NOTED_AT_ONCE = 2
"""Notes that are written at once: each may be about a thousand queues."""
WAITING_MAX = 2
"""Segments that may wait to be written while other work goes first, the one that grows included."""
_INSERT = f"INSERT INTO segments VALUES ({', '.join('?' * 15)})"


class Sealer:
    """One step is one transaction of its own."""

    def __init__(self, db: sqlite3.Connection, books: GroupWriter) -> None:
        self._db = db
        self._books = books

    def has_work(self) -> bool:
        """Whether there is something to be written, or dropped."""
        return self._books.history.has_work()

    def is_behind(self) -> bool:
        """Whether so much waits that it should not wait any longer."""
        return len(self._books.history.growing) > WAITING_MAX

    def seal(self) -> None:
        """Write something, and drop something."""
        self._step()
        if self._books.history.has_surplus():
            self._step()

    def _step(self) -> None:
        """Write a segment and some notes, drop a segment. If that fails, nothing has changed."""
        books, history = self._books, self._books.history
        history.end_old()
        segment = history.growing[0].segment() if len(history.growing) > 1 else None
        notes = min(len(history.noted), NOTED_AT_ONCE)
        oldest = history.segments[0] if history.has_surplus() else None
        before = books.sealed, dict(books.seals)
        with history.lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                if segment is not None or notes:
                    self._write(segment, notes)
                if oldest is not None:
                    self._drop(oldest)
                statement, rows = books.totals_batch()
                self._db.executemany(statement, rows or ())
                self._db.execute("COMMIT")
            except BaseException:
                books.sealed, books.seals = before
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            if segment is not None:
                history.written(segment)
            if oldest is not None:
                history.dropped()
            for _ in range(notes):
                history.noted.popleft()

    def _write(self, segment: Segment | None, notes: int) -> None:
        books, history = self._books, self._books.history
        slots: Slots = {}
        if segment is not None:
            growing = history.growing[0]
            rates.fold(growing.happened, slots)
            values = astuple(segment)
            crc = seal(values)
            self._db.execute(_INSERT, (*values, crc, *growing.keys_row(segment)))
            books.seal("segments", (segment.id, crc))
        # A copy in one go: the event loop may add to it meanwhile.
        for noted in list(history.noted)[:notes]:
            rates.fold_noted(noted.at, noted.of, slots)
        books.rate_bytes += rates.write(self._db, slots, history.latest)
        books.rate_rows += len(slots)
        rates.trim(self._db, history.latest, TRIMMED_ROWS)

    def _drop(self, segment: Segment) -> None:
        self._db.execute("DELETE FROM ended WHERE id <= ?", (segment.id,))
        self._db.execute("DELETE FROM segments WHERE id <= ?", (segment.id,))
        self._books.unseal("segments", segment.id)
