"""Ended jobs as they are remembered: many in one piece, long bodies cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from franca.core import model
from franca.core.changes import RunNote
from franca.core.history import MINUTE_MS
from franca.core.model import Attempt, Job, Millis, Policy, State
from franca.store.rows import Row, seal


class Ended(msgspec.Struct, array_like=True, gc=False):
    """What is kept of an ended job."""

    id: int
    queue: str
    kind: str
    name: str
    state: State
    origin: str
    media: str
    priority: int
    created_at: Millis
    ready_at: Millis
    started_at: Millis
    ended_at: Millis
    holder: str
    attempts: int
    failures: int
    losses: int
    attempt_log: list[Attempt] | None
    body: bytes
    result: bytes
    by: int = 0
    key: str = ""


POLICY = Policy()
"""That of a job that has ended is not kept."""
Note = tuple[int, str, str, int, int]
"""A minute, a queue and a kind, what happened to their jobs (`FAILED`, `DIED`), and how often."""
FAILED, DIED = -1, int(State.DEAD)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Ended]).decode
_decode_notes = msgspec.msgpack.Decoder(list[Note]).decode


def rows_of(jobs: Iterable[Job]) -> list[Row]:
    """What a piece has of each of them."""
    body, result = model.HISTORY_BODY_BYTES, model.HISTORY_RESULT_BYTES
    return [
        (
            job.id,
            job.queue,
            job.kind,
            job.name,
            job.state + 0,  # an enum takes twice as long
            job.origin,
            job.media,
            job.priority,
            job.created_at,
            job.ready_at,
            job.started_at,
            job.ended_at,
            job.holder,
            job.attempts,
            job.failures,
            job.losses,
            job.attempt_log,
            job.body[:body],
            job.result[:result],
            job.by,
            job.key,
        )
        for job in jobs
    ]


def encode(jobs: Iterable[Job]) -> bytes:
    """One piece for all of them."""
    return encode_rows(rows_of(jobs))


def encode_rows(rows: Sequence[Row]) -> bytes:
    """The same of what it has of each."""
    return _encode(rows)


def encode_notes(failed: Sequence[RunNote], died: Sequence[RunNote]) -> tuple[bytes, list[Note]]:
    """One piece for what happened to jobs that have not ended, and what it says."""
    counts: dict[tuple[int, str, str, int], int] = {}
    for what, happened in ((FAILED, failed), (DIED, died)):
        for queue, kind, at in happened:
            key = (at // MINUTE_MS, queue, kind, what)
            counts[key] = counts.get(key, 0) + 1
    notes = [(*key, count) for key, count in counts.items()]
    return _encode(notes), notes


def read_piece(row: Row) -> list[Ended]:
    """The jobs of a row of `ended`, of which notes have none. ValueError if it is damaged."""
    *piece, crc = row
    if seal(piece) != crc:
        raise ValueError("the history of ended jobs is damaged")
    return _decode(piece[2]) if piece[1] else []


def read_notes(row: Row) -> list[Note]:
    """What a row without jobs says."""
    return [] if row[1] else _decode_notes(row[2])


def job_of(ended: Ended) -> Job:
    """What is known of an ended job."""
    return Job(
        ended.id,
        ended.queue,
        ended.kind,
        ended.name,
        ended.key,
        ended.body,
        ended.media,
        ended.origin,
        POLICY,
        ended.priority,
        ended.created_at,
        state=ended.state,
        ready_at=ended.ready_at,
        started_at=ended.started_at,
        holder=ended.holder,
        attempts=ended.attempts,
        failures=ended.failures,
        losses=ended.losses,
        attempt_log=ended.attempt_log,
        ended_at=ended.ended_at,
        result=ended.result,
        by=ended.by,
    )
