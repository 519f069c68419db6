"""What a disk may hold after the power went, given what was asked of it before.

What was synced is there. Of what was not, each write may be there or not, whole or torn at a sector,
whatever came before or after it; files do not wait for each other. Changes of names (a file created,
removed, renamed) last once their directory was synced; before that, as in a journalling file system,
those that last are the first few of them. Nothing else is assumed, so a server that survives all of
these states needs no more from a file system than POSIX says.

What was asked is what the shim recorded: every write, sync and change of names, and every byte sent to a peer. The
order of the records is the order in which the calls returned. A SYNC covers only what was recorded before it *began*
(`upto`): what was written while it ran may or may not be on the disk.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from random import Random
from typing import NamedTuple, Self

HEAD = struct.Struct("<IBBHIIQQ")

Take = Callable[[bytearray], Iterator[bytes]]
"""Takes whole replies off the front of what was sent; how they are told apart, a protocol knows."""


class Kind(IntEnum):
    """As numbered in shim.c."""

    OPEN = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    UNLINK = 5
    RENAME = 6
    SEND = 7
    FAILED_SYNC = 8


CREATED = 1
DIRECTORY = 2


@dataclass(slots=True)
class Record:
    """One call. `handle` names an open file, for SEND the peer's port; the rest as in shim.c."""

    kind: Kind
    flags: int = 0
    handle: int = 0
    offset: int = 0
    upto: int = 0
    data: bytes = b""

    @property
    def name(self) -> str:
        return self.data.decode()


def read_trace(path: Path) -> list[Record]:
    """All whole records of a trace; a killed server may have left half of one at the end."""
    raw = path.read_bytes()
    records: list[Record] = []
    at = 0
    while at + HEAD.size <= len(raw):
        size, kind, flags, _, handle, _, offset, upto = HEAD.unpack_from(raw, at)
        at += HEAD.size
        if at + size > len(raw):
            break
        records.append(Record(Kind(kind), flags, handle, offset, upto, raw[at : at + size]))
        at += size
    return records


class Mark(NamedTuple):
    """A whole reply that had left once the record with this number was made."""

    record: int
    reply: bytes


def replies(records: Iterable[Record], port: int, take: Take) -> list[Mark]:
    """What the peer at this port had been told: whole replies in their order."""
    unread = bytearray()
    told: list[Mark] = []
    for number, record in enumerate(records):
        if record.kind is Kind.SEND and record.handle == port:
            unread += record.data
            told += [Mark(number, reply) for reply in take(unread)]
    return told


# -- the disk --------------------------------------------------------------------------------------

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
        del image[change.offset :]
        image.extend(bytes(change.offset - len(image)))
    elif change.data:  # one that was torn before its first sector does not even change the size
        end = change.offset + len(change.data)
        image.extend(bytes(max(0, end - len(image))))
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
    ends = range(SECTOR - change.offset % SECTOR, len(change.data), SECTOR)
    return change._replace(data=change.data[: rng.choice(ends)] if ends else b"")


@dataclass
class Disk:
    """One directory as the trace goes on. Feed it records in order; ask what a crash would leave.

    `_now` has the names as the process sees them, `_durable` those that are surely on the disk.
    """

    contents: list[Content] = field(default_factory=list)
    _now: dict[str, int | None] = field(default_factory=dict)
    _durable: dict[str, int | None] = field(default_factory=dict)
    _pending: list[NameChange] = field(default_factory=list)
    _handles: dict[int, int | None] = field(default_factory=dict)  # None: a directory
    _fed: int = 0

    @classmethod
    def holding(cls, files: Mapping[str, bytes]) -> Self:
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
                for change in self._pending:
                    if change.record < record.upto:
                        self._durable.update(change.names)
                self._pending = [one for one in self._pending if one.record >= record.upto]
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


def materialise(files: Mapping[str, bytes], into: Path) -> Path:
    """Write a directory out, so that a program can open it; the directory."""
    into.mkdir(mode=0o700, exist_ok=True)
    for name, data in files.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return into
