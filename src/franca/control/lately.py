"""What the core has counted since the start: of each queue, and of crossings."""

from __future__ import annotations

from franca.control.rates import Counters
from franca.core.broker import Broker
from franca.core.queues import Queue
from franca.protocols.numbers import name_of


def counters_of(queue: Queue) -> Counters:
    """What has been counted in a queue."""
    return Counters(queue.pushed, queue.done, queue.failed, queue.size + queue.backlog)


def crossings_of(broker: Broker) -> dict[tuple[str, str], int]:
    """How many jobs were done, by the protocol that they came over and that of the worker."""
    return {
        (via, name_of(by)): count
        for by, counts in broker.crossings.items()
        for via, count in counts.items()
    }
