"""A backup becomes the store of a data directory where nothing is yet; no server runs meanwhile.

It is copied beside the place of the store, opened there as a server would open it, and read from
end to end. Only a copy that is whole and on the disk gets the store's name, so that whatever comes
between leaves a directory without a store.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from franca.core.model import JobQuery, State
from franca.node.datadir import BALLAST, LOCK, STORE, DataDir
from franca.store.files import BESIDE, FRESH, NEW, PARTIAL, put_in_place, remove, sync
from franca.store.port import StoreDamaged, StoreError
from franca.store.sqlite import SqliteStore

MAGIC = b"SQLite format 3\0"
COPIED_BYTES = 1024 * 1024
READ_JOBS = 1_000
LIVE = (State.WAITING, State.READY, State.LEASED, State.DEAD)
ENDED = (State.DONE, State.CANCELLED)

Tell = Callable[[int, int | None, str], None]
"""Is told how much is done, of how much if that is known, and of what."""


class NotEmpty(Exception):
    """There is something in the data directory already."""


def restore(file: str, directory: str, tell: Tell) -> int:
    """Make a backup the store of this directory; how many jobs are in it.

    `NotEmpty` or `StoreBusy`, and nothing was touched; `StoreError` if the backup is not whole,
    and nothing is left of it.
    """
    _check_backup(file)
    if os.path.exists(directory):
        _check_empty(directory)
    data = DataDir(Path(directory))
    try:
        # Once more: only now it is certain that nobody else is at it.
        _check_empty(directory)
        fresh = data.store_path + FRESH
        try:
            _copy(file, fresh, data.free_bytes(), tell)
            _check_schema(file, fresh)
            jobs = _read_all(fresh, tell)
            if any(os.path.exists(fresh + suffix) for suffix in BESIDE if suffix):
                raise StoreError(f"{fresh}: its log could not be moved into it")
            put_in_place(fresh, data.store_path)
            sync(os.path.dirname(os.path.abspath(directory)))
        except OSError as error:
            raise StoreError(f"{error.filename or file}: {error.strerror or error}") from error
        finally:
            remove(fresh)
    finally:
        data.close()
    return jobs


def _check_backup(file: str) -> None:
    """Whether this may be a backup at all."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise StoreDamaged(f"{file} is not a backup: it is no regular file")
        with open(file, "rb") as source:
            begins = source.read(len(MAGIC))
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror or error}") from error
    if begins != MAGIC:
        raise StoreDamaged(f"{file} is not a backup: it is no file of a store")
    for suffix in BESIDE:
        if suffix and os.path.exists(file + suffix):
            text = f"{file} is not a backup: there is a log beside it ({file}{suffix})"
            raise StoreDamaged(f"{text}; 'franca backup' makes one of a running server")


def _check_empty(directory: str) -> None:
    """`NotEmpty` if anything is there that a start, or a restore that was killed, did not leave."""
    left = {f"{STORE}{kind}{end}" for kind in (FRESH, FRESH + PARTIAL, NEW) for end in BESIDE}
    for entry in os.scandir(directory):
        is_socket = stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
        if entry.name not in {LOCK, BALLAST, *left} and not is_socket:
            raise NotEmpty(f"{directory} is not empty: there is {entry.name}")


def _copy(file: str, fresh: str, free: int, tell: Tell) -> None:
    remove(fresh)
    size = os.path.getsize(file)
    if free < size:
        raise StoreError(f"{fresh}: {size} bytes are needed and {free} are free")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(file, "rb") as source, os.fdopen(descriptor, "wb") as copy:
        done = 0
        while piece := source.read(COPIED_BYTES):
            copy.write(piece)
            done += len(piece)
            tell(done, size, "B")
        copy.flush()
        os.fsync(copy.fileno())


def _check_schema(file: str, fresh: str) -> None:
    """`StoreDamaged` if the copy has more than tables: a trigger or a view acts when it is used."""
    try:
        with closing(sqlite3.connect(fresh)) as db:
            sql = "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')"
            found = db.execute(sql).fetchone()
    except sqlite3.Error as error:
        raise StoreDamaged(f"{file}: {error}") from error
    if found is not None:
        raise StoreDamaged(f"{file} is not a backup: it has the {found[0]} {found[1]!r}")


def _read_all(path: str, tell: Tell) -> int:
    """Open the store and read every job, so that each checksum is compared; how many there are."""
    store = SqliteStore(path)
    # An earlier release's is brought up to date here, in the copy.
    store.open()
    try:
        count = 0
        for states in (LIVE, ENDED):
            after = 0
            while found := store.find(JobQuery(states=states, after=after, limit=READ_JOBS)):
                after = found[-1].id
                count += len(found)
                tell(count, None, "jobs")
        return count
    finally:
        store.close()
