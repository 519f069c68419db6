"""A queue's window and its tail: which job is next, whatever lies in memory."""

from collections.abc import Iterable
from itertools import pairwise
from unittest.mock import patch

import pytest

from franca.core.model import Failure, Job, Policy, Shelf, State
from franca.core.queues import Queue
from franca.core.waiting import Waiting
from tests.core.kit import SMALL, Bench, T, ids
from tests.support.queue_counts import queue_counts

POLICY = Policy()


def job(place: int, priority: int = 0, size: int = 1) -> Job:
    made = Job(place, "q", "k", "", "", b"x" * size, "", "", POLICY, priority, T)
    made.weight = size
    made.place = place
    return made


def queue_of(*places: int | tuple[int, int]) -> Queue:
    return filled(job(p) if isinstance(p, int) else job(p[1], p[0]) for p in places)


def filled(jobs: Iterable[Job]) -> Queue:
    queue = Queue(name="q")
    for each in jobs:
        queue.add(each)
    return queue


def popped(queue: Queue) -> list[int]:
    return [queue.pop().place for _ in range(queue.size)]


# -- the window alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("added", "order"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([3, 1, 2], [1, 2, 3]),
        ([1, 3, 2, 5, 4], [1, 2, 3, 4, 5]),
        ([(5, 1), (0, 9), (5, 2), (-1, 10)], [10, 9, 1, 2]),
    ],
)
def test_by_priority_and_then_by_place(
    added: list[int | tuple[int, int]], order: list[int]
) -> None:
    assert popped(queue_of(*added)) == order


def test_first_looks_and_does_not_take() -> None:
    queue = queue_of(2, 1)
    first = queue.first()
    assert first is not None
    assert (first.place, queue.size) == (1, 2)
    assert Queue(name="empty").first() is None


def test_best_priority_is_that_of_the_next_job() -> None:
    queue = queue_of((5, 1), (3, 2))
    assert queue.best_priority() == 3
    queue.pop()
    assert queue.best_priority() == 5
    queue.pop()
    assert queue.best_priority() is None


def test_what_is_less_urgent_than_the_tail_waits_for_the_store() -> None:
    queue = queue_of((5, 9))
    queue.grow_backlog(3)
    assert not queue.gives()
    assert queue.best_priority() is None
    queue.shrink_backlog(3)
    assert queue.gives()
    queue.grow_backlog(5)
    assert queue.gives()


def test_a_job_is_removed_wherever_it_stands() -> None:
    jobs = [job(place) for place in (1, 2, 3)]
    queue = filled(jobs)
    queue.remove(jobs[1])
    assert (popped(queue), queue.bytes_held) == ([1, 3], 0)


@pytest.mark.parametrize(
    ("keep", "keep_bytes", "kept", "mark"),
    [
        (3, 99, [1, 2, 3], (0, 3)),
        (1, 99, [1], (0, 1)),
        (99, 2, [1, 2], (0, 2)),
        (0, 99, [], (0, 0)),
        (99, 0, [], (0, 0)),
    ],
)
def test_a_cut_keeps_the_first_jobs_and_marks_the_last_of_them(
    keep: int, keep_bytes: int, kept: list[int], mark: tuple[int, int]
) -> None:
    queue = queue_of(1, 2, 3, 4, 5)
    dropped = queue.cut(keep, keep_bytes, 99)
    assert queue.mark == mark
    assert sorted(each.place for each in dropped) == [p for p in range(1, 6) if p not in kept]
    assert popped(queue) == kept


def test_a_cut_lets_the_least_urgent_go_first() -> None:
    queue = queue_of((0, 5), (9, 1), (5, 2), (9, 3))
    queue.cut(2, 99, 99)
    assert queue.mark == (9, 0)
    assert popped(queue) == [5, 2]


def test_behind_the_mark_is_the_tail() -> None:
    queue = Queue(name="q")
    assert not queue.belongs_to_backlog(job(1))
    queue.mark = (3, 10)
    behind = [(3, 11), (4, 1)]
    before = [(3, 10), (3, 9), (2, 99)]
    assert all(queue.belongs_to_backlog(job(place, priority)) for priority, place in behind)
    assert not any(queue.belongs_to_backlog(job(place, priority)) for priority, place in before)


def test_ready_jobs_are_counted_by_their_own_priority_wherever_they_lie(small: Bench) -> None:
    for priority in (1, 1, 0, 2, 2, 2, 0, 3, 1) * 4:
        small.submit(priority=priority)
    queue = small.broker.queues["q"]
    assert queue.backlog > 20
    assert queue.by_priority() == {0: 8, 1: 12, 2: 12, 3: 4}
    small.restart()
    queue = small.broker.queues["q"]
    assert queue.by_priority() == {0: 8, 1: 12, 2: 12, 3: 4}
    for left in ({0: 7, 1: 12, 2: 12, 3: 4}, {0: 6, 1: 12, 2: 12, 3: 4}):
        small.write()
        small.take(small.worker())
        assert queue.by_priority() == left
    small.broker.purge_queues(("q",), T)
    assert queue.by_priority() == {}


