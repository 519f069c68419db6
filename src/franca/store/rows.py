"""A job as a row and back, once for every database. The checksums are made and checked here.

`body_crc` covers what never changes, `life_crc` what does; together they cover the whole row,
so that a damaged one is found before it is handed to anybody. What is not a job has a `seal`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec

from franca.core.model import Attempt, Job, Policy, Shelf, State

BODY_APART_BYTES = 2_048
"""A body larger than this has a row of its own, so that a change of state does not copy it."""

STATIC = "queue, kind, name, key, traits, priority, created_at, digest, extra, body_crc"
LIFE = (
    "state, place, run_at, ready_at, started_at, until, holder, bound, attempts, failures, "
    "losses, failed_at, story, life_crc"
)
COLUMNS = f"id, {STATIC}, {LIFE}, body"
COLUMN_COUNT = len(COLUMNS.split(","))

Row = tuple[Any, ...]
"""A row as the database driver gives and takes it."""

_LIFE_NUMBERS = struct.Struct("<12q")
_STATIC_NUMBERS = struct.Struct("<5q")
_SEAL_ENCODER = msgspec.msgpack.Encoder()
_STORY_ENCODER = msgspec.msgpack.Encoder()
_STORY_DECODER = msgspec.msgpack.Decoder(list[Attempt])
_STATES = tuple(State)


class Traits(msgspec.Struct, frozen=True):
    """What jobs that are alike have in common: kept once."""

    media: str
    origin: str
    policy: Policy


def seal(row: Sequence[object]) -> int:
    """The checksum of a row that is not a job's."""
    return crc32(_SEAL_ENCODER.encode(row))


def body_crc(job: Job, traits_id: int) -> int:
    """The checksum of what never changes in a job."""
    words = f"{job.queue}\0{job.kind}\0{job.name}\0{job.key}\0".encode()
    numbers = _STATIC_NUMBERS.pack(job.id, traits_id, job.priority, job.created_at, job.digest)
    return crc32(job.body, crc32(job.extra, crc32(words, crc32(numbers))))


def life_values(job: Job) -> Row:
    """The columns of LIFE."""
    story = _STORY_ENCODER.encode(job.story) if job.story else None
    # The driver takes a slow way round for anything but a plain int: hence the zeros.
    numbers = (
        job.state + 0,
        job.place,
        job.run_at,
        job.ready_at,
        job.started_at,
        job.until,
        job.bound + 0,
        job.attempts,
        job.failures,
        job.losses,
        job.failed_at,
    )
    holder = job.holder
    crc = crc32(holder.encode(), crc32(_LIFE_NUMBERS.pack(job.id, *numbers)))
    if story is not None:
        crc = crc32(story, crc)
    state, place, run_at, ready_at, started_at, until, bound, *rest = numbers
    return (state, place, run_at, ready_at, started_at, until, holder, bound, *rest, story, crc)


def row_of(job: Job, traits_id: int) -> Row:
    """All columns; the body is None where it is kept apart."""
    body = job.body if len(job.body) <= BODY_APART_BYTES else None
    return (
        job.id,
        job.queue,
        job.kind,
        job.name,
        job.key,
        traits_id,
        job.priority,
        job.created_at,
        job.digest,
        job.extra,
        body_crc(job, traits_id),
        *life_values(job),
        body,
    )


def job_of(row: Row, traits: dict[int, Traits], shelf: Shelf) -> Job:
    """The job of a row, checked. ValueError if the row is not what was written."""
    (
        job_id,
        queue,
        kind,
        name,
        key,
        traits_id,
        priority,
        created_at,
        digest,
        extra,
        crc_of_body,
        state,
        place,
        run_at,
        ready_at,
        started_at,
        until,
        holder,
        bound,
        attempts,
        failures,
        losses,
        failed_at,
        story,
        crc_of_life,
        body,
    ) = row
    try:
        trait = traits[traits_id]
        job = Job(
            job_id,
            queue,
            kind,
            name,
            key,
            body,
            trait.media,
            trait.origin,
            trait.policy,
            priority,
            created_at,
            extra,
            state=_STATES[state],
            place=place,
            run_at=run_at,
            ready_at=ready_at,
            started_at=started_at,
            until=until,
            holder=holder,
            bound=bool(bound),
            attempts=attempts,
            failures=failures,
            losses=losses,
            failed_at=failed_at,
            story=_STORY_DECODER.decode(story) if story is not None else None,
            shelf=shelf,
            digest=digest,
        )
        sound = body_crc(job, traits_id) == crc_of_body and life_values(job)[-1] == crc_of_life
    except (TypeError, KeyError, IndexError, ValueError, AttributeError, struct.error) as error:
        raise ValueError(f"the row of job {job_id} is damaged: {error}") from error
    if not sound:
        raise ValueError(f"the row of job {job_id} is damaged: its checksum is wrong")
    return job
