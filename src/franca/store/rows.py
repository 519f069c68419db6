"""A job as a row and back, once for every database. The checksums are made and checked here.

The whole job is one piece, `job`, with a checksum; beside it stand the few columns that are
searched and sorted by. A row whose piece is damaged, or whose columns say something else than
its piece, is found before it is handed to anybody. What is not a job has a `seal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from franca.core.model import Job, JobId, Policy, Shelf
from franca.core.weights import weigh

BODY_APART_BYTES = 2_048
"""A body larger than this has a row of its own, so that a change of state does not copy it."""

APART = 1
"""What a row says whose body has a row of its own. Its checksum begins with this, and with the era
of a row of the tail, which `search.select` puts in front of it."""

PIECE_BYTES = 256
"""What most pieces need: a larger one grows while it is made."""

POLICIES_MAX = 1_000
"""Policies that are remembered, so that jobs share them: producers may give each job its own."""

LIFE = "priority, state, place, run_at, failures, job, crc"
COLUMNS = f"id, queue, kind, name, key, apart, {LIFE}"
"""Those before LIFE are of fields that never change (`FIXED_FIELDS`), and are written once."""
COLUMN_COUNT = len(COLUMNS.split(","))
SOUND = (
    "is_sound(j.era << 1 | j.apart, j.job, j.crc, "
    "j.id, j.queue, j.kind, j.name, j.state, j.run_at, j.failures)"
)
"""What a row of the tail must be before it may be passed over: see `is_sound`."""

Row = tuple[Any, ...]
"""A row as the database driver gives and takes it."""

_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into
_decode = msgspec.msgpack.Decoder(Job).decode


def seal(row: Sequence[object]) -> int:
    """The checksum of a row that is not a job's."""
    return crc32(_encode(row))


def life_values(job: Job, salt: int = 0) -> Row:
    """The columns of LIFE; the checksum of a row of the tail has twice its era as its `salt`."""
    if len(job.body) > BODY_APART_BYTES:
        salt |= APART
        job = replace(job, body=b"")
    elif job.away:
        salt |= APART
    # The driver takes a slow way round for bytes, and for an int that is not a plain one: hence
    # the bytearray, and the zero.
    piece = bytearray(PIECE_BYTES)
    _encode_into(job, piece)
    crc = crc32(piece, salt)
    return (job.priority, job.state + 0, job.place, job.run_at, job.failures, piece, crc)


def row_of(job: Job, salt: int = 0) -> Row:
    """All columns; the piece has no body where that is kept apart."""
    apart = APART if job.away or len(job.body) > BODY_APART_BYTES else 0
    return (job.id, job.queue, job.kind, job.name, job.key, apart, *life_values(job, salt))


def body_row(job: Job) -> Row:
    """The row of a body that lies apart."""
    return (job.id, job.body, _body_crc(job.id, job.body))


def _body_crc(job_id: JobId, body: bytes) -> int:
    """Of a body and whose it is: a damaged index may lead to another's."""
    return crc32(body, job_id & 0xFFFFFFFF)


def job_of(row: Row, policies: dict[Policy, Policy], shelf: Shelf) -> Job:
    """The job of a row, checked, with its body if that lies apart and was read, else `away`.

    ValueError if the row is not what was written. Jobs with the same policy share it, as a rule.
    """
    job = bodiless(row)
    if job.away and len(row) > COLUMN_COUNT:
        body, crc = row[-2:]
        whole = isinstance(body, bytes) and len(body) > BODY_APART_BYTES
        if not whole or _body_crc(job.id, body) != crc:
            raise ValueError(f"the row of job {job.id} is damaged: its body is not its own")
        job.body = body
        job.away = False
    policy = policies.get(job.policy)
    if policy is None:
        if len(policies) >= POLICIES_MAX:
            policies.clear()
        policies[job.policy] = job.policy
    else:
        job.policy = policy
    job.shelf = shelf
    job.timed = False
    weigh(job)
    return job


def is_sound(salt: int, piece: bytes, crc: int, *columns: object) -> bool:
    """Whether a row is what was written, as far as rows are counted and passed over by it.

    For SQL: one that is not sound must be brought, and found out, though it does not seem to fit.
    """
    if crc32(piece, salt) != crc:
        return False
    job = _decode(piece)
    life = (job.state, job.run_at, job.failures)
    return columns == (job.id, job.queue, job.kind, job.name, *life)


def bodiless(row: Row) -> Job:
    """The job of a row, checked, but without a body that lies apart."""
    job_id, apart, piece, crc = row[0], row[5], *row[COLUMN_COUNT - 2 : COLUMN_COUNT]
    try:
        if crc32(piece, apart) != crc:
            raise ValueError("its checksum is wrong")
        job = _decode(piece)
        fixed = (job.id, job.queue, job.kind, job.name, job.key)
        life = (job.priority, job.state, job.place, job.run_at, job.failures)
        job.away = bool(apart & APART)
        if fixed != row[:5] or life != row[6 : COLUMN_COUNT - 2]:
            raise ValueError("its columns are not its own")
    except (TypeError, ValueError) as error:
        raise ValueError(f"the row of job {job_id} is damaged: {error}") from error
    return job
