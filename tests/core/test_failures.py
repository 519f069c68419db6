"""What follows a failure or a loss: another try, how late, and when it is enough."""

from random import Random

import pytest

from franca.core.model import Backoff, Failure, Job, OnHangUp, Policy, State
from franca.core.retry import delay_ms
from tests.core.kit import Bench, T

FAILURE = Failure("Oops", "it broke", ["line 1", "line 2"])


def run_and_fail(bench: Bench, now: int = T) -> Job:
    worker = bench.worker()
    job = bench.take(worker, now=now)
    bench.broker.fail(job, worker.holder, FAILURE, now)
    return job


def run_and_vanish(bench: Bench, now: int = T) -> Job:
    worker = bench.worker()
    job = bench.take(worker, now=now)
    bench.broker.close_session(worker, now)
    return job


# -- reported failures ----------------------------------------------------------------------


def test_a_failed_job_waits_for_its_backoff_before_it_is_ready(bench: Bench) -> None:
    bench.submit(max_failures=1, delay_ms=15_000)
    job = run_and_fail(bench)
    assert (job.state, job.failures, job.failed_at) == (State.WAITING, 1, T)
    bench.broker.tick(T + 14_999)
    assert bench.count().retrying == 1
    bench.broker.tick(T + 15_000)
    assert bench.count().ready == 1


@pytest.mark.parametrize(
    ("failures", "bury", "runs", "state", "kept"),
    [
        (0, False, 1, State.DEAD, 0),
        (0, True, 1, State.DEAD, 1),
        (1, True, 2, State.DEAD, 1),
        (3, False, 4, State.DEAD, 0),
        (-1, True, 9, State.READY, 0),
    ],
)
def test_a_job_is_tried_again_as_often_as_its_policy_says(
    bench: Bench, failures: int, bury: bool, runs: int, state: State, kept: int
) -> None:
    job = bench.submit(max_failures=failures, bury=bury)
    for _ in range(runs):
        run_and_fail(bench)
        bench.broker.tick(T)
        bench.write()
    assert (job.state, job.failures, bench.count().dead) == (state, runs, kept)
    assert len(bench.disk.rows) == (kept or state is State.READY)
    totals = bench.broker.totals
    assert (totals.processed, totals.failures) == (runs, runs)


def test_volatile_jobs_are_not_kept_when_they_are_given_up(bench: Bench) -> None:
    bench.submit(durable=False)
    job = run_and_fail(bench)
    assert (job.state, bench.count().dead, bench.broker.jobs) == (State.DEAD, 0, {})
    assert not bench.disk.rows


def test_the_backoff_grows_with_the_fourth_power_and_is_never_the_same_for_all() -> None:
    policy = Policy(backoff=Backoff.POWER)
    for count in range(25):
        delays = {delay_ms(policy, count + 1, Random(seed)) for seed in range(50)}
        least, most = count**4 + 15, count**4 + 15 + 29 * (count + 1)
        assert min(delays) >= 1000 * least
        assert max(delays) <= 1000 * most
        assert len(delays) > 10


def test_a_fixed_backoff_is_what_it_says() -> None:
    assert delay_ms(Policy(delay_ms=1_234), 7, Random(1)) == 1_234


@pytest.mark.parametrize(("runs", "kept"), [(1, 1), (13, 13), (24, 24), (25, 25), (40, 25)])
def test_the_story_keeps_the_last_attempts_and_trace(bench: Bench, runs: int, kept: int) -> None:
    job = bench.submit(max_failures=-1)
    for number in range(runs):
        run_and_fail(bench, T + number)
        bench.broker.tick(T + number)
    assert job.attempt_log is not None
    assert [attempt.started_at - T for attempt in job.attempt_log] == list(range(runs - kept, runs))
    assert [bool(attempt.trace) for attempt in job.attempt_log] == [False] * (kept - 1) + [True]


# -- unclean ends ---------------------------------------------------------------------------


def test_a_job_that_kills_its_workers_is_dead_after_ten_with_the_reason(bench: Bench) -> None:
    # T26: deliveries=10 dead=1 reason=unclean
    job = bench.submit()
    deliveries = 0
    while bench.count().ready:
        assert run_and_vanish(bench) is job
        deliveries += 1
        bench.write()
    assert (deliveries, bench.count().dead, job.state) == (10, 1, State.DEAD)
    assert job.attempt_log is not None
    last = job.attempt_log[-1]
    print(f"T26 poison: deliveries={deliveries} dead={bench.count().dead} reason={last.error_kind}")
    assert (last.outcome, last.error_kind) == ("lost", "WorkerLost")


