"""Reads what the shim recorded: every write, sync and change of names, and every byte sent to a peer.

The order of the records is the order in which the calls returned. A SYNC covers only what was
recorded before it *began* (`upto`): what was written while it ran may or may not be on the disk.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

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


def read(path: Path) -> list[Record]:
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