def test_taking_all_forgets_the_tail_too() -> None:
    queue = queue_of(2, 1)
    queue.backlog, queue.mark = 7, (0, 2)
    assert [each.place for each in queue.take_all()] == [1, 2]
    assert (queue.ready, queue.bytes_held) == (0, 0)
    assert not queue.belongs_to_backlog(job(99))


# -- window and tail together ---------------------------------------------------------------


def test_more_jobs_than_the_window_come_out_in_the_order_in_which_they_came(small: Bench) -> None:
    jobs = small.submit_many(23)
    assert (small.count().ready, small.broker.queues["q"].size) == (23, 4)
    small.write()
    assert ids(small.take_all()) == ids(jobs)


def test_a_window_is_limited_by_bytes_as_well() -> None:
    bench = Bench(window_bytes=100, supply_jobs=2)
    jobs = bench.submit_many(9, body=b"x" * 40)
    assert bench.broker.queues["q"].bytes_held <= 100
    bench.write()
    assert ids(bench.take_all()) == ids(jobs)


def test_an_urgent_job_overtakes_the_tail_and_a_patient_one_does_not_jump_it(small: Bench) -> None:
    common = small.submit_many(10, priority=5)
    patient, urgent = small.submit(priority=9), small.submit(priority=1)
    middle = small.submit(priority=5)
    small.write()
    assert ids(small.take_all()) == [urgent.id, *ids(common), middle.id, patient.id]


def test_many_urgent_jobs_push_half_a_window_into_the_tail(small: Bench) -> None:
    common = small.submit_many(6, priority=5)
    small.write()
    urgent = small.submit_many(6, priority=1)
    small.write()
    assert small.broker.queues["q"].size <= 4
    assert ids(small.take_all()) == ids(urgent) + ids(common)


def test_a_returned_job_keeps_its_place_even_behind_the_mark(small: Bench) -> None:
    jobs = small.submit_many(4)
    worker = small.worker()
    held = [small.take(worker) for _ in range(4)]
    others = small.submit_many(8)
    small.write()
    small.broker.close_session(worker, T)
    small.write()
    assert ids(held) == ids(jobs)
    assert ids(small.take_all()) == ids(jobs) + ids(others)


def test_a_returned_job_goes_into_the_tail_where_its_place_is_there(small: Bench) -> None:
    small.submit_many(4)
    worker = small.worker()
    held = [small.take(worker) for _ in range(4)]
    urgent = small.submit_many(8, priority=-1)
    small.write()
    small.broker.close_session(worker, T)
    assert not any(each.id in small.broker.jobs for each in held)
    small.write()
    assert ids(small.take_all()) == ids(urgent) + ids(held)


def test_a_retried_job_goes_behind_all_others(small: Bench) -> None:
    first = small.submit(max_failures=1)
    others = small.submit_many(6)
    worker = small.worker()
    small.broker.fail(small.take(worker), worker.holder, Failure(), T)
    small.broker.tick(T)
    small.write()
    assert ids(small.take_all()) == [*ids(others), first.id]


def test_volatile_jobs_stay_in_memory_however_many_there_are(small: Bench) -> None:
    jobs = small.submit_many(20, durable=False)
    assert (all(each.id in small.broker.jobs for each in jobs), small.count().ready) == (True, 20)
    assert ids(small.take_all()) == ids(jobs)


def test_a_window_full_of_volatile_jobs_leaves_no_mark_behind() -> None:
    # With a mark and no tail, a durable job would go where nobody looks for it.
    bench = Bench(**SMALL)
    bench.submit_many(20, durable=False)
    bench.take_all()
    worker = bench.worker()
    assert bench.ask(worker) is None
    durable = bench.submit()
    assert durable.state is State.LEASED


def test_one_job_larger_than_the_window_passes_through_the_store_and_leaves_no_mark() -> None:
    bench = Bench(window_bytes=10, supply_jobs=2)
    large = bench.submit(body=b"x" * 50)
    worker = bench.worker()
    assert large.id not in bench.broker.jobs
    assert ids(bench.take_all()) == [large.id]
    bench.ask(worker)
    assert bench.submit().state is State.LEASED


def test_cancelling_the_last_job_of_the_tail_ends_the_tail(small: Bench) -> None:
    jobs = small.submit_many(5)
    small.write()
    (visitor,) = small.recall(ids=(jobs[-1].id,))
    assert visitor.id not in small.broker.jobs
    small.broker.cancel(visitor, T)
    queue = small.broker.queues["q"]
    assert (queue.backlog, queue.mark) == (0, None)
    small.write()
    assert ids(small.take_all()) == ids(jobs[:-1])


def test_the_store_is_asked_before_the_window_runs_dry() -> None:
    bench = Bench(window_jobs=4, supply_jobs=2)
    bench.submit_many(10)
    bench.write()
    worker = bench.worker(takes=1)
    assert not bench.broker.wants
    bench.take(worker)
    assert len(bench.broker.wants) == 1
    bench.take(worker)
    assert len(bench.broker.wants) == 1, "one question at a time"


