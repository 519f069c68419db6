"""One file, one writer: SQLite in WAL mode, every commit synced before it returns.

`write` and `commit` use one connection, from one thread at a time; the node sees to that. The
same connection makes the checkpoints, between groups: SQLite before 3.51.3 can corrupt a file
whose log two connections reset at once. Searches use a second, read-only connection.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence

from franca.core.changes import Changes
from franca.core.model import Job, JobQuery, QueueCount, State
from franca.core.tail import Snapshot, Want
from franca.store import ended, search
from franca.store.files import (
    connect,
    copy_into,
    create_if_missing,
    make_shrinkable,
    remove_unfinished,
)
from franca.store.group import Batch, GroupWriter
from franca.store.migrate import migrate
from franca.store.port import Store, StoreDamaged, StoreError, StoreFull
from franca.store.reading import Reading
from franca.store.shrink import Shrinker
from franca.store.snapshot import read_snapshot
from franca.store.sweep import Sweeper
from franca.store.threads import Threads
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
FAILURES = (sqlite3.Error, ValueError, OSError)
"""What may come of a file; a damaged one can even have error messages that are no text."""

_COUNTS = (
    "SELECT queue, state, failures > 0, count(*) FROM "
    "(SELECT queue, state, failures FROM jobs "
    "WHERE id NOT IN (SELECT value FROM json_each(?)) UNION ALL "
    f"SELECT queue, state, failures FROM tail j WHERE {search.LIVING}) GROUP BY 1, 2, 3"
)


def nothing(step: str) -> None:
    """What happens at each named step of a commit, unless a test wants something else."""


def no_room() -> bool:
    """What is done when the disk is full, unless there is something to give up."""
    return False


class SqliteStore(Store):
    """The file `path` and its log. See `docs/promises.md` for what it keeps."""

    quick = True

    def __init__(
        self,
        path: str,
        *,
        ended_jobs: int = 10_000,
        make_room: Callable[[], bool] = no_room,
        step: Callable[[str], None] = nothing,
    ) -> None:
        self.path = path
        self._log_path = f"{path}-wal"
        self._size = 0
        self._room_seen = 0
        self._make_room = make_room
        self._step = step
        self._ended_jobs = ended_jobs
        self._index = -1
        self._inodes: tuple[int, int] | None = None
        self._check_at = 0.0
        self._reader: sqlite3.Connection | None = None
        self._searching = threading.Lock()
        self._copying = threading.Lock()
        self._threads = Threads()
        self._group: list[Batch] = []
        self._groups = 0

    _db: sqlite3.Connection
    _books: GroupWriter
    _reading: Reading
    _sweeper: Sweeper
    _shrinker: Shrinker

    # -- birth ------------------------------------------------------------------------------

    def open(self) -> Snapshot:
        """Read what is held, count the tail, and check that no row is missing or damaged."""
        self._inodes = None
        self._check_at = 0.0
        try:
            remove_unfinished(self.path)
            create_if_missing(self.path, self._step)
            # Before SQLite looks at the log: it would cut it off where it is damaged.
            check_log(self.path)
            self._db = connect(self.path)
        except FAILURES as error:
            raise self._failed(error) from error
        try:
            migrate(self._db, self._step)
            make_shrinkable(self._db, self.path)
            self._books = GroupWriter(self._ended_jobs)
            self._reading = Reading(self._books)
            self._sweeper = Sweeper(self._db, self._books)
            self._shrinker = Shrinker(self._db)
            snapshot = read_snapshot(self._db, self._books)
            # The log begins anew with this server, or the remains of a torn end could pass for
            # groups that were lost in its middle (see `wal.py`).
            self._checkpoint()
            # Now, because later there may be no descriptor left for it.
            self._index = os.open(f"{self.path}-shm", os.O_RDONLY | os.O_CLOEXEC)
            return snapshot
        except BaseException as error:
            self._db.close()
            if isinstance(error, FAILURES):
                raise self._failed(error) from error
            raise

    # -- a group ----------------------------------------------------------------------------

    def write(self, changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        """Put a group into an open transaction, and read what is wanted behind it."""
        self.prepare(changes)
        try:
            self._trying(self._execute)
            return self._reading.supplies(self._db, wants)
        except FAILURES as error:
            raise self._failed(error) from error

    def prepare(self, changes: Changes) -> None:
        """Turn a group into rows; `commit` writes those that no transaction has yet."""
        self._step("before-begin")
        try:
            self._group = self._books.batches(changes)
        except FAILURES as error:
            raise self._failed(error) from error

    def commit(self) -> None:
        """Returns when the group is on the disk."""
        self._step("before-commit")
        try:
            self._trying(self._commit)
            self._group = []  # its rows may hold large bodies
            if time.monotonic() >= self._check_at or not os.access(self._log_path, os.F_OK):
                self._check_files()
        except FAILURES as error:
            raise self._failed(error) from error
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
            if not self._shrink_log() and not made:
                raise
            act()

    def _shrink_log(self) -> bool:
        """Move the log into the file, so that it is written over; True if all of it went."""
        # From now on a log that begins anew keeps no room that it does not need.
        self._db.execute("PRAGMA journal_size_limit = 0")
        return self._checkpoint()

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

    def find(self, query: JobQuery) -> list[Job]:
        """Committed jobs that fit, ended ones included, on the read-only connection."""
        try:
            with self._threads, self._searching:
                db = self._reading_connection()
                live = self._reading.find_live(db, query, self._check_stop)
                if query.states and not {State.DONE, State.CANCELLED} & set(query.states):
                    return live
                past = ended.search(db.execute("SELECT * FROM ended"), query)
                return ended.merge(live, past, query)
        except FAILURES as error:
            raise self._failed(error) from error

    def counts(self) -> list[QueueCount]:
        """How many committed jobs each queue has."""
        try:
            with self._threads, self._searching:
                db = self._reading_connection()
                db.execute("BEGIN")
                try:
                    gone = json.dumps(list(search.read_gone(db)))
                    return search.count_rows(db.execute(_COUNTS, (gone,)))
                finally:
                    db.execute("ROLLBACK")
        except FAILURES as error:
            raise self._failed(error) from error

    def backup(self, path: str, spare_bytes: int = 0) -> None:
        """Copy the whole store into a new file, synced before this returns; one at a time."""
        if os.path.exists(path):
            raise StoreError(f"{path} exists")
        if not self._copying.acquire(blocking=False):
            raise StoreError("another backup is under way")
        try:
            with self._threads:
                copy_into(connect_to_read(self.path), path, self._check_stop, spare_bytes)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: {error}") from error
        finally:
            self._copying.release()

    def _check_stop(self) -> None:
        if self._threads.ending:
            raise StoreError("the server is stopping")

    def end_reading(self) -> None:
        """Interrupt searches and copies, and wait until their threads have let go."""
        self._threads.end(self._interrupt)

    def _interrupt(self) -> None:
        if self._reader is not None:
            self._reader.interrupt()

    def _reading_connection(self) -> sqlite3.Connection:
        if self._reader is None:
            self._reader = connect_to_read(self.path)
        return self._reader

    def wants_tidying(self) -> bool:
        """Whether the log is to be moved into the file, or it is time for what can wait."""
        self._groups += 1
        looks = self._groups % LOOK_EVERY == 0
        try:
            if looks or self._room_seen < AMPLE_ROOM_BYTES:
                self._room_seen = self._room()
                # Without room nothing can wait: a file larger than it may have some to give.
                looks = looks or self._size > self._room_seen
            if self._log_is_long(self._room_seen):
                return True
        except OSError as error:
            raise self._failed(error) from error
        if self._sweeper.is_behind() or (looks and self.has_leftovers()):
            return True
        is_time = self._groups % SWEEP_EVERY == 0
        return is_time and (self._sweeper.has_work() or self._shrinker.shrinking)

    def has_leftovers(self) -> bool:
        """Whether rows are left of what is gone, or the file has more room than it needs."""
        try:
            return self._sweeper.has_work() or self._shrinker.has_work(self._room())
        except FAILURES as error:
            raise self._failed(error) from error

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
            waits = self._sweeper.has_work()
            if waits:
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

    def close(self) -> None:
        """Move the log into the file and let both go. Without room the log stays."""
        self.end_reading()
        if self._reader is not None:
            self._reader.close()
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._checkpoint()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        finally:
            # SQLite removes a log that is empty. We never cut one to nothing before: `check_log`
            # takes that for damage.
            self._db.close()
            # Behind that: whoever closes this file takes SQLite's locks on it away.
            os.close(self._index)


def _name_of(error: Exception) -> str:
    """SQLite's name of an error; values that we or the driver cannot read have none."""
    return getattr(error, "sqlite_errorname", None) or UNREADABLE
