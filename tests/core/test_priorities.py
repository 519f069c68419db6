"""Priorities that change, thousands of them in one queue, and places that are kept."""

import time
from random import Random

import pytest

from franca.core.events import Granted
from franca.core.model import Choice, Demand, Failure, Job, NewJob, OnHangUp, Policy, State
from tests.core.kit import SMALL, Bench, T, ids

MANY = 20_000


def test_a_released_job_may_have_another_priority_from_then_on(bench: Bench) -> None:
    first, second, third = bench.submit_many(3, priority=5)
    worker = bench.worker()
    assert bench.take(worker) is first
    bench.broker.release(first, worker.holder, 0, T, priority=9)
    bench.write()
    assert ids(bench.take_all()) == ids([second, third, first])


def test_a_job_that_is_released_for_later_waits_with_its_new_priority(bench: Bench) -> None:
    job, other = bench.submit_many(2, priority=5)
    worker = bench.worker()
    bench.broker.release(bench.take(worker), worker.holder, T + 1_000, T, priority=1)
    assert job.state is State.WAITING
    bench.ripen(T + 2_000)
    assert ids(bench.take_all(now=T + 2_000)) == ids([job, other])


@pytest.mark.parametrize("then", ["held", "waiting", "dead", "ready"])
def test_a_changed_priority_is_found_again_after_a_restart(then: str) -> None:
    bench = Bench(**SMALL)
    job, *_ = bench.submit_many(6, priority=5)
    worker = bench.worker("keeper", OnHangUp.KEEP, takes=1)
    bench.write()
    if then == "dead":
        bench.broker.fail(job, worker.holder, Failure(final=True), T, priority=7)
    else:
        run_at = T + 1_000 if then == "waiting" else 0
        bench.broker.release(job, worker.holder, run_at, T, priority=7)
    if then == "held":
        [found] = bench.recall(ids=(job.id,))
        bench.broker.lease(found, worker, T)
    bench.restart()
    [found] = bench.recall(ids=(job.id,))
    assert found.priority == 7
    bench.write()


def test_a_retried_job_may_have_another_extra() -> None:
    bench = Bench()
    job, _ = bench.submit_many(2)
    worker = bench.worker()
    bench.broker.fail(bench.take(worker), worker.holder, Failure(final=True), T)
    bench.write()
    bench.broker.retry(bench.recall(ids=(job.id,))[0], T, extra=b"kicked")
    bench.write()
    bench.crash()
    assert bench.recall(ids=(job.id,))[0].extra == b"kicked"


def test_the_oldest_of_the_most_urgent_jobs_of_several_queues_comes_first() -> None:
    bench = Bench()
    jobs = [bench.submit(queue, priority=5) for queue in ("a", "b", "b", "a", "c")]
    urgent = bench.submit("c", priority=1)
    session = bench.worker()
    demand = Demand(session, ("c", "b", "a"), T, Choice.OLDEST)
    given = []
    while isinstance(answer := bench.broker.demand(demand, T), Granted):
        given.append(answer.job)
    assert ids(given) == ids([urgent, *jobs])


def test_the_next_job_of_a_queue_may_be_looked_at() -> None:
    bench = Bench(**SMALL)
    assert bench.broker.peek("q") is None
    jobs = bench.submit_many(30)
    bench.write()
    for job in jobs:
        while (found := bench.broker.peek(job.queue)) is None:
            bench.write()
        assert found.id == job.id
        assert found.state is State.READY
        bench.take(bench.worker())
    assert bench.broker.peek(jobs[0].queue) is None


# -- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_place", [False, True])
def test_a_job_that_keeps_its_place_stands_among_equals_by_its_id(keeps_place: bool) -> None:
    """One waits for its time first, one is dead for a while, one is put off, one is returned."""
    bench = Bench(**SMALL)
    waits = bench.submit(run_at=T + 10, keeps_place=keeps_place)
    dead, late, back, *others = bench.submit_many(9, keeps_place=keeps_place)
    worker = bench.worker()
    bench.broker.kill(dead, T)
    assert bench.take(worker) is late
    bench.broker.release(late, worker.holder, T + 20, T)
    assert bench.take(worker) is back
    bench.broker.release(back, worker.holder, 0, T)
    bench.write()
    bench.broker.retry(bench.recall(ids=(dead.id,))[0], T)
    bench.ripen(T + 100)
    bench.crash(T + 100)
    queued = ids([waits, dead, late, back, *others])
    if not keeps_place:
        queued = ids([back, *others, dead, waits, late])
    assert ids(bench.take_all(now=T + 100)) == queued


# -- thousands of them --------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{}, {"window_jobs": 500, "supply_jobs": 50}])
def test_jobs_of_thousands_of_priorities_are_given_by_priority(limits: dict[str, int]) -> None:
    bench = Bench(**limits)
    rng = Random(3)
    jobs: list[Job] = []
    for number in range(3_000):
        jobs.append(bench.submit(priority=rng.randrange(1 << 32)))
        if number % 100 == 0:
            bench.write()
            bench.broker.cancel(bench.recall(ids=(rng.choice(jobs).id,))[0], T)
            jobs = [job for job in jobs if job.id in {row.id for row in bench.disk.rows.values()}]
            bench.write()
            jobs = [job for job in jobs if job.id in bench.disk.rows]
    bench.write()
    given = bench.take_all()
    assert ids(given) == [job.id for job in sorted(jobs, key=lambda job: (job.priority, job.id))]


@pytest.mark.parametrize("window_jobs", [50_000, 2_000])
def test_thousands_of_priorities_cost_less_than_three_times_one(window_jobs: int) -> None:
    """Also where most of the jobs are only in the store."""
    one, many = (
        min(_cpu_s(window_jobs, spread) for _ in range(3)) for spread in (1, 1 << 32)
    )  # fmt: skip
    assert many < 3 * one


def _cpu_s(window_jobs: int, spread: int) -> float:
    """The time that it takes to submit, take and finish many jobs, but for the store."""
    bench = Bench(window_jobs=window_jobs)
    broker, policy, rng = bench.broker, Policy(), Random(3)
    news = [NewJob("q", "k", b"x", policy, priority=rng.randrange(spread)) for _ in range(MANY)]
    begin = time.process_time()
    for new in news:
        broker.submit(new, T)
    in_memory = broker.queues["q"].size
    worker = bench.worker()
    for _ in range(in_memory):
        broker.finish(bench.take(worker), worker.holder, b"", T)
    assert (broker.queues["q"].backlog > 0) == (window_jobs < MANY)
    return time.process_time() - begin
