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
import time
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from franca.core.changes import Changes, IdempotencyKey
from franca.core.history import Found, Past, Rates, RatesQuery, Search, Tallies
from franca.core.model import Job, JobQuery, Millis
from franca.core.wants import Snapshot, Want
from franca.store import files
from franca.store.group import Batch, GroupWriter
from franca.store.migrate import migrate
from franca.store.port import KEPT, Bounds, Store, StoreDamaged, StoreError, StoreFull
from franca.store.reader import Readers, Searcher
from franca.store.seal import Sealer
from franca.store.search import Reading
from franca.store.snapshot import read_snapshot
from franca.store.sweep import Shrinker, Sweeper
from franca.store.wal import check_log, connect_to_read

CHECKPOINT_PAGES = 4_000
"""Pages in the log before they are moved into the file: about 16 MiB."""
LOG_FRAMES_AT = 16
"""Where the log's index file says how many pages the log holds (SQLite's "WAL-index format"). The
log's own size does not tell: a log that was moved into the file is written over from its start."""
PAGE_BYTES = 4_096
SWEEP_EVERY = 4
"""While groups follow each other, what can wait is done after each so many of them."""
LOOK_EVERY = 64
"""And after each so many of them the file and the disk are asked whether there is more to do."""
AMPLE_ROOM_BYTES = 1024 * 1024 * 1024
"""With so much room on the disk it is not looked at again after each group."""
CHECK_EVERY_S = 0.02
"""How often it is looked, at most, whether the files are still the same ones. Whether they are
there at all is looked at after each group, which takes a quarter of the time."""
UNREADABLE = "unreadable"
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", UNREADABLE)
"""How errors begin that a file gives rise to which is not what was written."""
FAILURES = (sqlite3.Error, ValueError, TypeError, OSError)
"""What may come of a file: a damaged one can have values of any kind, in error messages too."""

P = ParamSpec("P")
T = TypeVar("T")


