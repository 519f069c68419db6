"""Windows that the store has filled make room for others: a few jobs in each group, and none is lost."""

from franca.core.model import Job, Policy
from franca.core.queues import Queue
from tests.core.kit import Bench, T, ids
from tests.core.test_ready import job, popped, queue_of
from tests.sim.disk import write_out

KIB = b"x" * 1024


def stored_if_even(*places: int | tuple[int, int]) -> Queue:
    """A queue of which only the jobs with even places may leave memory."""
    queue = queue_of(*places)
    for level in queue._levels.values():
        for each in level:
            assert isinstance(each, Job)
            each.policy = Policy(durable=each.place % 2 == 0)
    return queue


# -- the window alone -----------------------------------------------------------------------


def test_the_last_that_may_leave_are_let_go_and_the_others_stay_in_their_places() -> None:
    queue = stored_if_even(1, 2, 3, 4, 5, 6, 7)
    leaving, staying = queue.let_go(2, 99)
    assert ([j.place for j in leaving], staying, queue.mark) == ([6, 4], 2, (0, 3))
    assert (queue.size, queue.bytes_held) == (5, 5)
    assert popped(queue) == [1, 2, 3, 5, 7]


def test_no_more_are_looked_at_than_may_be() -> None:
    queue = stored_if_even(*range(1, 100, 2), 100)
    leaving, staying = queue.let_go(9, 5)
    assert (len(leaving), staying) == (1, 4)
    assert (queue.let_go(9, 5)[0], queue.mark) == ([], (0, 99))
    assert popped(queue) == [*range(1, 100, 2)]


def test_the_least_urgent_are_let_go_first_over_all_priorities() -> None:
    queue = stored_if_even((0, 2), (0, 4), (5, 1), (5, 6), (9, 3), (9, 8))
    assert ([j.place for j in queue.let_go(3, 99)[0]], queue.mark) == ([8, 6, 4], (0, 3))
    assert popped(queue) == [2, 1, 3]


def test_a_window_with_holes_lets_go_as_any_other() -> None:
    queue = Queue(name="q")
    jobs = [job(place) for place in range(1, 11)]
    for each in jobs:
        each.policy = Policy(durable=each.place % 2 == 0)
        queue.add(each)
    for each in (jobs[2], jobs[5], jobs[6], jobs[8]):  # the places 3, 6, 7 and 9
        queue.remove(each)
    assert [j.place for j in queue.let_go(3, 99)[0]] == [10, 8, 4]
    assert (popped(queue), queue.bytes_held, queue._holes) == ([1, 2, 5], 0, {})


# -- with a store ---------------------------------------------------------------------------


def crowded(bench: Bench, light: int, durable: bool = True) -> list[Job]:
    """Many light jobs in a window that the store has filled before; the heavy ones of two others."""
    bench.submit_many(12, "light", body=KIB)
    assert len(bench.take_all("light")) == 12
    jobs = [*bench.submit_many(light, "light"), *bench.submit_many(50, "light", durable=durable)]
    bench.submit_many(8, "b", body=KIB)
    bench.submit_many(8, "c", body=KIB)
    bench.write()
    return jobs


def make_room(bench: Bench) -> list[int]:
    """Have both others filled; how many jobs each group wrote meanwhile."""
    written: list[int] = []
    for queue in ("b", "c"):
        bench.ask(bench.worker(), queue, until=T, only_wake=True)
        while bench.broker.has_changes() or bench.broker.wants:
            before = bench.broker.queues["light"].size
            write_out(bench.broker, bench.disk, T)
            written.append(before - bench.broker.queues["light"].size)
    bench.disk.verify(bench.broker)
    return written


LIMITS = {"window_bytes": 6 * 1024, "supply_bytes": 4 * 1024, "supply_jobs": 10}


def test_a_large_window_is_emptied_a_few_jobs_in_each_group() -> None:
    bench = Bench(**LIMITS)
    jobs = crowded(bench, 950)
    written = make_room(bench)
    assert sum(written) > 500
    assert max(written) <= 2 * LIMITS["supply_jobs"]
    assert not bench.broker.queue_list.is_overfull()
    assert ids(bench.take_all("light")) == ids(jobs)
    assert len(bench.take_all("b", "c")) == 16


def test_no_window_is_filled_while_others_are_still_being_emptied_for_the_last() -> None:
    bench = Bench(**LIMITS)
    crowded(bench, 950)
    broker = bench.broker
    for queue in ("b", "c"):
        bench.ask(bench.worker(), queue, until=T, only_wake=True)
    write_out(broker, bench.disk, T)
    groups = 0
    while broker.queue_list.is_overfull():
        groups += 1
        broker.backlog.wants.supply_ready(broker.queues["b"])
        changes, wants = broker.drain(), broker.take_wants()
        assert not (wants and broker.queue_list.is_overfull())
        bench.disk.write(changes, [])
    assert groups > 20


def test_jobs_of_memory_alone_stay_and_do_not_keep_others_from_leaving() -> None:
    bench = Bench(**LIMITS)
    jobs = crowded(bench, 950, durable=False)
    written = make_room(bench)
    assert sum(written) > 500
    assert max(written) <= 2 * LIMITS["supply_jobs"]
    assert all(each.id in bench.broker.jobs for each in jobs[-50:])
    assert ids(bench.take_all("light")) != []


def test_a_window_full_of_jobs_of_memory_alone_is_given_up_on() -> None:
    bench = Bench(**LIMITS)
    bench.submit_many(12, "light", body=KIB)
    bench.take_all("light")
    jobs = [bench.submit("light", durable=False) for _ in range(900)]
    bench.submit_many(8, "b", body=KIB)
    bench.submit_many(8, "c", body=KIB)
    bench.write()
    assert sum(make_room(bench)) == 0
    assert ids(bench.take_all("light")) == ids(jobs)
