"""What a disk may hold after the power went, given what was asked of it before.

What was synced is there. Of what was not, each write may be there or not, whole or torn at a sector,
whatever came before or after it; files do not wait for each other. Changes of names (a file created,
removed, renamed) last once their directory was synced; before that, as in a journalling file system,
those that last are the first few of them. Nothing else is assumed, so a server that survives all of
these states needs no more from a file system than POSIX says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.prove.trace import CREATED, DIRECTORY, Kind, Record

SECTOR = 512
MODES = ("none", "all", "some", "torn")


class Change(NamedTuple):
    """A write, or (`data` None) a new size, made by the record with this number."""

    record: int
    offset: int
    data: bytes | None


class NameChange(NamedTuple):
    """From the record with this number on, each name stood for a file (None: for nothing)."""

    record: int
    names: Mapping[str, int | None]


@dataclass(slots=True)
class Content:
    """One file: what is surely on the disk, and what was written since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def sync(self, upto: int) -> None:
        for change in self.pending:
            if change.record < upto:
                _apply(self.durable, change)
        self.forget(upto)

    def forget(self, upto: int) -> None:
        """Also after a sync that failed: the kernel takes these writes for done, and no later sync will do them."""
        self.pending = [change for change in self.pending if change.record >= upto]

    def after_crash(self, rng: Random) -> bytes:
        """One of the contents that this file may be found with."""
        image = bytearray(self.durable)
        for change in _survivors(self.pending, rng):
            _apply(image, change)
        return bytes(image)


def _apply(image: bytearray, change: Change) -> None:
    if change.data is None:
        if change.offset <= len(image):
            del image[change.offset :]
        else:
            image.extend(bytes(change.offset - len(image)))
        return
    if not change.data:
        return  # torn before its first sector: not even the file's size changed
    end = change.offset + len(change.data)
    if end > len(image):
        image.extend(bytes(end - len(image)))
    image[change.offset : end] = change.data


def _survivors(pending: list[Change], rng: Random) -> list[Change]:
    mode = rng.choice(MODES)
    if mode == "none" or not pending:
        return []
    if mode == "all":
        return pending
    share = rng.random()
    kept = [change for change in pending if rng.random() < share]
    if mode == "torn" and kept:
        place = rng.randrange(len(kept))
        kept[place] = _torn(kept[place], rng)
    return kept


def _torn(change: Change, rng: Random) -> Change:
    """The front of a write, cut where a sector of the disk ends."""
    if change.data is None:
        return change
    first_end = SECTOR - change.offset % SECTOR
    ends = range(first_end, len(change.data), SECTOR)
    return change._replace(data=change.data[: rng.choice(ends)] if ends else b"")


@dataclass
class Disk:
    """One directory as the trace goes on. Feed it records in order; ask what a crash would leave."""

    contents: list[Content] = field(default_factory=list)
    _now: dict[str, int | None] = field(default_factory=dict)  # names as the process sees them
    _durable: dict[str, int | None] = field(
        default_factory=dict
    )  # names that are surely on the disk
    _pending: list[NameChange] = field(default_factory=list)
    _handles: dict[int, int | None] = field(default_factory=dict)  # None: a directory
    _fed: int = 0

    @classmethod
    def holding(cls, files: Mapping[str, bytes]) -> Disk:
        """A disk on which these files have long been."""
        disk = cls()
        for name, data in files.items():
            disk.contents.append(Content(bytearray(data)))
            disk._now[name] = disk._durable[name] = len(disk.contents) - 1
        return disk

    def feed(self, record: Record) -> None:
        """Take note of the next record of the trace."""
        number = self._fed
        self._fed += 1
        match record.kind:
            case Kind.OPEN:
                self._open(number, record)
            case Kind.WRITE:
                self._file(record).pending.append(Change(number, record.offset, record.data))
            case Kind.TRUNCATE:
                self._file(record).pending.append(Change(number, record.offset, None))
            case Kind.SYNC if self._handles[record.handle] is None:
                self._sync_names(record.upto)
            case Kind.SYNC:
                self._file(record).sync(record.upto)
            case Kind.UNLINK:
                self._rename(number, {record.name: None})
            case Kind.RENAME:
                old, new = record.name.split("\0")
                self._rename(number, {old: None, new: self._now.get(old)})
            case Kind.FAILED_SYNC:
                self._file(record).forget(record.upto)
            case Kind.SEND:
                pass

    def after_crash(self, rng: Random, but_for: str = "") -> dict[str, bytes]:
        """One of the directories that may be found after the power went at this moment."""
        names = dict(self._durable)
        mode, most = rng.choice(MODES), len(self._pending)
        lasting = {"none": 0, "all": most}.get(mode, rng.randint(0, most))
        for change in self._pending[:lasting]:
            names.update(change.names)
        found = {name: self.contents[file] for name, file in names.items() if file is not None}
        return {n: content.after_crash(rng) for n, content in found.items() if n != but_for}

    def surely(self) -> dict[str, bytes]:
        """What is there even if nothing unsynced lasts."""
        found = {name: file for name, file in self._durable.items() if file is not None}
        return {name: bytes(self.contents[file].durable) for name, file in found.items()}

    # -- inside ----------------------------------------------------------------------------

    def _file(self, record: Record) -> Content:
        file = self._handles[record.handle]
        assert file is not None, "bytes written to a directory"
        return self.contents[file]

    def _open(self, number: int, record: Record) -> None:
        if record.flags & DIRECTORY:
            self._handles[record.handle] = None
            return
        if record.flags & CREATED or self._now.get(record.name) is None:
            self.contents.append(Content())
            self._rename(number, {record.name: len(self.contents) - 1})
        self._handles[record.handle] = self._now[record.name]

    def _rename(self, number: int, names: Mapping[str, int | None]) -> None:
        self._pending.append(NameChange(number, names))
        self._now.update(names)

    def _sync_names(self, upto: int) -> None:
        for change in self._pending:
            if change.record < upto:
                self._durable.update(change.names)
        self._pending = [change for change in self._pending if change.record >= upto]


def materialise(files: Mapping[str, bytes], into: Path) -> Path:
    """Write a directory out, so that a program can open it; the directory."""
    into.mkdir(mode=0o700, exist_ok=True)
    for name, data in files.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return into
