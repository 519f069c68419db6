"""One file, one writer: SQLite in WAL mode, every commit synced before it returns.

`write` and `commit` use one connection, from one thread at a time; the node sees to that. The
same connection makes the checkpoints, between groups: SQLite before 3.51.3 can corrupt a file
whose log two connections reset at once. Searches use a second, read-only connection.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence

import msgspec

from franca.core.changes import Changes, QueueSetting, Totals
from franca.core.ledger import Known, Recall, Snapshot, SupplyReady, Want
from franca.core.model import Job, JobQuery, Policy, QueueCount, Schedule, Shelf, State, TailCount
from franca.store import ended, search
from franca.store.group import Batch, GroupWriter
from franca.store.migrate import migrate
from franca.store.port import Store, StoreDamaged, StoreError, StoreFull
from franca.store.rows import Traits, job_of

CHECKPOINT_PAGES = 4_000
"""Pages in the log before they are moved into the file: about 16 MiB."""
LOG_FRAMES_AT = 16
"""Where the log's index file says how many pages the log holds (SQLite's "WAL-index format"). The
log's own size does not tell: a log that was moved into the file is written over from its start."""
RECENT_NAMES = 10_000


def nothing(step: str) -> None:
    """What happens at each named step of a commit, unless a test wants something else."""


def no_room() -> bool:
    """What is done when the disk is full, unless there is something to give up."""
    return False


