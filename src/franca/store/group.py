"""A group of changes as SQL statements with their rows.

It also keeps the books that go with them: how many rows there are on each shelf, and those of the
history of ended jobs.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence

import msgspec

from franca.core.changes import IDEMPOTENCY_MS, Changes, IdempotencyKey, Totals
from franca.core.model import Job, JobId, Shelf
from franca.store import ended, rows
from franca.store.port import Bounds
from franca.store.rows import Row, seal
from franca.store.segments import History

HELD, BACKLOG = Shelf.HELD, Shelf.BACKLOG  # an attribute of an enum takes long to be looked up
_TABLES = {HELD: "jobs", BACKLOG: "tail"}
_OTHER = {HELD: BACKLOG, BACKLOG: HELD}
_MARKS = ", ".join("?" * rows.COLUMN_COUNT)
_SET_LIFE = ", ".join(f"{column.strip()} = ?" for column in rows.LIFE.split(","))
_INSERT_HELD = f"INSERT INTO jobs ({rows.COLUMNS}) VALUES ({_MARKS})"
_INSERT_TAIL = f"INSERT INTO tail ({rows.COLUMNS}, era) VALUES ({_MARKS}, ?)"
_UPDATE_HELD = f"UPDATE jobs SET {_SET_LIFE} WHERE id = ?"
_UPDATE_TAIL = f"UPDATE tail SET {_SET_LIFE}, era = ? WHERE id = ?"
_DELETE = {s: f"DELETE FROM {t} WHERE id = ?" for s, t in _TABLES.items()}
_SET_TOTALS = (
    "UPDATE totals SET pushed = ?, processed = ?, failures = ?, last_job_id = ?, last_place = ?, "
    "held_rows = ?, tail_rows = ?, sealed = ?, crc = ?"
)
_FORGET_KEYS = "DELETE FROM idempotency_keys WHERE id <= ?"
_FORGET_OLD_KEYS = (
    "DELETE FROM idempotency_keys WHERE id < (SELECT min(id) FROM idempotency_keys) + ? AND at <= ?"
)
_INSERT_KEY = "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_BODY = "INSERT INTO bodies (id, body, crc) VALUES (?, ?, ?)"
_DELETE_BODY = "DELETE FROM bodies WHERE id = ?"

DELETED_AT_ONCE = 1_000
"""Held jobs that a group deletes; the rows of more are left to the sweep."""
FLUSHED = (
    "jobs", "tail", "bodies", "ended", "segments", "rates", "queues", "schedules",
    "idempotency_keys",
)  # fmt: skip
"""Tables that a flush leaves empty."""
FLUSHED_ROWS = 1_000
FLUSHED_BYTES = 4 * 1024 * 1024
"""A table with no more rows and bytes than these is emptied by a flush, not put aside: what is put
aside changes the schema, which costs every later flush more than to delete a few rows."""
SEGMENT_ROW_BYTES = 120_000
"""What a row of `segments` has, about."""
PIECE_JOBS = 200
PIECE_BYTES = 1024 * 1024
"""A piece of history has no more jobs than this, nor more bytes if it has more than one job."""

_encode = msgspec.msgpack.Encoder().encode

Batch = tuple[str, Sequence[Row] | None]
"""A statement with its rows; one that has none, because it changes the schema, is run as it is."""


class GroupWriter:
    """Turns `Changes` into batches, and knows what has rows though it is gone.

    Rows are counted as long as they are there. Those of `emptied` queues are READY rows of an era
    that is over, those in `gone` are held, and the tables in `dropped` were put aside by a flush.
    Of queues in `eras_over` no READY row is left in the tail.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.history = History(bounds)
        self.flushes = 0
        self._counts: Row = ()
        self.dropped: list[str] = []
        self.schema: dict[str, list[str]] = {}
        self._forget_rows()

    def _forget_rows(self) -> None:
        """No row is there of anything, but in tables that were put aside."""
        self.held_rows = self.tail_rows = self.sealed = 0
        self.body_bytes = 0
        """Bodies that lie apart have no more bytes than this; those that are gone are counted."""
        self.seals: dict[tuple[str, int | str], int] = {}
        self.eras: dict[str, int] = {}
        self.emptied: dict[str, None] = {}
        self.eras_over: list[str] = []
        self.gone: dict[JobId, None] = {}
        self.last_key = self.key_rows = 0
        """The last row of the idempotency keys, and no fewer than there are."""
        self.rate_rows = self.rate_bytes = 0
        """No more than these there are of the rates; rows that are written again count again."""

    def batches(self, changes: Changes) -> list[Batch]:
        """The statements of a group, each with its rows, in order.

        Called right before the transaction that they belong to, once per group.
        """
        group: list[Batch] = []
        if self.eras_over:
            self._forget_eras(group)
        if changes.flushed:
            self._flush(group)
        elif changes.emptied_backlogs:
            self._empty_tails(set(changes.emptied_backlogs), group)
        if changes.moved:
            self._move(changes.moved, group)
        if changes.added:
            self._insert(changes.added, group)
            self._insert_bodies(changes.added, group)
        if changes.updated:
            self._update(changes.updated, group)
        if changes.gone_from_memory:
            gone: Sequence[Job] = changes.gone_from_memory
            if len(gone) > DELETED_AT_ONCE:
                gone = self._leave_to_sweep(gone, group)
            self._delete(gone, HELD, group)
            self.held_rows -= len(gone)
        if changes.gone_from_backlog:
            self._delete(changes.gone_from_backlog, BACKLOG, group)
            self.tail_rows -= len(changes.gone_from_backlog)
        if self.history.bounds.jobs:
            if changes.ended:
                self._remember_ended(changes.ended[-self.history.bounds.jobs :], group)
            if changes.failed or changes.died:
                piece, notes = ended.encode_notes(changes.failed, changes.died)
                self._remember(0, piece, group)
                self.history.add_notes(piece, notes)
        if changes.queues_saved or changes.queues_gone:
            # `paused` is 0, 1, or the moment at which the pause ends.
            paused = [(s.queue, s.until or int(s.paused)) for s in changes.queues_saved]
            self._put("queues", paused, group)
            self._drop("queues", "queue", [(name,) for name in changes.queues_gone], group)
        if changes.schedules_saved or changes.schedules_gone:
            rules = [(schedule.id, _encode(schedule)) for schedule in changes.schedules_saved]
            self._put("schedules", rules, group)
            self._drop("schedules", "id", [(name,) for name in changes.schedules_gone], group)
        if changes.idempotency_keys:
            self._keep_keys(changes.idempotency_keys, group)
        self.learn_totals(changes.totals)
        group.append(self.totals_batch())
        return group

    def learn_totals(self, totals: Totals) -> None:
        """Take down what the broker has counted by now: it goes on counting."""
        counts = totals.pushed, totals.processed, totals.failures
        self._counts = (*counts, totals.last_job_id, totals.last_place)

    def totals_batch(self) -> Batch:
        """The statement that says how many rows of everything there must be."""
        books = (*self._counts, self.held_rows, self.tail_rows, self.sealed)
        return (_SET_TOTALS, ((*books, seal(books)),))

    def _insert(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        held = [rows.row_of(job) for job in jobs if job.shelf is HELD]
        self.held_rows += len(held)
        self.tail_rows += len(jobs) - len(held)
        if held:
            group.append((_INSERT_HELD, held))
        if len(held) < len(jobs):
            tail = [(*rows.row_of(job, era << 1), era) for job, era in self._in_backlog(jobs)]
            group.append((_INSERT_TAIL, tail))

    def _insert_bodies(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        apart = [rows.body_row(job) for job in jobs if len(job.body) > rows.BODY_APART_BYTES]
        if apart:
            self.body_bytes += sum(len(body) for _, body, _ in apart)
            group.append((_INSERT_BODY, apart))

    def _update(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        held = [(*rows.life_values(job), job.id) for job in jobs if job.shelf is HELD]
        if held:
            group.append((_UPDATE_HELD, held))
        if len(held) < len(jobs):
            tail = self._in_backlog(jobs)
            life = [(*rows.life_values(job, era << 1), era, job.id) for job, era in tail]
            group.append((_UPDATE_TAIL, life))

    def _in_backlog(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, int]]:
        """Those that are in the tail, each with the era of its queue."""
        return ((job, self.eras.get(job.queue, 0)) for job in jobs if job.shelf is BACKLOG)

    def _move(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        for shelf in _TABLES:
            leaving = [(job.id,) for job in jobs if _OTHER[shelf] is job.shelf]
            if leaving:
                group.append((_DELETE[shelf], leaving))
        self._insert(jobs, group)
        from_tail = sum(job.shelf is HELD for job in jobs)
        self.tail_rows -= from_tail
        self.held_rows -= len(jobs) - from_tail

    def _delete(self, jobs: Sequence[Job], shelf: Shelf, group: list[Batch]) -> None:
        group.append((_DELETE[shelf], [(job.id,) for job in jobs]))
        # A job that was taken out of the tail unseen has no body here: it may have one apart.
        apart = [(job.id,) for job in jobs if not job.body or len(job.body) > rows.BODY_APART_BYTES]
        if apart:
            group.append((_DELETE_BODY, apart))

    def _leave_to_sweep(self, jobs: Sequence[Job], group: list[Batch]) -> Sequence[Job]:
        """Say of most of these that they are gone, in one piece; returns those to delete now."""
        left = [job.id for job in jobs[DELETED_AT_ONCE:]]
        self.gone.update(dict.fromkeys(left))
        row = (left[0], array("q", left).tobytes())
        group.append(("INSERT INTO gone VALUES (?, ?, ?)", ((*row, seal(row)),)))
        return jobs[:DELETED_AT_ONCE]

    def _empty_tails(self, queues: set[str], group: list[Batch]) -> None:
        """Begin the next era of these queues: READY rows that are not written again are gone."""
        rows = [(queue, self.eras.get(queue, 0) + 1) for queue in sorted(queues)]
        self.eras.update(rows)
        self.emptied.update((queue, None) for queue, _ in rows)
        self._put("eras", rows, group)

    def _forget_eras(self, group: list[Batch]) -> None:
        """Queues that have no READY row in the tail begin again with era 0."""
        over = [(queue,) for queue in self.eras_over if self.eras.pop(queue, 0)]
        self.eras_over.clear()
        self._drop("eras", "queue", over, group)

    def _flush(self, group: list[Batch]) -> None:
        """Begin with empty tables: small ones are emptied, large ones put aside."""
        large = self._large_tables()
        self.flushes += bool(large)
        for table in (*FLUSHED, "eras", "gone"):
            if table in large:
                self._put_aside(table, group)
            else:
                group.append((f"DELETE FROM {table}", ((),)))
        self._forget_rows()
        self.history.flushed()

    def _large_tables(self) -> set[str]:
        """Tables that take too long to be emptied at once."""
        history = self.history
        # The rows of queues and schedules, and of `eras`.
        sealed = len(self.seals) - len(history.segments)
        rows = {"jobs": self.held_rows, "tail": self.tail_rows, "ended": history.jobs}
        rows |= {"queues": sealed, "schedules": sealed, "rates": self.rate_rows}
        rows["idempotency_keys"] = self.key_rows
        sizes = {"bodies": self.body_bytes, "ended": history.bytes, "rates": self.rate_bytes}
        sizes["segments"] = len(history.segments) * SEGMENT_ROW_BYTES
        large = {table for table, count in rows.items() if count > FLUSHED_ROWS}
        return large | {table for table, size in sizes.items() if size > FLUSHED_BYTES}

    def _put_aside(self, table: str, group: list[Batch]) -> None:
        """Give a table another name, and make it anew."""
        aside = f"dropped_{self.flushes}_{table}"
        group.append((f"ALTER TABLE {table} RENAME TO {aside}", None))
        self.dropped.append(aside)
        # The indexes went with it, and no two may have the same name.
        fresh = rf"CREATE INDEX \1_{self.flushes} ON"
        index = re.compile(r"^CREATE INDEX ([a-z_]+?)(_\d+)? ON")
        group.extend((index.sub(fresh, sql), None) for sql in self.schema[table])

    def _remember_ended(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        for start in range(0, len(jobs), PIECE_JOBS):
            rows = ended.rows_of(jobs[start : start + PIECE_JOBS])
            for part, piece in _pieces(rows):
                self._remember(len(part), piece, group)
                self.history.add(piece, part)

    def _remember(self, count: int, piece: bytes, group: list[Batch]) -> None:
        row = (self.history.last_piece + 1, count, piece)
        group.append(("INSERT INTO ended VALUES (?, ?, ?, ?)", ((*row, seal(row)),)))

    def _keep_keys(self, keys: Sequence[IdempotencyKey], group: list[Batch]) -> None:
        """Each new key takes two old ones away that are over, so that none are left in the end."""
        most = self.last_key + len(keys) - self.history.bounds.keys
        over = keys[-1].at - IDEMPOTENCY_MS
        if most > 0:
            group.append((_FORGET_KEYS, ((most,),)))
        group.append((_FORGET_OLD_KEYS, ((2 * len(keys), over),)))
        rows = [(self.last_key + number, *key) for number, key in enumerate(keys, 1)]
        group.append((_INSERT_KEY, [(*row, seal(row)) for row in rows]))
        self.last_key += len(keys)
        self.key_rows += len(keys)

    def _put(self, table: str, rows: Sequence[Row], group: list[Batch]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            group.append((f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows))
            for row in rows:
                self.seal(table, row)

    def _drop(self, table: str, column: str, rows: Sequence[Row], group: list[Batch]) -> None:
        if rows:
            group.append((f"DELETE FROM {table} WHERE {column} = ?", rows))
            for (name,) in rows:
                self.unseal(table, name)

    def seal(self, table: str, row: Row) -> None:
        """Have a row of a small table in `sealed`, which no change of any of them leaves alone."""
        self.unseal(table, row[0])
        self.seals[table, row[0]] = sealed = seal((table, *row))
        self.sealed ^= sealed

    def unseal(self, table: str, name: int | str) -> None:
        """Have a row in it no more."""
        self.sealed ^= self.seals.pop((table, name), 0)


def _pieces(rows: Sequence[Row]) -> Iterator[tuple[Sequence[Row], bytes]]:
    """The jobs of each piece of history, and the piece; halves of what is too large."""
    piece = ended.encode_rows(rows)
    if len(piece) <= PIECE_BYTES or len(rows) == 1:
        yield rows, piece
    else:
        half = len(rows) // 2
        yield from _pieces(rows[:half])
        yield from _pieces(rows[half:])
