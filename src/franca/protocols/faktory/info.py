"""The answer to INFO, in the original's exact shape: clients assert on most of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.protocols.faktory.workers import Workers


class ServerFacts(Struct):
    """What only the node knows about itself."""

    uptime_s: int = 0
    connections: int = 0
    command_count: int = 0
    used_memory_mb: int = 0


FactsSource = Callable[[Millis], ServerFacts]

_JSON: Final = msgspec.json.Encoder()


def info(broker: Broker, workers: Workers, facts: ServerFacts, version: str, stamp: str) -> bytes:
    """Everything about the server in one object; exactly four members at its top."""
    counts = broker.counts()
    totals = broker.totals
    ready = sum(count.ready for count in counts)
    dead = sum(count.dead for count in counts)
    retries = sum(count.retrying for count in counts)
    scheduled = sum(count.scheduled for count in counts)
    working = sum(count.leased for count in counts)
    return _JSON.encode(
        {
            "now": stamp,
            "server_utc_time": f"{stamp[11:19]} UTC",
            "faktory": {
                "queues": {count.queue: count.ready for count in counts},
                "sets": {
                    "dead": dead,
                    "retries": retries,
                    "scheduled": scheduled,
                    "working": working,
                },
                "tasks": {
                    "Busy": {"reaped": broker.leases_expired, "size": working},
                    "Dead": _task(dead),
                    "Retries": _task(retries),
                    "Scheduled": _task(scheduled),
                    "Workers": {"reaped": workers.reaped, "size": len(workers.by_wid)},
                },
                "total_failures": totals.failures,
                "total_processed": totals.processed,
                "total_enqueued": ready,
                "total_queues": len(counts),
            },
            "server": {
                "description": "Faktory",
                "faktory_version": version,
                "uptime": facts.uptime_s,
                "connections": facts.connections,
                "command_count": facts.command_count,
                "used_memory_mb": facts.used_memory_mb,
            },
        }
    )


def _task(size: int) -> dict[str, int | float]:
    """A set of waiting jobs. We scan none, so there are no scans to count."""
    return {"cycles": 0, "enqueued": 0, "size": size, "wall_time_sec": 0.0}
