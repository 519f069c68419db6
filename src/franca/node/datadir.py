"""The data directory: ours alone, readable by nobody else, with a reserve for a full disk.

One server holds it at a time. A server that could not trust its disk leaves a mark behind, and
the next one has all of the store written and synced once more before it believes a word of it: what
the kernel still has in its cache after a failed sync may never have reached the disk.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.node.settings import Settings
from franca.store.files import compact, copy_into, remove, sync, write_over
from franca.store.files import gives_room_back as gives_room_back
from franca.store.memory import MemoryStore
from franca.store.port import Bounds, Store, StoreDamaged
from franca.store.port import StoreBusy as StoreBusy
from franca.store.port import StoreError as StoreError
from franca.store.sqlite import SqliteStore
from franca.store.wal import check_log

STORE = "franca.db"
LOCK = "lock"
SUSPECT = "suspect"
BALLAST = "ballast"
COPY_SPARE_BYTES = 1024 * 1024
"""Room that is left beside a copy of the store."""


class DataDir:
    """A directory that is locked for as long as this object is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StoreBusy(f"another server holds {path}") from error

    @property
    def store_path(self) -> str:
        """Where the embedded store's file is."""
        return str(self.path / STORE)

    def mark_suspect(self, reason: str) -> None:
        """Leave word that a write or a sync failed. Best effort: the disk may refuse this too."""
        try:
            (self.path / SUSPECT).write_text(reason + "\n", encoding="utf-8")
        except OSError:
            pass

    def heal(self) -> str:
        """Have a suspect store written to the disk once more; says how, or nothing if it need not.

        It is copied into a fresh file, for whose pages the disk may choose better places. Where
        there is no room for a copy, it is written over with what it holds: that needs no room.
        """
        mark = self.path / SUSPECT
        if not mark.exists():
            return ""
        done = "there was none"
        try:
            if os.path.exists(self.store_path):
                done = self._write_again()
            mark.unlink()
            sync(str(self.path))
        except sqlite3.Error as error:
            raise StoreDamaged(f"{self.store_path}: {error}") from error
        except OSError as error:
            raise StoreError(f"{self.store_path} could not be written again: {error}") from error
        return done

    def _write_again(self) -> str:
        store = self.store_path
        fresh = f"{store}.fresh"
        check_log(store)
        remove(fresh)
        sizes = [os.path.getsize(path) for path in (store, f"{store}-wal") if os.path.exists(path)]
        needed, free = sum(sizes) + COPY_SPARE_BYTES, self.free_bytes()
        if free >= needed:
            copy_into(sqlite3.connect(store), fresh)
            # The log goes last: until then the old file needs it, and to the new one, which has
            # the same pages, it says nothing new.
            os.replace(fresh, store)
            sync(str(self.path))
            for suffix in ("-wal", "-shm"):
                Path(store + suffix).unlink(missing_ok=True)
            return "it was copied into a fresh file"
        # The log first: until it is on the disk, the file may lack what only the log has.
        for path in (f"{store}-wal", store):
            if os.path.exists(path):
                write_over(path)
        return f"it was written over in place: a copy needs {needed} bytes, {free} are free"

    def compact(self) -> None:
        """Put a file without unused room in the place of the store's."""
        compact(self.store_path, self.free_bytes())

    # -- room on the disk ---------------------------------------------------------------------

    def free_bytes(self) -> int:
        """Room that this server may still use. `StoreError` if the directory is gone."""
        try:
            stat = os.statvfs(self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be reached: {error.strerror}") from error
        return stat.f_bavail * stat.f_frsize

    def take_ballast(self, size: int) -> None:
        """Hold room that can be given up when the disk is full, if it can be had."""
        path = self.path / BALLAST
        if size <= 0 or (path.exists() and path.stat().st_size == size):
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.ftruncate(descriptor, size)
        except OSError:
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def drop_ballast(self) -> bool:
        """Give the held room up; False if there was none."""
        try:
            (self.path / BALLAST).unlink()
        except FileNotFoundError:
            return False
        return True

    def close(self) -> None:
        """Let the next server in."""
        os.close(self._lock)


class RoomWatch:
    """Below the reserve no new jobs are taken; what is running may still end.

    Between two looks the broker counts what it takes against the room that there was.
    """

    def __init__(self, data: DataDir, broker: Broker, limits: Limits) -> None:
        self._data = data
        self._broker = broker
        self._limits = limits
        data.take_ballast(limits.ballast_bytes)

    def look(self) -> bool:
        """Measure, and set whether new jobs are refused; True if that changed."""
        broker = self._broker
        free = self._data.free_bytes()
        reserve = self._limits.disk_reserve_bytes
        before = broker.refusing_new
        if free < reserve:
            broker.refusing_new = True
        elif before and free >= reserve + self._limits.ballast_bytes:
            # The ballast is taken back first: the next full disk must find it in its place.
            self._data.take_ballast(self._limits.ballast_bytes)
            free = self._data.free_bytes()
            broker.refusing_new = free < reserve
        broker.room_bytes = free - reserve
        return broker.refusing_new is not before

    def make_room(self) -> bool:
        """Give the ballast up; the store calls this when a write found no room."""
        self._broker.refusing_new = True
        return self._data.drop_ballast()


def make_store(settings: Settings, data: DataDir, make_room: Callable[[], bool]) -> Store:
    """The store that the settings name."""
    limits = settings.limits
    kept = Bounds(limits.ended_jobs, limits.ended_bytes, limits.ended_ms, limits.idempotency_keys)
    if settings.store == "memory:":
        return MemoryStore(kept)
    return SqliteStore(data.store_path, ended=kept, make_room=make_room)