def test_a_supplied_job_stays_on_its_shelf_until_something_happens_to_it(small: Bench) -> None:
    jobs = small.submit_many(6)
    small.write()
    small.worker(takes=3)
    small.write()
    supplied = small.broker.jobs[jobs[5].id]
    assert supplied.shelf is Shelf.BACKLOG
    assert supplied is not jobs[5]


def test_jobs_that_may_not_go_into_the_tail_do_not_hide_it() -> None:
    # They lie behind the mark, in memory: a cut must not take the last of them for the mark.
    bench = Bench(**SMALL)
    durable, volatile = bench.submit_many(7), bench.submit_many(7, durable=False)
    last = bench.submit_many(3)
    bench.write()
    jobs = ids(bench.take_all())
    assert sorted(jobs) == ids(durable) + ids(volatile) + ids(last)
    assert [job for job in jobs if job not in ids(volatile)] == ids(durable) + ids(last)


def test_a_crowd_that_cannot_leave_is_not_asked_to_for_every_job_that_comes() -> None:
    bench = Bench(window_jobs=50, supply_jobs=20)
    with (
        patch.object(Queue, "cut", autospec=True, side_effect=Queue.cut) as cut,
        patch.object(Waiting, "cut", autospec=True, side_effect=Waiting.cut) as cut_waiting,
    ):
        ready = bench.submit_many(3_000, durable=False)
        waiting = bench.submit_many(3_000, durable=False, run_at=T + 1)
    assert cut.call_count < 30
    assert cut_waiting.call_count < 30
    durable = bench.submit_many(2_000)
    bench.write()
    assert bench.broker.queues["q"].size < 4_000, "durable ones still leave"
    bench.broker.tick(T + 1)
    assert len(bench.take_all(now=T + 1)) == len(ready) + len(durable) + bench.limits.due_jobs
    assert bench.count().scheduled == len(waiting) - bench.limits.due_jobs


def test_many_queues_together_keep_no_more_in_memory_than_they_soon_need() -> None:
    bench = Bench(window_jobs=50, supply_jobs=2, held_jobs=60)
    for name in ("a", "b", "c", "d"):
        bench.submit_many(40, name)
    bench.write()
    assert len(bench.broker.jobs) <= 60 + 4 * 3 * 2
    assert [c.ready for c in queue_counts(bench.broker)] == [40] * 4
    for name in ("a", "b", "c", "d"):
        assert len(bench.take_all(name)) == 40


def test_a_window_that_is_much_too_large_is_cut_a_little_with_each_job_that_comes() -> None:
    bench = Bench(window_jobs=60, supply_jobs=4, held_jobs=100)
    for queue in ("a", "b"):
        bench.submit_many(60, queue)
    left = [bench.broker.queues["b"].backlog]
    for _ in range(40):
        bench.submit("b")
        left.append(bench.broker.queues["b"].backlog)
    assert max(after - before for before, after in pairwise(left)) <= 9
    assert len(bench.broker.jobs) <= 104
    bench.write()
    assert [job.place for job in bench.take_all("b")] == sorted(range(61, 161))


# -- jobs that leave the middle of a window -----------------------------------------------------


def test_a_job_is_taken_out_of_the_middle_and_the_others_keep_their_order() -> None:
    jobs = [job(place) for place in range(1, 8)]
    queue = filled(jobs)
    for index in (3, 1, 5, 6, 0):
        queue.remove(jobs[index])
    assert (queue.size, queue.bytes_held, queue.by_priority()) == (2, 2, {0: 2})
    assert queue.first() is jobs[2]
    queue.add(jobs[3])
    assert popped(queue) == [3, 4, 5]


def test_a_job_may_come_back_to_the_place_that_it_left() -> None:
    jobs = [job(place) for place in (1, 2, 3)]
    queue = filled(jobs)
    for _ in range(3):
        queue.remove(jobs[1])
        queue.add(jobs[1])
    assert popped(queue) == [1, 2, 3]


def test_what_is_left_of_those_that_went_is_bounded() -> None:
    queue = queue_of()
    queue.add(job(0))
    last = job(1)
    queue.add(last)
    for place in range(2, 2_000):
        newer = job(place)
        queue.add(newer)
        queue.remove(last)
        last = newer
    assert queue.size == 2
    assert len(queue._levels[0]) < 200
    assert popped(queue) == [0, 1_999]


def test_a_window_with_holes_is_cut_and_emptied_as_any_other() -> None:
    jobs = [job(place) for place in range(1, 11)]
    queue = filled(jobs)
    for each in jobs[3:8]:
        queue.remove(each)
    assert ([each.place for each in queue.cut(3, 99, 99)], queue.mark) == ([10, 9], (0, 8))
    assert [each.place for each in queue.take_all()] == [1, 2, 3]
    assert (queue.size, queue.bytes_held, queue._holes) == (0, 0, {})
