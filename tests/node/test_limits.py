"""What the node makes of the limits it was given."""

from random import Random

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import NewJob, Policy
from franca.node.process import without_backlogs
from franca.store.memory import MemoryStore


def test_a_store_in_memory_never_has_a_tail() -> None:
    limits = without_backlogs(Limits(window_jobs=5, held_jobs=5, window_bytes=5, supply_jobs=1))
    store, broker = MemoryStore(), Broker(limits, Random(1))
    for number in range(50):
        broker.submit(NewJob("q", "k", b"body", Policy(), run_at=0 if number % 2 else 9_000), 1_000)
    store.write(broker.drain(), broker.take_wants())
    assert (len(store.held), len(store.tail)) == (50, 0)
