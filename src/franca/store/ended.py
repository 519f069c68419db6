"""Ended jobs as they are remembered: many in one piece, long bodies cut."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

import msgspec

from franca.core.model import (
    HISTORY_BODY_BYTES,
    HISTORY_RESULT_BYTES,
    Attempt,
    Job,
    JobQuery,
    Millis,
    Policy,
    State,
)
from franca.store.port import fits
from franca.store.rows import Row, seal

_NO_POLICY = Policy()


class Ended(msgspec.Struct, array_like=True, gc=False):
    """What is kept of an ended job."""

    id: int
    queue: str
    kind: str
    name: str
    state: int
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
    story: list[Attempt] | None
    body: bytes
    result: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Ended])


def encode(jobs: Iterable[Job]) -> bytes:
    """One piece for all of them."""
    return _ENCODER.encode(
        [
            (
                job.id,
                job.queue,
                job.kind,
                job.name,
                int(job.state),
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
                job.story,
                job.body[:HISTORY_BODY_BYTES],
                job.result[:HISTORY_RESULT_BYTES],
            )
            for job in jobs
        ]
    )


def search(rows: Iterable[Row], query: JobQuery) -> list[Job]:
    """One page of the ended jobs that fit. All rows are read: jobs end in any order of their ids.

    No more jobs than a page has are kept at a time. ValueError if a row is damaged.
    """
    return heapq.nsmallest(query.limit, _fitting(rows, query), key=_order_of(query))


def merge(live: list[Job], past: list[Job], query: JobQuery) -> list[Job]:
    """One page of both."""
    found = {job.id: job for job in past}
    found.update((job.id, job) for job in live)
    return sorted(found.values(), key=_order_of(query))[: query.limit]


def _fitting(rows: Iterable[Row], query: JobQuery) -> Iterator[Job]:
    for *piece, crc in rows:
        if seal(piece) != crc:
            raise ValueError("the history of ended jobs is damaged")
        for job in decode(piece[2]):
            if fits(job, query) and _in_page(job, query):
                if not query.with_bodies:
                    job.body = job.result = b""
                yield job


def _order_of(query: JobQuery) -> Callable[[Job], tuple[int, int]]:
    if query.by_time:
        return lambda job: (job.run_at, job.id)
    if query.newest_first:
        return lambda job: (-job.id, 0)
    return lambda job: (job.id, 0)


def _in_page(job: Job, query: JobQuery) -> bool:
    if not query.after or query.by_time:
        return True
    return job.id < query.after if query.newest_first else job.id > query.after


def decode(piece: bytes) -> list[Job]:
    """The jobs of one piece."""
    return [
        Job(
            e.id,
            e.queue,
            e.kind,
            e.name,
            "",
            e.body,
            e.media,
            e.origin,
            _NO_POLICY,
            e.priority,
            e.created_at,
            state=State(e.state),
            ready_at=e.ready_at,
            started_at=e.started_at,
            ended_at=e.ended_at,
            holder=e.holder,
            attempts=e.attempts,
            failures=e.failures,
            losses=e.losses,
            story=e.story,
            result=e.result,
        )
        for e in _DECODER.decode(piece)
    ]