class SqliteStore(Store):
    """The file `path` and its log. See `docs/promises.md` for what it keeps."""

    def __init__(
        self,
        path: str,
        *,
        ended_jobs: int = 10_000,
        make_room: Callable[[], bool] = no_room,
        step: Callable[[str], None] = nothing,
    ) -> None:
        self.path = path
        self._make_room = make_room
        self._step = step
        self._db = self._connect(path)
        self._index = -1
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._group: list[Batch] = []
        self._books = GroupWriter(self._db, ended_jobs)

    @staticmethod
    def _connect(path: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA cache_size = -65536")
        db.execute("PRAGMA mmap_size = 0")
        db.execute("PRAGMA temp_store = MEMORY")
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raise StoreError(f"{path}: the file system does not support a write-ahead log")
        return db

    # -- birth ------------------------------------------------------------------------------

    def open(self) -> Snapshot:
        """Read what is held, count the tail, and check that no row is missing or damaged."""
        try:
            migrate(self._db, self._step)
            return self._snapshot()
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"{self.path}: {error}") from error
        except ValueError as error:
            raise StoreDamaged(f"{self.path}: {error}") from error

    def _snapshot(self) -> Snapshot:
        db = self._db
        for trait_id, media, origin, policy in db.execute("SELECT * FROM traits"):
            shared = msgspec.msgpack.decode(policy, type=Policy)
            self._books.learn(trait_id, Traits(media, origin, shared))
        pushed, processed, failures, last_id, last_place, held, tail = db.execute(
            "SELECT pushed, processed, failures, last_job_id, last_place, held_rows, tail_rows "
            "FROM totals"
        ).fetchone()
        jobs = self._jobs(search.select("jobs"), (), Shelf.HELD)
        tails = self._tail_counts()
        tail_rows = sum(c.ready + c.scheduled + c.retrying + c.dead + c.leased for c in tails)
        if len(jobs) != held or tail_rows != tail:
            raise StoreDamaged(
                f"{self.path}: {held} and {tail} jobs were written, "
                f"{len(jobs)} and {tail_rows} are there"
            )
        self._books.held_rows, self._books.tail_rows = held, tail
        for batch_id, count in db.execute("SELECT id, count FROM ended ORDER BY id"):
            self._books.learn_ended(batch_id, count)
        first = db.execute(
            "SELECT run_at, id FROM tail WHERE state = 0 ORDER BY run_at, id LIMIT 1"
        ).fetchone()
        schedules = [
            msgspec.msgpack.decode(piece, type=Schedule)
            for (piece,) in db.execute("SELECT schedule FROM schedules")
        ]
        return Snapshot(
            totals=Totals(pushed, processed, failures, last_id, last_place),
            held=jobs,
            tail=tails,
            first_waiting=first,
            queues=[
                QueueSetting(queue, bool(paused))
                for queue, paused in db.execute("SELECT queue, paused FROM queues ORDER BY queue")
            ],
            schedules=schedules,
            known=self._known(),
        )

    def _tail_counts(self) -> list[TailCount]:
        counts: dict[str, TailCount] = {}
        for queue, ready in self._db.execute(
            "SELECT queue, count(*) FROM tail WHERE state = 1 GROUP BY queue"
        ):
            first = self._db.execute(
                "SELECT priority, place FROM tail WHERE state = 1 AND queue = ? "
                "ORDER BY priority, place LIMIT 1",
                (queue,),
            ).fetchone()
            counts[queue] = TailCount(queue, ready=ready, first=first)
        for queue, state, failed, number in self._db.execute(
            "SELECT queue, state, failures > 0, count(*) FROM tail WHERE state <> 1 "
            "GROUP BY 1, 2, 3"
        ):
            count = counts.setdefault(queue, TailCount(queue))
            if state == State.DEAD:
                count.dead += number
            elif state == State.LEASED:
                count.leased += number
            elif failed:
                count.retrying += number
            else:
                count.scheduled += number
        return list(counts.values())

    def _known(self) -> list[Known]:
        """Names and keys that a submit may repeat though their jobs are not in memory."""
        columns = "id, queue, kind, digest, run_at, state, name, key"
        recent = self._db.execute(
            f"SELECT {columns} FROM tail ORDER BY id DESC LIMIT {RECENT_NAMES}"
        ).fetchall()
        keyed = self._db.execute(f"SELECT {columns} FROM tail WHERE key <> ''").fetchall()
        rows = {row[0]: row for row in [*keyed, *reversed(recent)]}
        return [
            Known(job_id, queue, kind, digest, run_at, State(state), name, key)
            for job_id, queue, kind, digest, run_at, state, name, key in rows.values()
        ]

    # -- a group ----------------------------------------------------------------------------

    def write(self, changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        """Put a group into an open transaction, and read what is wanted behind it."""
        self._step("before-begin")
        try:
            self._group = self._books.batches(changes)
            self._trying(self._execute)
            return [self._supply(want) for want in wants]
        except sqlite3.Error as error:
            raise self._failed(error) from error
        except ValueError as error:
            raise StoreDamaged(f"{self.path}: {error}") from error

    def commit(self) -> None:
        """Returns when the group is on the disk."""
        self._step("before-commit")
        try:
            self._trying(self._commit)
        except sqlite3.Error as error:
            raise self._failed(error) from error
        self._step("after-commit")

    def _execute(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for statement, rows in self._group:
            self._db.executemany(statement, rows)

    def _commit(self) -> None:
        if not self._db.in_transaction:
            self._execute()
        self._db.execute("COMMIT")

    def _trying(self, act: Callable[[], None]) -> None:
        """Act; on a full disk make room and act once more. The group's rows are kept for it.

        A full disk is the one failure that is certain to have written nothing: SQLite found
        no room before the record that would have made the group valid.
        """
        try:
            act()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_FULL" or not self._make_room():
                raise
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            act()

    def _failed(self, error: sqlite3.Error) -> StoreError:
        if error.sqlite_errorname == "SQLITE_FULL":
            return StoreFull(f"{self.path}: no room on the disk")
        return StoreError(f"{self.path}: {error.sqlite_errorname}: {error}")

    # -- reading behind a group ---------------------------------------------------------------

    def _supply(self, want: Want) -> list[Job]:
        if isinstance(want, Recall):
            return self._search(self._db, want.query)
        if isinstance(want, SupplyReady):
            where = "state = 1 AND queue = ? AND (priority, place) > (?, ?)"
            sql = search.select("tail", where, "priority, place")
            return self._jobs(sql, (want.queue, *want.mark, want.limit), Shelf.TAIL)
        sql = search.select("tail", "state = 0 AND (run_at, id) > (?, ?)", "run_at, id")
        return self._jobs(sql, (*want.mark, want.limit), Shelf.TAIL)

    def _jobs(self, sql: str, values: Sequence[object], shelf: Shelf) -> list[Job]:
        traits = self._books.traits
        return [job_of(row, traits, shelf) for row in self._db.execute(sql, values)]

    def _search(self, db: sqlite3.Connection, query: JobQuery) -> list[Job]:
        sql, values = search.both_shelves(query)
        return [
            job_of(row[1:], self._books.traits, Shelf(row[0])) for row in db.execute(sql, values)
        ]

    # -- tools ------------------------------------------------------------------------------

    def find(self, query: JobQuery) -> list[Job]:
        """Committed jobs that fit, ended ones included, on the read-only connection."""
        with self._reading:
            db = self._reading_connection()
            live = self._search(db, query)
            if query.states and not {State.DONE, State.CANCELLED} & set(query.states):
                return live
            pieces = db.execute("SELECT jobs FROM ended ORDER BY id DESC")
            past = search.among_ended((ended.decode(piece) for (piece,) in pieces), query)
            return search.merge(live, past, query)

    def counts(self) -> list[QueueCount]:
        """How many committed jobs each queue has."""
        with self._reading:
            rows = self._reading_connection().execute(
                "SELECT queue, state, failures > 0, count(*) FROM "
                "(SELECT queue, state, failures FROM jobs UNION ALL "
                "SELECT queue, state, failures FROM tail) GROUP BY 1, 2, 3"
            )
            return search.count_rows(rows)

    def backup(self, path: str) -> None:
        """Copy the whole store into a new file, synced before this returns."""
        if os.path.exists(path):
            raise StoreError(f"{path} exists")
        source = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        copy_into(source, path)

    def _reading_connection(self) -> sqlite3.Connection:
        if self._reader is None:
            self._reader = sqlite3.connect(
                f"file:{self.path}?mode=ro", uri=True, check_same_thread=False, timeout=5
            )
            self._reader.execute("PRAGMA query_only = ON")
        return self._reader

    def wants_tidying(self) -> bool:
        """Whether the log has grown enough to be moved into the file."""
        if self._index < 0:
            self._index = os.open(f"{self.path}-shm", os.O_RDONLY | os.O_CLOEXEC)
        frames = os.pread(self._index, 4, LOG_FRAMES_AT)
        return int.from_bytes(frames, sys.byteorder) > CHECKPOINT_PAGES

    def tidy(self) -> None:
        """Move the log into the file. Without room it is left for later."""
        self._step("before-checkpoint")
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            failure = self._failed(error)
            if not isinstance(failure, StoreFull):
                raise failure from error
        self._step("after-checkpoint")

    def close(self) -> None:
        """Move the log into the file and let both go."""
        if self._index >= 0:
            os.close(self._index)
        if self._reader is not None:
            self._reader.close()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._db.close()


def copy_into(source: sqlite3.Connection, path: str) -> None:
    """Copy a database into a new file and make it durable, name and all; closes the source."""
    target = sqlite3.connect(path)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()
    for name in (path, os.path.dirname(os.path.abspath(path))):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
