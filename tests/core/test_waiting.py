"""Jobs whose time has not come: never early, never lost, whatever lies in memory."""

import pytest

from franca.core.model import Failure, Job, Policy, State
from franca.core.waiting import Waiting
from tests.core.kit import Bench, T, ids, state_of

SOON = T + 1_000


def job(job_id: int, run_at: int) -> Job:
    return Job(job_id, "q", "k", "", "", b"", "", "", Policy(), 0, T, run_at=run_at)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


# -- the structure alone --------------------------------------------------------------------


def test_jobs_fall_due_in_order_of_time_and_never_before_it(waiting: Waiting) -> None:
    for job_id, run_at in ((1, 30), (2, 10), (3, 20), (4, 10)):
        waiting.add(job(job_id, run_at))
    assert waiting.next_at() == 10
    assert waiting.due(9, 99) == []
    assert ids(waiting.due(20, 99)) == [2, 4, 3]
    assert (waiting.size, waiting.next_at()) == (1, 30)


def test_each_queue_has_an_earliest_moment(waiting: Waiting) -> None:
    for job_id, run_at in ((1, 30), (2, 10), (3, 20)):
        waiting.add(job(job_id, run_at))
    other = job(4, 40)
    other.queue = "other"
    waiting.add(other)
    assert waiting.earliest() == {"q": 10, "other": 40}


def test_at_most_so_many_fall_due_at_once(waiting: Waiting) -> None:
    for job_id in range(5):
        waiting.add(job(job_id, 10))
    assert [ids(waiting.due(10, 2)) for _ in range(4)] == [[0, 1], [2, 3], [4], []]


def test_a_job_that_left_and_came_back_for_the_same_moment_is_there_once(waiting: Waiting) -> None:
    one = job(1, 10)
    waiting.add(one)
    waiting.remove(one)
    waiting.add(one)
    assert waiting.size == 1
    assert waiting.cut(1, 99, 99) == []
    assert ids(waiting.due(10, 99)) == [1]
    assert waiting.due(10, 99) == []


def test_another_object_for_the_same_job_and_moment_is_no_confusion(waiting: Waiting) -> None:
    before, after = job(1, 10), job(1, 10)
    waiting.add(before)
    waiting.remove(before)
    waiting.add(after)
    assert waiting.due(10, 99) == [after]


def test_a_cut_keeps_the_nearest_and_marks_the_last_of_them(waiting: Waiting) -> None:
    for job_id, run_at in ((1, 30), (2, 10), (3, 20), (4, 40)):
        waiting.add(job(job_id, run_at))
    assert (ids(waiting.cut(2, 99, 99)), waiting.mark) == ([4, 1], (30, 0))
    assert waiting.belongs_to_backlog(job(5, 31))
    assert not waiting.belongs_to_backlog(job(5, 19))
    assert ids(waiting.due(99, 99)) == [2, 3]


def test_replacing_one_far_off_job_for_ever_costs_no_memory(waiting: Waiting) -> None:
    for job_id in range(10_000):
        far = job(job_id, 10**9)
        waiting.add(far)
        waiting.remove(far)
    assert len(waiting._heap) < 2_000


# -- in the broker --------------------------------------------------------------------------


def test_a_job_for_later_becomes_ready_at_its_time_and_not_before(bench: Bench) -> None:
    later = bench.submit(run_at=SOON)
    worker = bench.worker()
    bench.ask(worker)
    bench.broker.tick(SOON - 1)
    assert later.state is State.WAITING
    assert bench.broker.next_wake() == SOON
    bench.broker.tick(SOON)
    assert state_of(later) is State.LEASED


def test_a_time_in_the_past_is_now() -> None:
    assert Bench().submit(run_at=T - 1).state is State.READY
    assert Bench().submit(run_at=T).state is State.READY


@pytest.mark.parametrize("order", [1, -1])
def test_few_jobs_leave_memory_at_once_however_many_wait(order: int) -> None:
    bench = Bench(window_jobs=50, supply_jobs=5)
    before = 0
    for number in range(0, 200 * order, order):
        bench.submit(run_at=SOON + 1_000 + number)
        left = bench.broker.waiting.backlog
        assert left - before <= 5
        before = left
        assert bench.broker.waiting.size <= 55
    bench.write()
    bench.ripen(SOON + 9_999)
    assert len(bench.take_all(now=SOON + 9_999)) == 200


def test_more_waiting_jobs_than_memory_are_all_run_in_order_of_time(small: Bench) -> None:
    jobs = [small.submit(run_at=SOON + 100 * (n * 7 % 20)) for n in range(20)]
    assert small.broker.waiting.size <= 8
    small.write()
    late = small.submit(run_at=SOON + 50)
    small.write()
    ran: list[Job] = []
    for now in range(SOON, SOON + 2_000, 50):
        small.broker.tick(now)
        small.write(now)
        ran += small.take_all(now=now)
    expected = sorted([*jobs, late], key=lambda each: each.run_at)
    assert ids(ran) == ids(expected)


def test_due_jobs_are_released_in_slices() -> None:
    bench = Bench(due_jobs=3)
    bench.submit_many(8, run_at=SOON)
    counts = []
    for _ in range(4):
        bench.broker.tick(SOON)
        counts.append(bench.count().ready)
    assert counts == [3, 6, 8, 8]


def test_waiting_is_counted_by_whether_it_ever_failed(bench: Bench) -> None:
    bench.submit(max_failures=1, delay_ms=1_000)
    bench.submit(run_at=SOON)
    worker = bench.worker()
    bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    assert (bench.count().scheduled, bench.count().retrying) == (1, 1)
    bench.broker.tick(SOON)
    assert (bench.count().scheduled, bench.count().retrying, bench.count().ready) == (0, 0, 2)


def test_a_waiting_job_of_the_tail_can_be_retried_and_cancelled(small: Bench) -> None:
    jobs = small.submit_many(12, run_at=SOON)
    small.write()
    retried, cancelled = small.recall(ids=(jobs[10].id, jobs[11].id))
    small.broker.retry(retried, T)
    small.broker.cancel(cancelled, T)
    small.write()
    assert (small.count().ready, small.count().scheduled) == (1, 10)
    small.ripen(SOON)
    assert sorted(ids(small.take_all(now=SOON)))[-1] == jobs[10].id


def test_waiting_jobs_that_may_not_go_into_the_tail_do_not_hide_it(small: Bench) -> None:
    jobs = small.submit_many(12, run_at=SOON)
    jobs += small.submit_many(12, run_at=SOON + 100, durable=False)
    jobs += small.submit_many(3, run_at=SOON + 50)
    small.write()
    small.ripen(SOON + 100)
    assert sorted(ids(small.take_all(now=SOON + 100))) == ids(jobs)
