"""The five messages of memo01, for both roles: a CBOR array, and the payload right behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from franca.protocols.memodb import cbor
from franca.protocols.memodb.cbor import OPEN, Malformed, Pieces

READY: Final = 1
JOB: Final = 2
RESULT: Final = 3
HEARTBEAT: Final = 4
DISCONNECT: Final = 5

VERSION: Final = "memo01"
_VERSION_TEXT: Final = cbor.of_text(VERSION)
_ITEMS: Final = {READY: (4, 4), JOB: (5, 5), RESULT: (3, 4), HEARTBEAT: (3, 3), DISCONNECT: (3, 3)}
SERVICES_MAX: Final = 1_024
"""Services that one worker may offer."""
HEADER_PIECES_MAX: Final = 1_024
"""Pieces in which all strings of a header may be written."""


class Header(Struct, gc=False):
    """What stands before a payload, which begins at `end`."""

    op: int
    id: bytes
    end: int = 0
    services: tuple[str, ...] = ()
    service: str = ""
    timeout_ms: int = 0
    leaving: bool = False


# -- writing --------------------------------------------------------------------------------


def begin(op: int, items: int) -> bytes:
    """The part of a header before the id."""
    return cbor.head(cbor.ARRAY, items) + _VERSION_TEXT + cbor.head(cbor.UINT, op)


def task(service: str, timeout_ms: int) -> bytes:
    """The part of a JOB's header behind the id."""
    return cbor.of_name(service) + cbor.head(cbor.UINT, timeout_ms)


def encode_ready(services: Iterable[str]) -> bytes:
    """A worker offers itself."""
    names = [cbor.of_name(service) for service in services]
    return (
        begin(READY, 4) + cbor.of_bytes(b"") + cbor.head(cbor.ARRAY, len(names)) + b"".join(names)
    )


def encode_job(service: str, timeout_ms: int, payload: bytes, worker_id: bytes = b"") -> bytes:
    """A job, from a client or to a worker."""
    return begin(JOB, 5) + cbor.of_bytes(worker_id) + task(service, timeout_ms) + payload


def encode_result(payload: bytes, worker_id: bytes = b"", leaving: bool | None = None) -> bytes:
    """What came of it, from a worker or to a client."""
    if leaving is None:
        return begin(RESULT, 3) + cbor.of_bytes(worker_id) + payload
    return begin(RESULT, 4) + cbor.of_bytes(worker_id) + cbor.of_bool(leaving) + payload


def encode_heartbeat(worker_id: bytes) -> bytes:
    """Still there, either way."""
    return begin(HEARTBEAT, 3) + cbor.of_bytes(worker_id)


def encode_disconnect(worker_id: bytes) -> bytes:
    """Begin anew with READY."""
    return begin(DISCONNECT, 3) + cbor.of_bytes(worker_id)


# -- reading --------------------------------------------------------------------------------


def read_header(data: bytes, at: int, end: int, name_bytes_max: int) -> Header:
    """The header that begins at `at`; `Malformed` if it is none."""
    pieces = Pieces(HEADER_PIECES_MAX)
    items, at = cbor.read_head(data, at, end, cbor.ARRAY)
    version, at = cbor.read_text(data, at, end, len(VERSION), pieces)
    if version != VERSION:
        raise Malformed(f"version {version!r}")
    op, at = cbor.read_uint(data, at, end)
    least, most = _ITEMS.get(op, (0, 0))
    if items != OPEN and not least <= items <= most:
        raise Malformed(f"message {op} with {items} items")
    worker_id, at = cbor.read_bytes(data, at, end, name_bytes_max, pieces)
    header = Header(op, worker_id)
    if op == READY:
        header.services, at = _read_services(data, at, end, name_bytes_max, pieces)
    elif op == JOB:
        header.service, at = cbor.read_name(data, at, end, name_bytes_max, pieces)
        header.timeout_ms, at = cbor.read_uint(data, at, end)
    elif op == RESULT and (items == 4 or (items == OPEN and not cbor.at_break(data, at, end))):
        header.leaving, at = cbor.read_bool(data, at, end)
    elif op not in _ITEMS:
        raise Malformed(f"message {op}")
    if items == OPEN:
        if not cbor.at_break(data, at, end):
            raise Malformed(f"message {op} with too many items")
        at += 1
    header.end = at
    return header


def _read_services(
    data: bytes, at: int, end: int, most: int, pieces: Pieces
) -> tuple[tuple[str, ...], int]:
    """A list of names, in any order; one that is named twice is offered once."""
    count, at = cbor.read_head(data, at, end, cbor.ARRAY)
    if count > SERVICES_MAX:
        raise Malformed(f"{count} services")
    services: dict[str, None] = {}
    left = SERVICES_MAX if count == OPEN else count
    while left and not (count == OPEN and cbor.at_break(data, at, end)):
        service, at = cbor.read_name(data, at, end, most, pieces)
        services[service] = None
        left -= 1
    if count == OPEN:
        if not cbor.at_break(data, at, end):
            raise Malformed("too many services")
        at += 1
    return tuple(services), at
