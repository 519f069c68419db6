"""Gearman: packets of a type and arguments, and lines of text. `@1` is the first handle of the server."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from franca.protocols.gearman.service import GearmanService
from franca.protocols.service import Service
from tests.prove.fuzzing import RAW, Message, Seeds, exchanges
from tests.prove.tables import tables
from tests.support import gearman
from tests.support.gearman import Type


def _message(kind: bytes, *arguments: bytes) -> Message:
    name = kind.decode()
    return (bytes([Type[name]]), *arguments) if name.isupper() else (RAW, kind, b"\n")


def _encode(message: Message) -> bytes:
    """A packet with the size of its arguments, or a line."""
    kind, *arguments = message or (b"\x10",)
    body = b"\0".join(arguments)
    return struct.pack(">4sII", b"\0REQ", int.from_bytes(kind[:4], "big"), len(body)) + body


def _fill(service: Service, data: bytes) -> bytes:
    """Handles are the server's."""
    assert isinstance(service, GearmanService)
    return data.replace(b"@", service.prefix.encode())


def _answers(said: bytes) -> Iterator[bytes]:
    """A NOOP may or may not overtake the word that makes it needless."""
    return (answer for answer in gearman.said(said) if answer != bytes([Type.NOOP]))


_TABLES = tables(__file__)
SEEDS = Seeds(exchanges(_TABLES, _message), _TABLES["values"], _encode, _answers, fill=_fill)
