"""The answer to INFO, in the original's exact shape: clients assert on most of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.protocols.faktory.text import Steps
from franca.protocols.faktory.workers import Workers

QUEUES_A_STEP: Final = 1_000
PIECE_BYTES: Final = 1024 * 1024
"""A long answer is said in pieces of about this size: many may wait for the same ones."""


class ServerFacts(Struct):
    """What only the node knows about itself."""

    uptime_s: int = 0
    connections: int = 0
    command_count: int = 0
    used_memory_mb: int = 0


FactsSource = Callable[[Millis], ServerFacts]

_JSON: Final = msgspec.json.Encoder()


class Sets(Struct):
    """How many jobs there are in all queues together."""

    ready: int = 0
    dead: int = 0
    retries: int = 0
    scheduled: int = 0
    working: int = 0
    queues: int = 0


def info(
    broker: Broker, workers: Workers, facts: ServerFacts, version: str, stamp: str
) -> Steps[Sequence[bytes]]:
    """The reply, in pieces: everything about the server in one object with four members."""
    begin = _JSON.encode({"now": stamp, "server_utc_time": f"{stamp[11:19]} UTC"})
    sets = Sets()
    pieces: list[bytes] = []
    parts = [begin[:-1], b',"faktory":{"queues":{']
    size = 0
    queues = list(broker.queues.values())
    for start in range(0, len(queues), QUEUES_A_STEP):
        ready: dict[str, int] = {}
        for queue in queues[start : start + QUEUES_A_STEP]:
            if queue.listed:
                ready[queue.name] = queue.ready
                sets.dead += queue.dead
                sets.retries += queue.retrying
                sets.scheduled += queue.scheduled
                sets.working += queue.leased
        part = _JSON.encode(ready)[1:-1]
        if part:
            parts += (b"," if sets.queues else b"", part)
            size += len(part)
        sets.ready += sum(ready.values())
        sets.queues += len(ready)
        if size > PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts.clear()
            size = 0
        yield
    parts += (b"},", _totals(broker, workers, sets)[1:], b',"server":', _server(facts, version))
    pieces.append(b"".join((*parts, b"}\r\n")))
    head = b"$%d\r\n" % (sum(map(len, pieces)) - 2)
    # A client may take one read for one reply, so a short one is one piece.
    return (head, *pieces) if len(pieces) > 1 else (head + pieces[0],)


def _totals(broker: Broker, workers: Workers, sets: Sets) -> bytes:
    return _JSON.encode(
        {
            "sets": {
                "dead": sets.dead,
                "retries": sets.retries,
                "scheduled": sets.scheduled,
                "working": sets.working,
            },
            "tasks": {
                "Busy": {"reaped": broker.leases_expired, "size": sets.working},
                "Dead": _task(sets.dead),
                "Retries": _task(sets.retries),
                "Scheduled": _task(sets.scheduled),
                "Workers": {"reaped": workers.reaped, "size": len(workers.by_wid)},
            },
            "total_failures": broker.totals.failures,
            "total_processed": broker.totals.processed,
            "total_enqueued": sets.ready,
            "total_queues": sets.queues,
        }
    )


def _server(facts: ServerFacts, version: str) -> bytes:
    return _JSON.encode(
        {
            "description": "Faktory",
            "faktory_version": version,
            "uptime": facts.uptime_s,
            "connections": facts.connections,
            "command_count": facts.command_count,
            "used_memory_mb": facts.used_memory_mb,
        }
    )


def _task(size: int) -> dict[str, int | float]:
    """A set of waiting jobs. We scan none, so there are no scans to count."""
    return {"cycles": 0, "enqueued": 0, "size": size, "wall_time_sec": 0.0}
