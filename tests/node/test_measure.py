"""What the server measures of itself: commits by how long they took, and how many jobs they had."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from franca.control.measured import Measured, Spread
from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.engine.engine import Engine
from franca.node.clock import SystemClock
from franca.node.datadir import STORE
from franca.node.gauges import Gauges
from franca.node.measure import measure
from franca.node.node import Node
from franca.store.memory import MemoryStore


@pytest.mark.parametrize(
    ("value", "place"), [(0, 0), (1, 0), (1.01, 1), (10, 1), (10.5, 2), (1e9, 2)]
)
def test_a_value_is_counted_up_to_the_first_bound_that_it_is_not_above(
    value: float, place: int
) -> None:
    spread = Spread((1, 10))
    spread.add(value)
    assert spread.counts == [int(place == here) for here in range(3)]
    assert spread.sum == value


def test_every_commit_is_counted_with_how_long_it_took() -> None:
    gauges = Gauges()
    for took_s in (0.0001, 0.03, 60.0):
        gauges.committed(took_s, 0.0)
    assert gauges.commits == sum(gauges.commit_spans.counts) == 3
    assert gauges.commit_spans.counts[0] == gauges.commit_spans.counts[-1] == 1


def measured(store: str, data: Path) -> Measured:
    async def run() -> Measured:
        broker = Broker(Limits(), Random(1))
        engine = Engine(broker, {}, broker.limits)
        node = Node(engine, MemoryStore(), SystemClock(), boot="b", on_failure=lambda error: None)
        try:
            return measure(node, store, data, 5)
        finally:
            node.close()

    return asyncio.run(run())


def test_the_store_has_its_file_and_its_log_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / STORE).write_bytes(b"x" * 1_000)
    assert measured("sqlite:", tmp_path).store_bytes == 1_000
    (tmp_path / f"{STORE}-wal").write_bytes(b"x" * 500)
    found = measured("sqlite:", tmp_path)
    assert found.store == "sqlite"
    assert found.store_bytes == 1_500
    assert (found.disk_bytes or 0) >= (found.disk_free_bytes or 0) > 0


def test_what_is_not_there_is_not_known(tmp_path: Path) -> None:
    found = measured("memory:", tmp_path / "gone")
    assert found.store == "memory"
    assert found.store_bytes is found.disk_bytes is found.disk_free_bytes is None
