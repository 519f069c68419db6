"""Ended jobs as they are remembered: many in one piece, long bodies cut."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import asdict

from franca.core import model
from franca.core.model import Attempt, Job, JobQuery, Millis, Policy, State
from franca.store.port import fits, order_of
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


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Ended]).decode


def encode(jobs: Iterable[Job]) -> bytes:
    """One piece for all of them."""
    body, result = model.HISTORY_BODY_BYTES, model.HISTORY_RESULT_BYTES
    return _encode(
        [
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
            )
            for job in jobs
        ]
    )


def search(rows: Iterable[Row], query: JobQuery) -> list[Job]:
    """One page of the ended jobs that fit. All rows are read: jobs end in any order of their ids.

    No more jobs than a page has are kept at a time. ValueError if a row is damaged.
    """
    return heapq.nsmallest(query.limit, _fitting(rows, query), key=order_of(query))


def merge(live: list[Job], past: list[Job], query: JobQuery) -> list[Job]:
    """One page of both."""
    found = {job.id: job for job in past}
    found.update((job.id, job) for job in live)
    return sorted(found.values(), key=order_of(query))[: query.limit]


def _fitting(rows: Iterable[Row], query: JobQuery) -> Iterator[Job]:
    for *piece, crc in rows:
        if seal(piece) != crc:
            raise ValueError("the history of ended jobs is damaged")
        for job in decode(piece[2]):
            if fits(job, query):
                if not query.with_bodies:
                    job.body = job.result = b""
                yield job


def decode(piece: bytes) -> list[Job]:
    """The jobs of one piece."""
    return [Job(key="", policy=Policy(), **asdict(ended)) for ended in _decode(piece)]
