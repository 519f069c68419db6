"""To hold one very job: from wherever it is, unless somebody runs it."""

import pytest

from franca.core.errors import NotFound, NotHeld, NotUnique, TooMuch
from franca.core.model import OnConflict, OnHangUp, State
from tests.core.kit import SMALL, Bench, T


@pytest.mark.parametrize("lies", ["memory", "store"])
@pytest.mark.parametrize("state", [State.READY, State.WAITING, State.DEAD])
def test_a_job_is_leased_from_wherever_it_is(state: State, lies: str) -> None:
    bench = Bench(**SMALL)
    run_at = T + 1_000 if state is State.WAITING else 0
    jobs = bench.submit_many(12, run_at=run_at, priority=4)
    job = jobs[0] if lies == "memory" else jobs[-1]
    if state is State.DEAD:
        bench.broker.kill(job, T)
    bench.write()
    [found] = bench.recall(ids=(job.id,))
    worker = bench.worker()
    bench.broker.lease(found, worker, T + 1, lease_ms=500)
    assert (found.state, found.holder, found.until) == (State.LEASED, worker.holder, T + 501)
    assert (found.attempts, found.ended_at, found.body) == (1, 0, b"x")
    bench.write()
    count = bench.count()
    others = {State.READY: count.ready, State.WAITING: count.scheduled, State.DEAD: count.dead}
    assert (count.leased, others[state]) == (1, 0 if state is State.DEAD else 11)
    bench.broker.finish(found, worker.holder, b"", T + 2)
    bench.write()
    assert job.id not in bench.disk.rows


def test_a_lease_that_names_no_time_lasts_as_the_job_says(bench: Bench) -> None:
    job = bench.submit(lease_ms=700)
    bench.broker.lease(job, bench.worker(), T)
    assert job.until == T + 700


def test_a_job_of_a_paused_queue_is_leased_too(bench: Bench) -> None:
    job = bench.submit()
    bench.broker.pause("q")
    bench.broker.lease(job, bench.worker(), T)
    assert bench.count().leased == 1


def test_the_lease_ends_with_its_session_and_the_job_is_ready_again(bench: Bench) -> None:
    job = bench.submit(run_at=T + 1_000)
    worker = bench.worker()
    bench.broker.lease(job, worker, T)
    bench.broker.close_session(worker, T + 1)
    assert job.state is State.READY
    bench.broker.tick(T + 2_000)  # its time has come, and it waits no more
    assert (bench.count().ready, bench.count().scheduled) == (1, 0)


def test_a_job_that_runs_or_has_ended_is_refused(bench: Bench) -> None:
    job = bench.submit(key="k")
    worker = bench.take(bench.worker("one", OnHangUp.KEEP)).holder
    behind = bench.submit(key="k", on_conflict=OnConflict.REPLACE)
    other = bench.worker()
    for each in (job, behind):
        with pytest.raises(NotHeld):
            bench.broker.lease(each, other, T)
    assert job.holder == worker
    bench.broker.finish(job, worker, b"", T)
    with pytest.raises(NotFound):
        bench.broker.lease(job, other, T)
    bench.write()


def test_a_dead_job_whose_key_another_has_is_refused(bench: Bench) -> None:
    job = bench.submit(key="k")
    bench.broker.kill(job, T)
    bench.submit(key="k")
    bench.write()
    [found] = bench.recall(ids=(job.id,))
    with pytest.raises(NotUnique):
        bench.broker.lease(found, bench.worker(), T)
    assert found.state is State.DEAD
    bench.write()


def test_no_more_jobs_run_than_may() -> None:
    bench = Bench(leased_jobs=1)
    first, second = bench.submit_many(2)
    worker = bench.worker()
    bench.broker.lease(second, worker, T)
    with pytest.raises(TooMuch):
        bench.broker.lease(first, worker, T)
    assert bench.count().ready == 1
