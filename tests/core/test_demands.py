"""Demands: who waits for what, who is given it, who is only woken."""

from typing import Any

import pytest

from franca.core.events import Unmet, Woken
from franca.core.model import Choice, Demand, Session, State
from tests.core.kit import SMALL, Bench, T, ids
from tests.support.queue_counts import queue_counts

BY_PRIORITY = Choice.PRIORITY


def test_a_demand_is_met_at_once_where_there_is_a_job(bench: Bench) -> None:
    job = bench.submit()
    worker = bench.worker("me")
    assert bench.take(worker) is job
    assert (job.state, job.holder, job.attempts) == (State.LEASED, "me", 1)


def test_a_demand_waits_and_is_met_by_the_next_job(bench: Bench) -> None:
    worker = bench.worker()
    assert bench.ask(worker) is None
    job = bench.submit()
    assert bench.granted() == [job]
    assert (job.holder, worker.demands) == (worker.holder, {})


def test_those_who_wait_are_served_in_the_order_in_which_they_came(bench: Bench) -> None:
    workers = [bench.worker() for _ in range(3)]
    for worker in workers:
        bench.ask(worker)
    bench.submit_many(3)
    assert bench.told() == workers


def test_listed_queues_are_tried_in_the_order_of_the_list(bench: Bench) -> None:
    b, a = bench.submit("b"), bench.submit("a")
    worker = bench.worker()
    assert [bench.take(worker, "a", "b"), bench.take(worker, "a", "b")] == [a, b]


def test_by_priority_the_most_urgent_job_comes_first_and_queues_take_turns(bench: Bench) -> None:
    for queue in ("a", "b", "c"):
        bench.submit_many(2, queue, priority=1)
    urgent = bench.submit("c", priority=0)
    jobs = bench.take_all("a", "b", "c", choice=BY_PRIORITY)
    assert jobs[0] is urgent
    assert [job.queue for job in jobs[1:]] == ["a", "b", "c", "a", "b", "c"]


def test_a_demand_that_wants_an_answer_now_gets_one(bench: Bench) -> None:
    assert isinstance(bench.ask(bench.worker(), until=T), Unmet)
    assert not bench.broker.queues


def test_a_demand_ends_unmet_when_its_time_is_over_and_not_before(bench: Bench) -> None:
    worker = bench.worker()
    bench.ask(worker, "a", "b", until=T + 2_000)
    bench.broker.tick(T + 1_999)
    assert bench.events() == []
    bench.broker.tick(T + 2_050)
    ((_, event),) = bench.events()
    assert isinstance(event, Unmet)
    assert bench.submit("a").state is State.READY
    assert bench.broker.next_wake() is None


def test_a_demand_that_was_met_does_not_end_again(bench: Bench) -> None:
    bench.ask(bench.worker(), until=T + 2_000)
    bench.submit()
    bench.events()
    bench.broker.tick(T + 60_000)
    assert bench.events() == []


def test_what_is_withdrawn_is_not_met_and_withdrawing_twice_is_nothing(bench: Bench) -> None:
    demand = Demand(bench.worker(), ("q",))
    bench.broker.demand(demand, T)
    bench.broker.withdraw(demand)
    bench.broker.withdraw(demand)
    assert bench.submit().state is State.READY


def test_a_queue_that_only_demands_name_is_dropped_with_the_last_of_them(bench: Bench) -> None:
    worker = bench.worker()
    demand = Demand(worker, ("nobody-pushes-here", "nor-here"))
    bench.broker.demand(demand, T)
    assert len(bench.broker.queues) == 2
    assert queue_counts(bench.broker) == []
    bench.broker.withdraw(demand)
    assert not bench.broker.queues


def test_a_demand_may_name_a_queue_twice(bench: Bench) -> None:
    worker = bench.worker()
    demand = Demand(worker, ("twice", "twice"))
    bench.broker.demand(demand, T)
    bench.broker.withdraw(demand)
    bench.ask(worker, "twice", "other", "twice")
    assert bench.submit("twice").state is State.LEASED
    assert bench.submit("other").state is State.READY


def test_a_closed_session_swallows_no_job(bench: Bench) -> None:
    gone, here = bench.worker(), bench.worker()
    bench.ask(gone)
    bench.ask(here)
    bench.broker.close_session(gone, T)
    assert bench.submit().holder == here.holder


def test_a_demand_for_a_tail_is_met_when_the_store_has_brought_it(small: Bench) -> None:
    jobs = small.submit_many(6)
    workers = [small.worker() for _ in range(6)]
    taken = [small.take(worker).id for worker in workers[:4]]
    assert [small.ask(worker) for worker in workers[4:]] == [None, None]
    small.write()
    assert taken + ids(small.granted()) == ids(jobs)


def test_a_job_from_before_the_tail_does_not_wait_for_it(small: Bench) -> None:
    small.submit_many(6)
    small.worker(takes=4)
    idle = small.worker()
    assert small.ask(idle) is None
    urgent = small.submit(priority=-1)
    assert urgent.holder == idle.holder


def test_a_worker_may_set_the_lease_of_what_it_takes(bench: Bench) -> None:
    bench.submit_many(2, lease_ms=5_000)
    worker = bench.worker()
    assert bench.take(worker, lease_ms={"q": 9_000}).until == T + 9_000
    assert bench.take(worker, lease_ms={"other": 9_000}).until == T + 5_000


