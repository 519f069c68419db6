"""Ended jobs as they are remembered: a whole group in one piece, long bodies cut."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from franca.core.model import Attempt, Job, Millis, Policy, State

BODY_BYTES = 4_096
RESULT_BYTES = 65_536
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
                job.body[:BODY_BYTES],
                job.result[:RESULT_BYTES],
            )
            for job in jobs
        ]
    )


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
