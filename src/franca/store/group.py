"""A group of changes as SQL statements with their rows.

It also keeps the books that go with them: how many rows there are on each shelf, and how much of
the history of ended jobs is still to be kept.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

import msgspec

from franca.core.changes import Changes
from franca.core.model import Job, Shelf
from franca.store import ended
from franca.store.rows import (
    BODY_APART_BYTES,
    COLUMN_COUNT,
    COLUMNS,
    LIFE,
    Row,
    body_row,
    life_values,
    row_of,
    seal,
)

_TABLES = {Shelf.HELD: "jobs", Shelf.TAIL: "tail"}
_OTHER = {Shelf.HELD: Shelf.TAIL, Shelf.TAIL: Shelf.HELD}
_MARKS = ", ".join("?" * COLUMN_COUNT)
_SET_LIFE = ", ".join(f"{column.strip()} = ?" for column in LIFE.split(","))
_INSERT = {s: f"INSERT INTO {t} ({COLUMNS}) VALUES ({_MARKS})" for s, t in _TABLES.items()}
_UPDATE = {s: f"UPDATE {t} SET {_SET_LIFE} WHERE id = ?" for s, t in _TABLES.items()}
_DELETE = {s: f"DELETE FROM {t} WHERE id = ?" for s, t in _TABLES.items()}
_SET_TOTALS = (
    "UPDATE totals SET pushed = ?, processed = ?, failures = ?, last_job_id = ?, last_place = ?, "
    "held_rows = ?, tail_rows = ?, sealed = ?, crc = ?"
)
_INSERT_BODY = "INSERT INTO bodies (id, body, crc) VALUES (?, ?, ?)"
_DELETE_BODY = "DELETE FROM bodies WHERE id = ?"

SURPLUS_PART = 10
"""A tenth more ended jobs than are to be kept may be there until the oldest are dropped."""

Batch = tuple[str, Sequence[Row]]


class GroupWriter:
    """Turns `Changes` into batches; knows the database only to count what it is to delete."""

    def __init__(self, db: sqlite3.Connection, ended_jobs: int) -> None:
        self._db = db
        self._ended_jobs = ended_jobs
        self.held_rows = 0
        self.tail_rows = 0
        self.seals: dict[tuple[str, int | str], int] = {}
        self.sealed = 0
        self._ended_count = 0
        self._ended_batches: list[tuple[int, int]] = []
        self._last_ended = 0
        self._schedule_encoder = msgspec.msgpack.Encoder()

    def learn_ended(self, batch_id: int, count: int) -> None:
        """Know of a piece of history that was written before."""
        self._ended_batches.append((batch_id, count))
        self._ended_count += count
        self._last_ended = batch_id

    def batches(self, changes: Changes) -> list[Batch]:
        """The statements of a group, each with its rows, in order.

        Called right before the transaction that they belong to, once per group.
        """
        group: list[Batch] = []
        if changes.flushed:
            self._flush(group)
        elif changes.emptied_tails:
            spared = json.dumps(changes.spared)
            for queue in set(changes.emptied_tails):
                self._empty_tail(queue, spared, group)
        if changes.moved:
            self._move(changes.moved, group)
        if changes.added:
            self._insert(changes.added, group)
            self._insert_bodies(changes.added, group)
            added_held = sum(job.shelf is Shelf.HELD for job in changes.added)
            self.held_rows += added_held
            self.tail_rows += len(changes.added) - added_held
        if changes.updated:
            self._update(changes.updated, group)
        if changes.gone_held:
            self._delete(changes.gone_held, Shelf.HELD, group)
            self.held_rows -= len(changes.gone_held)
        if changes.gone_tail:
            self._delete(changes.gone_tail, Shelf.TAIL, group)
            self.tail_rows -= len(changes.gone_tail)
        if changes.ended:
            self._remember_ended(changes.ended, group)
        self._settings(changes, group)
        totals = changes.totals
        books = (
            totals.pushed,
            totals.processed,
            totals.failures,
            totals.last_job_id,
            totals.last_place,
            self.held_rows,
            self.tail_rows,
            self.sealed,
        )
        group.append((_SET_TOTALS, ((*books, seal(books)),)))
        return group

    def _insert(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        for shelf in _TABLES:
            rows = [row_of(job) for job in jobs if job.shelf is shelf]
            if rows:
                group.append((_INSERT[shelf], rows))

    def _insert_bodies(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        apart = [body_row(job) for job in jobs if len(job.body) > BODY_APART_BYTES]
        if apart:
            group.append((_INSERT_BODY, apart))

    def _update(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        for shelf in _TABLES:
            rows = [(*life_values(job), job.id) for job in jobs if job.shelf is shelf]
            if rows:
                group.append((_UPDATE[shelf], rows))

    def _move(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        for shelf in _TABLES:
            leaving = [(job.id,) for job in jobs if _OTHER[shelf] is job.shelf]
            if leaving:
                group.append((_DELETE[shelf], leaving))
        self._insert(jobs, group)
        to_held = sum(job.shelf is Shelf.HELD for job in jobs)
        self.held_rows += 2 * to_held - len(jobs)
        self.tail_rows -= 2 * to_held - len(jobs)

    def _delete(self, jobs: Sequence[Job], shelf: Shelf, group: list[Batch]) -> None:
        group.append((_DELETE[shelf], [(job.id,) for job in jobs]))
        # A job that was taken out of the tail unseen has no body here: it may have one apart.
        apart = [(job.id,) for job in jobs if not job.body or len(job.body) > BODY_APART_BYTES]
        if apart:
            group.append((_DELETE_BODY, apart))

    def _empty_tail(self, queue: str, spared: str, group: list[Batch]) -> None:
        spares = "id NOT IN (SELECT value FROM json_each(?))"
        where = f"FROM tail WHERE queue = ? AND state = 1 AND {spares}"
        values = (queue, spared)
        self.tail_rows -= self._db.execute(f"SELECT count(*) {where}", values).fetchone()[0]
        bodies = f"DELETE FROM bodies WHERE id IN (SELECT id {where} AND apart)"
        group.append((bodies, (values,)))
        group.append((f"DELETE {where}", (values,)))

    def _flush(self, group: list[Batch]) -> None:
        tables = ("jobs", "tail", "bodies", "ended", "queues", "schedules")
        group.extend((f"DELETE FROM {table}", ((),)) for table in tables)
        self.held_rows = self.tail_rows = self._ended_count = 0
        self._ended_batches.clear()
        self.seals.clear()
        self.sealed = 0

    def _remember_ended(self, jobs: Sequence[Job], group: list[Batch]) -> None:
        if not self._ended_jobs:
            return
        jobs = jobs[-self._ended_jobs :]
        self._last_ended += 1
        self._ended_batches.append((self._last_ended, len(jobs)))
        self._ended_count += len(jobs)
        row = (self._last_ended, len(jobs), ended.encode(jobs))
        group.append(("INSERT INTO ended VALUES (?, ?, ?, ?)", ((*row, seal(row)),)))
        # Many old pieces at once: their pages are then let go whole, not written once more each.
        if self._ended_count > self._ended_jobs + self._ended_jobs // SURPLUS_PART:
            self._drop_ended(group)

    def _drop_ended(self, group: list[Batch]) -> None:
        drop = 0
        while self._ended_count - self._ended_batches[drop][1] >= self._ended_jobs:
            self._ended_count -= self._ended_batches[drop][1]
            drop += 1
        if drop:
            last = self._ended_batches[drop - 1][0]
            del self._ended_batches[:drop]
            group.append(("DELETE FROM ended WHERE id <= ?", ((last,),)))

    def _settings(self, changes: Changes, group: list[Batch]) -> None:
        if changes.queues_saved:
            rows = [(setting.queue, int(setting.paused)) for setting in changes.queues_saved]
            self._put("queues", rows, group)
        if changes.queues_gone:
            gone = [(name,) for name in changes.queues_gone]
            self._drop("queues", "queue", gone, group)
        if changes.schedules_saved:
            encode = self._schedule_encoder.encode
            saved = [(schedule.id, encode(schedule)) for schedule in changes.schedules_saved]
            self._put("schedules", saved, group)
        if changes.schedules_gone:
            dropped = [(schedule_id,) for schedule_id in changes.schedules_gone]
            self._drop("schedules", "id", dropped, group)

    def _put(self, table: str, rows: Sequence[Row], group: list[Batch]) -> None:
        marks = ", ".join("?" * len(rows[0]))
        group.append((f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows))
        for row in rows:
            self.seal(table, row)

    def _drop(self, table: str, column: str, rows: Sequence[Row], group: list[Batch]) -> None:
        group.append((f"DELETE FROM {table} WHERE {column} = ?", rows))
        for (name,) in rows:
            self._unseal(table, name)

    def seal(self, table: str, row: Row) -> None:
        """Have a row of a small table in `sealed`, which no change of any of them leaves alone."""
        self._unseal(table, row[0])
        self.seals[table, row[0]] = sealed = seal((table, *row))
        self.sealed ^= sealed

    def _unseal(self, table: str, name: int | str) -> None:
        self.sealed ^= self.seals.pop((table, name), 0)
