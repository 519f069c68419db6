"""Searches and rates of SQLite, on a connection of their own and on other threads."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from franca.core.changes import IdempotencyKey
from franca.core.history import Found, Rates, RatesQuery, Search
from franca.core.model import Job, JobQuery, Policy
from franca.store import rates
from franca.store.criteria import (
    BY_TIME,
    FIRST,
    NEWEST,
    OLDEST,
    Criteria,
    order_of_search,
    put_together,
    read_cursor,
)
from franca.store.group import GroupWriter
from franca.store.live import LiveLook
from franca.store.past import Look
from franca.store.port import StoreError, order_of
from franca.store.rates import Slots
from franca.store.rows import seal
from franca.store.search import Reading, reading
from franca.store.wal import connect_to_read

_FIND_KEYS = "SELECT * FROM idempotency_keys WHERE key IN (SELECT value FROM json_each(?))"
INTERRUPT_EVERY_S = 0.02
"""How often threads that still read are told again to stop."""


class Readers:
    """The threads that read the store: whoever closes it must know that none of them is left."""

    def __init__(self) -> None:
        self.ending = False
        self._count = 0
        self._changed = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Be one of them inside the block."""
        with self._changed:
            self.check()
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def check(self) -> None:
        """`StoreError` if they are to end; called now and then by one that reads for long."""
        if self.ending:
            raise StoreError("the server is stopping")

    def end(self, interrupt: Callable[[], None]) -> None:
        """Let no more begin; interrupt those that read until none is left."""
        with self._changed:
            self.ending = True
            while self._count:
                interrupt()
                self._changed.wait(INTERRUPT_EVERY_S)


class Searcher:
    """The connection that reads only; one search at a time."""

    def __init__(self, path: str, books: GroupWriter, live: Reading, readers: Readers) -> None:
        self._path = path
        self._books = books
        self._live = live
        self._readers = readers
        self._one = threading.Lock()
        self.db: sqlite3.Connection | None = None
        self._policies: dict[Policy, Policy] = {}

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._readers.one(), self._one:
            if self.db is None:
                self.db = connect_to_read(self._path)
            yield self.db

    def find(self, query: JobQuery) -> list[Job]:
        """One page of live and ended jobs."""
        criteria = Criteria.of_query(query)
        with self._connected() as db:
            live = self._live.find_live(db, query, self._readers.check)
            if not criteria.wants_ended():
                return live
            order, after = (NEWEST if query.newest_first else OLDEST), FIRST
            if query.by_time:
                order = BY_TIME
            elif query.after:
                after = (-query.after if query.newest_first else query.after, 0)
            look = Look(criteria, order, after, query.limit, check=self._readers.check)
            with reading(db):
                look.through(db)
        found = {job.id: job for _, job in look.jobs()}
        if not query.with_bodies:
            for job in found.values():
                job.body = job.result = b""
        found.update((job.id, job) for job in live)
        return sorted(found.values(), key=order_of(query))[: query.limit]

    def search(self, search: Search) -> Found:
        """One page of live and ended jobs, and where the next one begins."""
        order, criteria = order_of_search(search), Criteria.of_search(search)
        after = read_cursor(order, search.cursor)
        check, limit = self._readers.check, search.limit + 1
        live = LiveLook(search, criteria, order, after, limit, self._policies, check)
        past = Look(criteria, order, after, limit, search.look_max, search.fits, check)
        found = Found([])
        with self._connected() as db:
            # First those that live: one that ends meanwhile is then found twice, not never.
            if criteria.wants_live():
                live.through(db)
                found.of = self._books.held_rows + self._books.tail_rows
            if criteria.wants_ended():
                with reading(db):
                    past.through(db)
        found.of += past.of
        found.looked_at = live.looked_at + past.looked_at
        found.total = None if criteria.wants_live() else past.total
        put_together(found, search, past.jobs() + live.found, [live.reached, past.reached])
        return found

    def find_keys(self, keys: Sequence[str]) -> list[IdempotencyKey]:
        """Idempotency keys that are remembered."""
        found: list[IdempotencyKey] = []
        with self._connected() as db:
            rows = db.execute(_FIND_KEYS, (json.dumps(keys),))
            for *row, crc in rows:
                if seal(row) != crc:
                    raise ValueError("an idempotency key is damaged")
                found.append(IdempotencyKey(*row[1:]))
        return found

    def rates(self, query: RatesQuery) -> Rates:
        """What happened in some time."""
        history = self._books.history
        with self._connected() as db, reading(db):
            with history.lock:
                # What is not in the rows that this transaction sees is in memory.
                db.execute("SELECT id FROM rates LIMIT 1").fetchone()
                happened = [dict(growing.counted().happened) for growing in history.growing]
                noted = list(history.noted)
            found = list(rates.read(db, query))
        slots: Slots = {}
        for part in happened:
            rates.fold(part, slots)
        for note in noted:
            rates.fold_noted(note.at, note.of, slots)
        return rates.answer(query, [*found, *slots.items()])

    def interrupt(self) -> None:
        """Have a statement that runs end."""
        if self.db is not None:
            self.db.interrupt()

    def close(self) -> None:
        """Nobody reads any more."""
        if self.db is not None:
            self.db.close()
