"""A server that has nothing to do sleeps, but not past anything that is due."""

import pytest

from franca.core.model import NewJob, Policy
from franca.node.gauges import SAMPLES, TICK_S, Gauges
from franca.node.node import IDLE_S
from franca.store.memory import MemoryStore
from tests.node.fixtures import NodeFixture

NEARLY_S = 0.02


def sleeps_s(s: NodeFixture) -> float:
    """How long the node sleeps if nothing comes, after ticks in which nothing did."""
    return [s.node._tick() for _ in range(3)][-1]


async def test_without_peers_and_work_it_sleeps_and_whoever_comes_wakes_it() -> None:
    with NodeFixture(quick=True) as s:
        assert sleeps_s(s) == IDLE_S
        s.node._ticker._ring()
        assert s.node._ticker.span_s == IDLE_S
        s.node.soon()
        assert s.node._ticker.span_s == TICK_S
        assert s.node._ticker._timer.when() - s.node._loop.time() <= TICK_S


async def test_it_goes_on_ticking_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with NodeFixture(quick=True) as s:

        def look(is_waited_for: bool) -> None:
            raise OSError("of one socket")

        monkeypatch.setattr(s.node.output, "look", look)
        before = s.node._ticker._timer
        with pytest.raises(OSError, match="of one socket"):
            s.node._ticker._ring()
        assert s.node._ticker._timer is not before
        assert not s.node._ticker._timer.cancelled()


async def test_with_a_peer_it_looks_at_the_time_as_often_as_ever() -> None:
    with NodeFixture(quick=True) as s:
        s.guest()
        assert sleeps_s(s) == TICK_S


@pytest.mark.parametrize(("due_ms", "span_s"), [(20, TICK_S), (300, 0.3), (10_000, IDLE_S)])
async def test_it_sleeps_until_the_next_job_is_due_and_no_longer(
    due_ms: int, span_s: float
) -> None:
    with NodeFixture(MemoryStore(), quick=True) as s:
        now = s.node.clock.now()
        new = NewJob("q", "k", b"", Policy(durable=False), run_at=now + due_ms)
        s.broker.submit(new, now)
        assert span_s - NEARLY_S < sleeps_s(s) <= span_s + NEARLY_S


def test_the_lag_of_a_sleep_that_was_cut_short_is_none_and_of_one_too_long_the_rest() -> None:
    gauges = Gauges()
    gauges.sample(1.0, TICK_S)
    gauges.sample(1.3, IDLE_S)
    assert gauges.lag_p99_ms() == 0
    gauges.sample(2.8, IDLE_S)
    assert gauges.lag_p99_ms() == pytest.approx(1_000, abs=50)


def test_a_long_sleep_counts_as_many_times_as_short_ones_in_its_place() -> None:
    gauges = Gauges()
    gauges.sample(1.0, TICK_S)
    gauges.sample(1.0 + 2 * TICK_S, TICK_S)
    assert gauges.lag_p99_ms() > 0
    for number in range(SAMPLES):
        gauges.sample(1.1 + IDLE_S * (number + 1), IDLE_S)
    assert gauges.lag_p99_ms() < 0.1


def test_of_commits_it_is_told_how_long_they_took_in_the_last_minute() -> None:
    gauges = Gauges()
    assert gauges.commit_ms(0.5, 5.0) is None
    for number in range(98):
        gauges.committed(0.001, 10.0 + number / 100)
    gauges.committed(0.1, 12.0)
    gauges.committed(0.1, 12.0)
    for now_s in (12.0, 45.0):  # also when a while has passed
        assert gauges.commit_ms(0.5, now_s) == pytest.approx(1, rel=0.4)
        assert gauges.commit_ms(0.99, now_s) == pytest.approx(100, rel=0.4)
    assert gauges.commits == 100
    gauges.committed(0.01, 50.0)
    assert gauges.commit_ms(0.5, 50.0) == pytest.approx(1, rel=0.4)
    gauges.committed(0.01, 75.0)
    assert gauges.commit_ms(0.5, 75.0) == pytest.approx(10, rel=0.4)
    assert gauges.commit_ms(0.5, 200.0) is None
