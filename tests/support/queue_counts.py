"""How many jobs of each queue are where, as a broker counts them."""

from msgspec import Struct

from franca.core.broker import Broker


class QueueCount(Struct):
    """How many jobs of one queue are where; WAITING is split by whether it ever failed."""

    queue: str
    scheduled: int = 0
    retrying: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0


def queue_counts(broker: Broker) -> list[QueueCount]:
    """Those of every listed queue."""
    return [
        QueueCount(q.name, q.scheduled, q.retrying, q.ready, q.leased, q.dead)
        for q in broker.queues.values()
        if q.listed
    ]