def _as_store_errors(
    method: Callable[Concatenate[SqliteStore, P], T],
) -> Callable[Concatenate[SqliteStore, P], T]:
    """Turn whatever comes of the file into a `StoreError`."""

    def call(store: SqliteStore, /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(store, *arguments, **options)
        except FAILURES as error:
            raise store._failed(error) from error

    return call


class SqliteStore(Store):
    """The file `path` and its log. See `docs/promises.md` for what it keeps.

    `make_room` is called when the disk is full, and says whether there is more room then; `step`
    at each named step of a commit, for tests.
    """

    quick = True

    def __init__(
        self,
        path: str,
        *,
        ended: Bounds = KEPT,
        make_room: Callable[[], bool] = lambda: False,
        step: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.path = path
        self._log_path = f"{path}-wal"
        self._size = 0
        self._room_seen = 0
        self._make_room = make_room
        self._step = step
        self._ended = ended
        self._index = -1
        self._copying = threading.Lock()
        self._readers = Readers()
        self._group: list[Batch] = []
        self._groups = 0

    _db: sqlite3.Connection
    _books: GroupWriter
    _reading: Reading
    _searcher: Searcher
    _sealer: Sealer
    _sweeper: Sweeper
    _shrinker: Shrinker

    # -- birth ------------------------------------------------------------------------------

    @_as_store_errors
    def open(self) -> Snapshot:
        """Read what is held, count the tail, and check that no row is missing or damaged."""
        self._inodes: tuple[int, int] | None = None
        self._check_at = 0.0
        files.remove_unfinished(self.path)
        files.create_if_missing(self.path, self._step)
        # Before SQLite looks at the log: it would cut it off where it is damaged.
        check_log(self.path)
        self._db = files.connect(self.path)
        try:
            migrate(self._db, self._step)
            files.make_shrinkable(self._db, self.path)
            self._books = GroupWriter(self._ended)
            self._reading = Reading(self._books)
            self._searcher = Searcher(self.path, self._books, self._reading, self._readers)
            self._sealer = Sealer(self._db, self._books)
            self._sweeper = Sweeper(self._db, self._books)
            self._shrinker = Shrinker(self._db)
            snapshot = read_snapshot(self._db, self._books)
            # The log begins anew with this server, or the remains of a torn end could pass for
            # groups that were lost in its middle (see `wal.py`).
            self._checkpoint()
            # Now, because later there may be no descriptor left for it.
            self._index = os.open(f"{self.path}-shm", os.O_RDONLY | os.O_CLOEXEC)
            return snapshot
        except BaseException:
            self._db.close()
            raise

    # -- a group ----------------------------------------------------------------------------

    @_as_store_errors
    def write(self, changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        """Put a group into an open transaction, and read what is wanted behind it."""
        self.prepare(changes)
        self._trying(self._execute)
        return self._reading.supplies(self._db, wants)

    @_as_store_errors
    def prepare(self, changes: Changes) -> None:
        """Turn a group into rows; `commit` writes those that no transaction has yet."""
        self._step("before-begin")
        self._group = self._books.batches(changes)

    @_as_store_errors
    def commit(self) -> None:
        """Returns when the group is on the disk."""
        self._step("before-commit")
        self._trying(self._commit)
        self._group = []  # its rows may hold large bodies
        if time.monotonic() >= self._check_at or not os.access(self._log_path, os.F_OK):
            self._check_files()
        self._step("after-commit")

    def _execute(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for statement, rows in self._group:
            if rows is None:
                self._db.execute(statement)
            else:
                self._db.executemany(statement, rows)

    def _commit(self) -> None:
        if not self._db.in_transaction:
            self._execute()
        self._db.execute("COMMIT")

    def _check_files(self) -> None:
        """The file and its log are where they were: what goes into a removed file is lost."""
        self._check_at = time.monotonic() + CHECK_EVERY_S
        file = os.stat(self.path)
        self._size = file.st_size
        inodes = file.st_ino, os.stat(self._log_path).st_ino
        if self._inodes is None:
            self._inodes = inodes
        if inodes != self._inodes:
            raise StoreError(f"{self.path} was replaced by another file while it was in use")

    def _trying(self, act: Callable[[], None]) -> None:
        """Act; on a full disk make room and act once more. The group's rows are kept for it.

        A full disk is the one failure that is certain to have written nothing: SQLite found
        no room before the record that would have made the group valid.
        """
        try:
            act()
        except sqlite3.OperationalError as error:
            if _name_of(error) != "SQLITE_FULL":
                raise
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            made = self._make_room()
            # From now on a log that begins anew keeps no room that it does not need.
            self._db.execute("PRAGMA journal_size_limit = 0")
            if not self._checkpoint() and not made:
                raise
            act()

    def _checkpoint(self) -> bool:
        """Move what can be moved from the log into the file; False if something stays."""
        self._check_at = 0.0  # its size changes
        try:
            busy, pages, moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            failure = self._failed(error)
            if isinstance(failure, StoreFull):
                return False
            raise failure from error
        return not busy and bool(pages == moved)

    def _failed(self, error: Exception) -> StoreError:
        if isinstance(error, OSError):
            return StoreError(f"{self.path}: {error}")
        name = _name_of(error)
        if name == "SQLITE_FULL":
            return StoreFull(f"{self.path}: no room on the disk")
        if name.startswith(DAMAGE):
            return StoreDamaged(f"{self.path}: {error}")
        return StoreError(f"{self.path}: {name}: {error}")

    # -- tools ------------------------------------------------------------------------------

    @_as_store_errors
    def find(self, query: JobQuery) -> list[Job]:
        """Committed jobs that fit, ended ones included, on the read-only connection."""
        return self._searcher.find(query)

    @_as_store_errors
    def search(self, search: Search) -> Found:
        """The same, as far as it is looked at in one go."""
        return self._searcher.search(search)

    @_as_store_errors
    def find_keys(self, keys: Sequence[str]) -> list[IdempotencyKey]:
        """Idempotency keys that are remembered."""
        return self._searcher.find_keys(keys)

    @_as_store_errors
    def rates(self, query: RatesQuery) -> Rates:
        """What happened in some time."""
        return self._searcher.rates(query)

    def past(self) -> Past:
        """What is kept of ended jobs."""
        return self._books.history.past()

    def note(self, at: Millis, queues: Tallies, kinds: Tallies) -> None:
        """Have this written soon."""
        self._books.history.note(at, queues, kinds)

    def backup(self, path: str, spare_bytes: int = 0) -> None:
        """Copy the whole store into a new file, synced before this returns; one at a time."""
        if os.path.exists(path):
            raise StoreError(f"{path} exists")
        if not self._copying.acquire(blocking=False):
            raise StoreError("another backup is under way")
        try:
            with self._readers.one():
                files.copy_into(connect_to_read(self.path), path, self._readers.check, spare_bytes)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: {error}") from error
        finally:
            self._copying.release()

    def end_reading(self) -> None:
        """Interrupt searches and copies, and wait until their threads have let go."""
        self._readers.end(self._searcher.interrupt)

    @_as_store_errors
    def wants_tidying(self) -> bool:
        """Whether the log is to be moved into the file, or it is time for what can wait."""
        self._groups += 1
        looks = self._groups % LOOK_EVERY == 0
        if looks or self._room_seen < AMPLE_ROOM_BYTES:
            self._room_seen = self._room()
            # Without room nothing can wait: a file larger than it may have some to give.
            looks = looks or self._size > self._room_seen
        if self._log_is_long(self._room_seen):
            return True
        if (
            self._sweeper.is_behind()
            or self._sealer.is_behind()
            or (looks and self.has_leftovers())
        ):
            return True
        is_time = self._groups % SWEEP_EVERY == 0
        return is_time and (self._has_rows_to_do() or self._shrinker.shrinking)

    @_as_store_errors
    def has_leftovers(self) -> bool:
        """Whether rows are left of what is gone, or the file has more room than it needs."""
        return self._has_rows_to_do() or self._shrinker.has_work(self._room())

    def _has_rows_to_do(self) -> bool:
        return self._sweeper.has_work() or self._sealer.has_work()

    def _log_is_long(self, room: int) -> bool:
        pages = int.from_bytes(os.pread(self._index, 4, LOG_FRAMES_AT), sys.byteorder)
        # To be moved, the log may need as much room as it has pages: it must not come too late.
        return pages > CHECKPOINT_PAGES or pages * PAGE_BYTES > room // 8

    def _room(self) -> int:
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def tidy(self) -> None:
        """Do a little of what can wait, or move the log into the file.

        Without room for that it is left for later.
        """
        self._step("before-checkpoint")
        try:
            waits = self._has_rows_to_do()
            if self._sealer.has_work():
                self._sealer.seal()
            elif waits:
                self._sweeper.sweep()
            elif self._shrinker.has_work(self._room()):
                waits = self._shrinker.shrink(self._room())
            is_long = self._log_is_long(self._room())
        except FAILURES as error:
            failure = self._failed(error)
            if not isinstance(failure, StoreFull):
                raise failure from error
            waits, is_long = True, True
        if not waits or is_long:
            self._checkpoint()
        self._step("after-checkpoint")

    @_as_store_errors
    def close(self) -> None:
        """Move the log into the file and let both go. Without room the log stays."""
        self.end_reading()
        self._searcher.close()
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._checkpoint()
        finally:
            # SQLite removes a log that is empty. We never cut one to nothing before: `check_log`
            # takes that for damage.
            self._db.close()
            # Behind that: whoever closes this file takes SQLite's locks on it away.
            os.close(self._index)


def _name_of(error: Exception) -> str:
    """SQLite's name of an error; values that we or the driver cannot read have none."""
    return getattr(error, "sqlite_errorname", None) or UNREADABLE
