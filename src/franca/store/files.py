"""SQLite's files: made whole or not at all, connected to in the one right way, copied, synced."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from franca.store import rows
from franca.store.migrate import migrate
from franca.store.port import StoreDamaged, StoreError, StoreFull
from franca.store.wal import check_log

LOG_BYTES_KEPT = 64 * 1024 * 1024
"""A log that has grown beyond this in one go is cut when it begins anew."""
WRITE_OVER_BYTES = 1024 * 1024
WRITTEN_ANEW_BYTES = 16 * 1024 * 1024
COPIED_PAGES = 2_000
"""Pages that are copied before it is asked whether to go on."""
PARTIAL = ".franca-partial"
"""What is behind the name of a copy that is not whole yet."""
FRESH, NEW = ".fresh", ".new"
"""And behind that of a file which is to replace the store's, or to become it."""
BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite calls a file and those beside it."""


def connect(path: str) -> sqlite3.Connection:
    """The connection that writes. Every commit on it is on the disk when it returns."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    # Of a new file, before anything is in it; it is what lets the file give room back later.
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # Fetched to the end: a failure of the last step would otherwise go unseen.
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
    db.execute("PRAGMA cache_size = -32768")
    db.execute("PRAGMA mmap_size = 0")
    # Some builds overwrite what is deleted with zeros and log every page that falls free.
    db.execute("PRAGMA secure_delete = OFF").fetchall()
    db.execute("PRAGMA temp_store = MEMORY")
    db.create_function("is_sound", -1, rows.is_sound)
    if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        raise StoreError(f"{path}: the file system does not support a write-ahead log")
    if db.execute("PRAGMA synchronous").fetchone()[0] != 2:
        raise StoreError(f"{path}: SQLite does not sync every commit")
    return db


def remove_unfinished(path: str) -> None:
    """Remove what a process that was killed had begun to put in the place of this file.

    Whoever calls this holds the data directory, so nobody is at it.
    """
    for suffix in (FRESH, FRESH + PARTIAL, NEW):
        remove(path + suffix)


def create_if_missing(path: str, step: Callable[[str], None]) -> None:
    """Make an empty store under another name, and give it its own when it is whole.

    So a file that is there was whole once, and an empty one is not taken for a new one.
    """
    if os.path.exists(path):
        if os.path.getsize(path) == 0:
            raise StoreDamaged(f"{path} is empty; remove it to begin with a new store")
        return
    if os.path.exists(f"{path}-wal"):
        raise StoreDamaged(f"{path} is missing, but there is a log of it")
    fresh = path + NEW
    remove(fresh)
    db = connect(fresh)
    try:
        migrate(db, step)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.close()
    if os.path.exists(f"{fresh}-wal"):
        raise StoreError(f"{fresh}: the new store could not be written whole")
    put_in_place(fresh, path)


def copy_into(
    source: sqlite3.Connection,
    path: str,
    check: Callable[[], None] = lambda: None,
    spare_bytes: int = 0,
) -> None:
    """Copy a database into a new file and make it durable, name and all; closes the source.

    It has another name until it is whole. A copy that could not be finished is removed, also if
    `check`, which is called now and then, raises something. `StoreFull`, and nothing was written,
    if there is no room on the disk of `path` for a copy and `spare_bytes` beside it.
    """
    partial = path + PARTIAL
    try:
        remove(partial)
        _check_room(source, path, spare_bytes)
        target = sqlite3.connect(partial)
        try:
            # One view of all pages: a copy would begin anew whenever something is written.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            source.backup(target, pages=COPIED_PAGES, progress=lambda *_: check())
        finally:
            target.close()
        check()
        put_in_place(partial, path)
    finally:
        source.close()
        remove(partial)


def _check_room(source: sqlite3.Connection, path: str, spare_bytes: int) -> None:
    [pages] = source.execute("PRAGMA page_count").fetchone()
    [page_bytes] = source.execute("PRAGMA page_size").fetchone()
    stat = os.statvfs(os.path.dirname(os.path.abspath(path)))
    needed, free = pages * page_bytes, stat.f_bavail * stat.f_frsize
    if free < needed + spare_bytes:
        text = f"needs {needed} bytes, and {spare_bytes} must stay free; the disk has {free}"
        raise StoreFull(f"{path}: a copy of the store {text}")


def compact(path: str, free: int) -> None:
    """Put a file without unused pages, which can give room back, in the place of this one.

    Nobody else may have the store open. The new file is written straight to the disk, not gathered
    in memory. `StoreError`, and nothing has changed, if there is not enough `free` room.
    """
    fresh = path + FRESH
    remove(fresh)
    try:
        check_log(path)
        db = connect(path)
        try:
            [unused] = db.execute("PRAGMA freelist_count").fetchone()
            [pages] = db.execute("PRAGMA page_count").fetchone()
            [page_bytes] = db.execute("PRAGMA page_size").fetchone()
            needed = (pages - unused) * page_bytes * 9 // 8
            if free < needed:
                raise StoreError(f"{path}: {needed} bytes are needed and {free} are free")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM INTO ?", (fresh,))
        finally:
            db.close()
        if os.path.exists(f"{path}-wal"):
            # It speaks of pages as they are numbered in the old file.
            raise StoreError(f"{path}: somebody reads it; its log could not be moved into it")
        put_in_place(fresh, path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}") from error
    finally:
        remove(fresh)


def make_shrinkable(db: sqlite3.Connection, path: str) -> None:
    """Let a small file of an earlier release give room back, by writing it once more.

    A large one would pass through memory, and need twice its room: that is left to `compact`.
    Without room it stays as it is.
    """
    # Not by `gives_room_back`: whoever opens and closes the file takes SQLite's locks away.
    shrinks = db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    if shrinks or os.path.getsize(path) > WRITTEN_ANEW_BYTES:
        return
    try:
        db.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_FULL":
            raise


def gives_room_back(path: str) -> bool:
    """Whether a file was made, or compacted, so that it can give room back by itself.

    Not for a process that has the store open: closing the file again ends all its locks on it.
    """
    with open(path, "rb") as file:
        header = file.read(100)
    # The largest root page, which only such files note down (SQLite's "Database File Format").
    return len(header) == 100 and header[52:56] != b"\0\0\0\0"


def write_over(path: str) -> None:
    """Have a file's content on the disk, by writing every byte of it again where it is.

    What a failed sync left in the kernel's cache counts as written; only another write makes the
    next sync send it to the disk. Cut off in the middle, it leaves each byte as it was or as it is.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        at = 0
        while piece := os.pread(descriptor, WRITE_OVER_BYTES, at):
            at += os.pwrite(descriptor, piece, at)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a database, if it is there, and all that SQLite put beside it."""
    for suffix in BESIDE:
        Path(path + suffix).unlink(missing_ok=True)


def sync(path: str) -> None:
    """Have a file's content, or a directory's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(fresh: str, path: str) -> None:
    """Have a new file on the disk, and then under its own name."""
    sync(fresh)
    os.replace(fresh, path)
    sync(os.path.dirname(os.path.abspath(path)))
