"""Some of those who wait for a queue go before others."""

from franca.core.events import Granted
from franca.core.model import Session
from tests.core.kit import Bench, T


def served(bench: Bench) -> list[str]:
    return [s.holder for s, event in bench.events() if isinstance(event, Granted)]


def wait(bench: Bench, holder: str, *queues: str, **ranks: int) -> Session:
    session = bench.worker(holder)
    assert bench.ask(session, *queues, ranks=ranks or None) is None
    return session


def test_higher_ranks_are_served_first_and_equals_in_the_order_they_came(bench: Bench) -> None:
    wait(bench, "plain")
    wait(bench, "late", q=-3)
    wait(bench, "first", q=5)
    wait(bench, "second", q=5)
    wait(bench, "also plain")
    bench.submit_many(6)
    assert served(bench) == ["first", "second", "plain", "also plain", "late"]
    assert bench.count().ready == 1


def test_a_rank_counts_for_its_queue_alone(bench: Bench) -> None:
    wait(bench, "a's", "a", "b", a=5)
    wait(bench, "b's", "a", "b", b=5)
    bench.submit("b")
    bench.submit("a")
    assert served(bench) == ["b's", "a's"]


def test_who_leaves_is_not_served(bench: Bench) -> None:
    first = wait(bench, "first", q=5)
    wait(bench, "plain")
    bench.broker.close_session(first, T)
    bench.submit()
    assert served(bench) == ["plain"]


def test_the_queue_is_as_it_was_when_nobody_with_a_rank_waits(bench: Bench) -> None:
    wait(bench, "first", q=5)
    wait(bench, "last", q=-5)
    assert bench.broker.queues["q"].ranks is not None
    bench.submit_many(2)
    assert served(bench) == ["first", "last"]
    assert bench.broker.queues["q"].ranks is None
    wait(bench, "plain")
    bench.submit()
    assert served(bench) == ["plain"]


def test_a_queue_that_only_the_ranked_waited_for_is_gone_with_them(bench: Bench) -> None:
    session = wait(bench, "first", q=5)
    bench.broker.close_session(session, T)
    assert "q" not in bench.broker.queues


def test_jobs_that_come_back_go_to_the_foremost_too(bench: Bench) -> None:
    job = bench.submit()
    holder = bench.worker("holder")
    assert bench.take(holder) is job
    wait(bench, "plain")
    wait(bench, "first", q=1)
    bench.broker.close_session(holder, T)
    assert served(bench) == ["first"]
