"""Periodic: frames with a CRC that fits, or (`d`, `e`) the document's without one."""

from __future__ import annotations

import struct
from zlib import crc32

from tests.prove.fuzzing import Message, Seeds, exchanges
from tests.prove.tables import tables
from tests.support import periodic as p
from tests.support.periodic import SEPARATOR

_PLAIN = b"<plain>"
"""The first part of a message in the document's dialect."""
_REGISTERS = {b"client": b"\x01", b"worker": b"\x02"}


def _message(*words: bytes) -> Message:
    """`COMMAND@id` and its arguments, or who registers; behind `doc` in the document's dialect."""
    before, usual = ((_PLAIN,), b"1") if words[0] == b"doc" else ((), b"0001")
    command, *arguments = words[len(before) :]
    if command in _REGISTERS:
        return (*before, _REGISTERS[command])
    name, _, msgid = command.partition(b"@")
    return (*before, msgid or usual, bytes([getattr(p, name.decode())]), *arguments)


def _encode(message: Message) -> bytes:
    """A frame in one of the two dialects."""
    if message[:1] == (_PLAIN,):
        payload = SEPARATOR.join(message[1:])
        return b"\0REQ" + struct.pack(">I", len(payload)) + payload
    payload = b"".join(message)
    return b"\0REQ" + struct.pack(">II", len(payload), crc32(payload)) + payload


_TABLES = tables(__file__)
SEEDS = Seeds(exchanges(_TABLES, _message), _TABLES["values"], _encode, p.said)