# -- only to be woken -----------------------------------------------------------------------


def test_a_sleeper_is_told_at_once_where_there_is_work(bench: Bench) -> None:
    job = bench.submit()
    assert isinstance(bench.ask(bench.worker(), only_wake=True), Woken)
    assert job.state is State.READY


def test_a_sleeper_is_told_of_a_tail() -> None:
    for choice in Choice:
        bench = Bench(**SMALL)
        bench.submit_many(6)
        worker = bench.worker(takes=4)
        assert isinstance(bench.ask(worker, only_wake=True, choice=choice), Woken)


def asleep(bench: Bench, count: int, *queues: str, **fields: Any) -> list[Session]:
    """So many new sessions that wait to be woken."""
    sessions = [bench.worker() for _ in range(count)]
    for session in sessions:
        assert bench.ask(session, *queues, only_wake=True, **fields) is None
    return sessions


def test_one_sleeper_is_woken_for_each_ready_job_and_no_more(bench: Bench) -> None:
    sleepers = asleep(bench, 4)
    bench.submit_many(2)
    assert bench.told() == sleepers[:2]
    bench.take(sleepers[0], until=T)
    bench.take(sleepers[1], until=T)
    assert bench.events() == [], "both jobs are taken: nobody else need get up"


def test_more_sleepers_may_be_woken_for_each_job(bench: Bench) -> None:
    bench.broker.dispatch.wakeups = 3
    sleepers = asleep(bench, 5)
    bench.submit()
    assert bench.told() == sleepers[:3]
    bench.submit()
    assert bench.told() == sleepers[3:]


def test_a_woken_session_that_does_not_come_passes_the_word_on(bench: Bench) -> None:
    first, second = asleep(bench, 2)
    job = bench.submit()
    assert bench.told() == [first]
    bench.broker.wake_another(first)
    assert bench.told() == [second]
    bench.broker.wake_another(first)
    assert bench.events() == []
    assert bench.take(first) is job, "it may come late"


def test_a_woken_session_that_takes_something_else_passes_the_word_on(bench: Bench) -> None:
    both, one = bench.worker(), bench.worker()
    bench.ask(both, "a", "b", only_wake=True, choice=BY_PRIORITY)
    bench.ask(one, "b", only_wake=True, choice=BY_PRIORITY)
    b, a = bench.submit("b", priority=5), bench.submit("a", priority=0)
    assert bench.told() == [both]
    assert bench.take(both, "a", "b", choice=BY_PRIORITY) is a
    assert bench.told() == [one], "or `b` lies there unseen"
    assert bench.take(one, "b") is b


@pytest.mark.parametrize("how", ["leaves", "can do it no more", "lies down elsewhere"])
def test_a_woken_session_that_will_not_come_passes_the_word_on(bench: Bench, how: str) -> None:
    first, second = asleep(bench, 2, "a")
    bench.submit("b")
    bench.submit("a")
    assert bench.told() == [first]
    match how:
        case "leaves":
            bench.broker.close_session(first, T)
        case "can do it no more":
            bench.ask(first, "c", until=T)
        case _:
            assert isinstance(bench.ask(first, "b", only_wake=True), Woken)
    assert bench.told() == [second]


def test_light_sleepers_are_told_of_every_job_and_take_nobodys_turn(bench: Bench) -> None:
    heavy = [bench.worker("first"), bench.worker("second")]
    light = [bench.worker("third"), bench.worker("fourth")]
    for sleeper in (*heavy, *light):
        bench.ask(sleeper, only_wake=True, wake_always=sleeper in light)
    bench.submit()
    assert {session.holder for session, _ in bench.events()} == {"first", "third", "fourth"}
    bench.ask(light[0], until=T)  # takes the job, and the others sleep again
    for sleeper in light:
        assert bench.ask(sleeper, only_wake=True, wake_always=True) is None
    bench.submit()
    woken = [session.holder for session, _ in bench.events()]
    assert set(woken) == {"third", "fourth"}, "the first was told of a job and has not asked yet"


def test_resuming_wakes_as_many_as_there_are_jobs(bench: Bench) -> None:
    bench.submit_many(3)
    bench.broker.pause("q")
    sleepers = asleep(bench, 5)
    bench.broker.resume("q", T)
    assert bench.told() == sleepers[:3]


def test_a_queue_lives_as_long_as_somebody_was_told_of_it(bench: Bench) -> None:
    [sleeper] = asleep(bench, 1)
    bench.submit()
    bench.broker.flush(T)
    assert "q" in bench.broker.queues
    bench.ask(sleeper, until=T)
    assert not bench.broker.queues


# -- who serves what ------------------------------------------------------------------------


def test_a_queue_is_served_while_anybody_says_so(bench: Bench) -> None:
    one, other = bench.worker(), bench.worker()
    broker = bench.broker
    broker.serve(one, "q")
    broker.serve(one, "q")
    broker.serve(other, "q")
    broker.unserve(one, "q")
    broker.unserve(one, "q")
    assert broker.serves("q")
    broker.close_session(other, T)
    assert (broker.serves("q"), broker.queues) == (False, {})
