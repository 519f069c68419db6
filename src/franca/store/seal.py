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
from franca.store.segments import Growing, Segment

TRIMMED_ROWS = 200
"""Rows of rates that go at once."""
NOTED_AT_ONCE = 2
"""Notes that are written at once: each may be about a thousand queues."""
WAITING_MAX = 2
"""Segments that may wait to be written while other work goes first, the one that grows included."""
SLICES_DOUBLED_MAX = 10
"""Each segment that waits doubles the slices that are done at once, up to all of them."""
_INSERT = f"INSERT INTO segments VALUES ({', '.join('?' * 15)})"


class Fold:
    """The rates of one segment, added up slice by slice before its transaction."""

    def __init__(self, growing: Growing) -> None:
        self.growing = growing
        self.slots: Slots = {}
        self._slices = rates.folding(growing.counted().happened, self.slots)

    def go_on(self, slices: int) -> bool:
        """Add up some more; whether that is all."""
        done = object()
        return any(next(self._slices, done) is done for _ in range(slices))


class Sealer:
    """One step is one transaction of its own; what can be computed before it is done in slices."""

    def __init__(self, db: sqlite3.Connection, books: GroupWriter) -> None:
        self._db = db
        self._books = books
        self._fold: Fold | None = None

    def has_work(self) -> bool:
        """Whether there is something to be written, or dropped."""
        return self._books.history.has_work()

    def is_behind(self) -> bool:
        """Whether so much waits that it should not wait any longer."""
        return len(self._books.history.growing) > WAITING_MAX

    def seal(self) -> None:
        """Write something, and drop something; or only get on with what is to be written."""
        if self._is_folded():
            self._step()
            if self._books.history.has_surplus() and self._is_folded():
                self._step()

    def _is_folded(self) -> bool:
        """Do the next slice of a segment's rates; more if others wait behind it."""
        history = self._books.history
        history.end_old()
        growing = history.growing
        if len(growing) == 1:
            return True
        if self._fold is None or self._fold.growing is not growing[0]:
            self._fold = Fold(growing[0])
        return self._fold.go_on(1 << min(len(growing) - 2, SLICES_DOUBLED_MAX))

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
            growing, slots = history.growing[0], self._rates_of(history.growing[0])
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

    def _rates_of(self, growing: Growing) -> Slots:
        """All of them. They are not used twice: more is added to them."""
        fold, self._fold = self._fold, None
        if fold is None or fold.growing is not growing:
            fold = Fold(growing)
        while not fold.go_on(1):
            pass
        return fold.slots

    def _drop(self, segment: Segment) -> None:
        self._db.execute("DELETE FROM ended WHERE id <= ?", (segment.id,))
        self._db.execute("DELETE FROM segments WHERE id <= ?", (segment.id,))
        self._books.unseal("segments", segment.id)
