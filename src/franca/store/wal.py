"""Looks for damage in a log that SQLite would pass over in silence.

SQLite takes the first page of its log whose checksum is wrong for the end of the log. After a
crash that is right: the last group was torn while it was written, and nobody was told that it
was there. But one bit that turned over in the middle looks the same, and everything behind it
would be gone without a word. Two witnesses tell the two apart:

* behind the bad page, other groups end: each was synced before the next one was begun, so more
  is missing than a torn end. (A log never outlives the server that began it, see
  `SqliteStore.open`; else the remains of an older torn end could look like that.)
* the log's index says how far the log reached. It is written after each sync, so it never
  says too much; a killed server leaves it behind, a power cut may leave an old one or none.

What neither can tell is damage to the very last group after a power cut that took the index: it
looks like the torn write that it might have been. A log that is missing altogether is not
looked for either: the last thing a server does is to remove it.

The formats are those of "The WAL-mode file format" of SQLite's documentation.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from franca.store import rows
from franca.store.port import StoreDamaged

_LOG_HEADER = struct.Struct(">IIII8s8s")
_FRAME_HEADER = struct.Struct(">II8s8s")
_INDEX_HEADER = struct.Struct("=IIIBBHII8s8s8s")
_LITTLE_ENDIAN, _BIG_ENDIAN = 0x377F0682, 0x377F0683
_INDEX_VERSION = 3_007_000


class Reach(NamedTuple):
    """How far a log of these salts, which each new log draws anew, is known to reach."""

    salts: bytes
    frames: int


def check_log(path: str) -> None:
    """Raise `StoreDamaged` if more than a torn last group is missing from the log of this file.

    To be called before anything else opens the file. Leaves the file and its log as they are.
    """
    log = f"{path}-wal"
    known = reach_in_index(path)
    try:
        with open(log, "rb") as file:
            header = file.read(_LOG_HEADER.size)
            if len(header) < _LOG_HEADER.size:
                _compare(log, known, Reach(b"", 0))
                return
            if os.path.getsize(path) == 0:
                raise StoreDamaged(f"{path} is empty, but there is a log of it")
            if not _is_sound(header):
                _check_headless(log, file, known)
                return
            reached = _reached(path, header)
            _compare(log, known, reached)
            if _ends_behind(file, header, reached) > 1:
                raise StoreDamaged(f"{log} is damaged behind page {reached.frames}")
    except FileNotFoundError:
        # An index without a log is of one that was removed; the next is not to be held against it.
        Path(f"{path}-shm").unlink(missing_ok=True)
    except sqlite3.Error as error:
        raise StoreDamaged(f"{path}: {error}") from error


def reach_in_index(path: str) -> list[Reach]:
    """How far the log's index says that the log reaches; two copies, none if neither is sound."""
    try:
        with open(f"{path}-shm", "rb") as file:
            both = file.read(2 * _INDEX_HEADER.size)
    except FileNotFoundError:
        return []
    found: list[Reach] = []
    for start in (0, _INDEX_HEADER.size):
        copy = both[start : start + _INDEX_HEADER.size]
        if len(copy) < _INDEX_HEADER.size:
            break
        version, _, _, begun, _, _, frames, _, _, salts, checksum = _INDEX_HEADER.unpack(copy)
        words = struct.unpack("=10I", copy[:40])
        sound = _checksum(words) == struct.unpack("=2I", checksum)
        if version == _INDEX_VERSION and begun and sound:
            found.append(Reach(salts, frames))
    return found


def _compare(log: str, known: list[Reach], reached: Reach) -> None:
    """The log must reach as far as its index says. An index of an older log says nothing."""
    for index in known:
        same_log = index.salts == reached.salts or not reached.salts
        if same_log and index.frames > reached.frames:
            pages = f"it held {index.frames} pages, {reached.frames} can be read"
            raise StoreDamaged(f"{log} is damaged: {pages}")


def _check_headless(log: str, file: BinaryIO, known: list[Reach]) -> None:
    """A log's header is synced before anything follows it, so it is never torn alone."""
    first = next(_frames(file, os.sysconf("SC_PAGE_SIZE"), 0), None)
    if first is not None or any(index.frames for index in known):
        raise StoreDamaged(f"{log} is damaged: its header is not what was written")


def _reached(path: str, header: bytes) -> Reach:
    """How far SQLite itself can read the log: it reads it when somebody looks into the file."""
    salts: bytes = _LOG_HEADER.unpack(header)[4]
    db = connect_to_read(path)
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        frames = [index.frames for index in reach_in_index(path) if index.salts == salts]
        return Reach(salts, max(frames, default=0))
    finally:
        db.close()


def _ends_behind(file: BinaryIO, header: bytes, reached: Reach) -> int:
    """How many groups end behind what can be read."""
    page_size: int = _LOG_HEADER.unpack(header)[2]
    frames = _frames(file, page_size, reached.frames)
    return sum(after > 0 and _alike(salts, reached.salts) for after, salts in frames)


def _frames(file: BinaryIO, page_size: int, skip: int) -> Iterator[tuple[int, bytes]]:
    """Of each page in the log, how large the file is after its group (0 inside), and its salts."""
    at = _LOG_HEADER.size + skip * (_FRAME_HEADER.size + page_size)
    while True:
        file.seek(at)
        head = file.read(_FRAME_HEADER.size)
        if len(head) < _FRAME_HEADER.size:
            return
        _, pages_after, salts, _ = _FRAME_HEADER.unpack(head)
        yield pages_after, salts
        at += _FRAME_HEADER.size + page_size


def _alike(salts: bytes, others: bytes) -> bool:
    """Whether they are the same, or were before one bit of them turned over."""
    return (int.from_bytes(salts, "big") ^ int.from_bytes(others, "big")).bit_count() <= 1


def _is_sound(header: bytes) -> bool:
    magic = _LOG_HEADER.unpack(header)[0]
    if magic not in (_LITTLE_ENDIAN, _BIG_ENDIAN):
        return False
    order = "<" if magic == _LITTLE_ENDIAN else ">"
    return _checksum(struct.unpack(f"{order}6I", header[:24])) == struct.unpack(">2I", header[24:])


def _checksum(words: tuple[int, ...]) -> tuple[int, int]:
    """SQLite's checksum of an even number of words."""
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def connect_to_read(path: str) -> sqlite3.Connection:
    """A connection that can change nothing, and that leaves the log alone when it is closed."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=5)
    db.create_function("is_sound", -1, rows.is_sound)
    return db