def test_a_job_whose_leases_expire_is_dead_after_ten_of_them_with_the_reason(bench: Bench) -> None:
    job = bench.submit(lease_ms=1_000)
    now = T
    for _ in range(10):
        bench.take(bench.worker(on_hang_up=OnHangUp.KEEP), now=now)
        now += 2_000
        bench.broker.tick(now)
        bench.write(now)
    assert (job.state, job.losses, bench.count().dead) == (State.DEAD, 10, 1)
    assert job.attempt_log is not None
    assert job.attempt_log[-1].error_kind == "LeaseExpired"


def test_poison_is_counted_over_restarts(bench: Bench) -> None:
    bench.submit()
    for _ in range(9):
        run_and_vanish(bench)
        bench.restart()
    job = run_and_vanish(bench)
    bench.write()
    assert (job.state, job.losses, len(bench.disk.rows)) == (State.DEAD, 10, 1)


@pytest.mark.parametrize(("losses", "runs"), [(0, 1), (3, 4), (9, 10), (10, 11), (40, 41)])
def test_a_jobs_own_limit_replaces_the_servers(bench: Bench, losses: int, runs: int) -> None:
    job = bench.submit(max_losses=losses)
    for _ in range(runs):
        assert job.state is State.READY
        run_and_vanish(bench)
    assert job.state is State.DEAD


def test_a_loss_counts_as_a_failure_where_the_job_says_so(bench: Bench) -> None:
    job = bench.submit(loss_is_failure=True, max_failures=1, max_losses=-1)
    run_and_vanish(bench)
    assert (job.state, job.failures, job.losses) == (State.WAITING, 1, 1)
    bench.broker.tick(T)
    run_and_vanish(bench)
    assert (job.state, job.failures, bench.count().dead) == (State.DEAD, 2, 1)


def test_an_expired_lease_is_a_failure_where_the_job_says_so_and_a_loss_is_not() -> None:
    for expires, state in ((True, State.DEAD), (False, State.READY)):
        bench = Bench()
        job, worker = bench.run(expiry_is_failure=True, lease_ms=1_000)
        if expires:
            bench.broker.tick(T + 2_000)
        else:
            bench.broker.close_session(worker, T)
        assert (job.state, job.failures) == (state, int(expires))


def test_a_lost_job_keeps_its_place(bench: Bench) -> None:
    first, second = bench.submit_many(2)
    run_and_vanish(bench)
    assert [job.id for job in bench.take_all()] == [first.id, second.id]


# -- expiry apart from loss, and jobs that are never given up ---------------------------------


def test_with_expiry_as_failure_an_ended_lease_is_one_and_a_lost_worker_not(bench: Bench) -> None:
    job = bench.submit(max_failures=1, lease_ms=5_000, expiry_is_failure=True)
    run_and_vanish(bench)
    assert (job.state, job.failures, job.losses) == (State.READY, 0, 1)
    bench.take(bench.worker())
    bench.broker.tick(T + 1)
    bench.broker.tick(T + 7_000)
    assert (job.failures, job.losses) == (1, 2)
    bench.take(bench.worker(), now=T + 7_000)
    bench.broker.tick(T + 7_001)
    bench.broker.tick(T + 14_000)
    assert job.state is State.DEAD


def test_a_job_that_is_never_given_up_outlives_every_limit() -> None:
    bench = Bench(losses_max=3)
    job = bench.submit(
        max_failures=-1,
        loss_is_failure=True,
        never_given_up=True,
        backoff=Backoff.DOUBLING,
        delay_ms=1_000,
    )
    now = T
    for _ in range(12):
        run_and_vanish(bench, now)
        assert job.state is State.WAITING
        now = job.run_at
        bench.broker.tick(now)
    assert (job.failures, job.losses) == (12, 12)


def test_a_doubling_delay_doubles_and_ends_at_five_minutes() -> None:
    policy = Policy(backoff=Backoff.DOUBLING, delay_ms=1_000)
    delays = [delay_ms(policy, n, Random(1)) // 1000 for n in (1, 2, 3, 9, 10, 1_000_000)]
    assert delays == [1, 2, 4, 256, 300, 300]
