"""Counted, named locks held by jobs."""

from time import process_time

import pytest

from franca.core.errors import NotHeld
from franca.core.lifecycle import LOCK_AGAIN_MS
from franca.core.limits import Limits
from franca.core.locks import Locks
from franca.core.model import Job, OnConflict, Session, State
from tests.core.kit import Bench, T, ids, state_of


def test_a_lock_is_open_to_as_many_as_its_count() -> None:
    locks = Locks()
    assert [locks.acquire("l", 2, job) for job in (1, 2, 3)] == [True, True, False]
    assert locks.acquire("l", 2, 1), "asking again while holding is no second permit"
    assert (locks.release("l", 1), locks.release("l", 1)) == (True, False)
    assert locks.acquire("l", 2, 3)


def test_the_largest_count_that_anyone_asked_for_holds() -> None:
    locks = Locks()
    assert (locks.acquire("l", 1, 1), locks.acquire("l", 1, 2)) == (True, False)
    assert (locks.acquire("l", 2, 2), locks.acquire("l", 1, 3)) == (True, False)


def test_a_lock_that_nobody_holds_leaves_nothing_behind() -> None:
    locks = Locks()
    assert not locks.acquire("closed", 0, 1)
    locks.acquire("a", 1, 1)
    locks.acquire("b", 1, 1)
    assert locks.of_job.keys() == {1}
    assert (locks.let_go(1), locks.let_go(1), locks.of_job) == (["a", "b"], [], {})
    assert (locks._holders, locks._most) == ({}, {})


def test_a_job_that_runs_no_more_holds_no_lock() -> None:
    for how in ("finish", "fail", "release", "give back", "lose", "cancel", "flush"):
        bench = Bench()
        job, _ = bench.run()
        broker = bench.broker
        assert broker.locks.acquire("l", 1, job.id)
        bench.end(how, job)
        assert not broker.locks.of_job, how


def test_a_job_that_does_not_get_its_lock_is_run_again_when_it_is_open(bench: Bench) -> None:
    (first, one), (second, two), (third, three) = bench.run(), bench.run(), bench.run()
    broker = bench.broker
    assert broker.lock(first, one.holder, "l", 1, T)
    assert not broker.lock(second, two.holder, "l", 1, T)
    assert not broker.lock(third, three.holder, "l", 1, T)
    assert (second.state, third.state) == (State.WAITING, State.WAITING)
    with pytest.raises(NotHeld):
        broker.finish(second, two.holder, b"", T)
    bench.write()
    broker.finish(first, one.holder, b"", T)
    assert (state_of(second), state_of(third)) == (State.READY, State.WAITING)
    assert bench.take(two) is second
    assert broker.lock(second, two.holder, "l", 1, T)
    broker.unlock(second, two.holder, "l", T)
    broker.unlock(second, two.holder, "l", T)
    assert state_of(third) is State.READY
    bench.write()


def test_a_lock_is_nobodys_but_the_holders(bench: Bench) -> None:
    job, _ = bench.run()
    for verb in (bench.broker.lock, bench.broker.unlock):
        with pytest.raises(NotHeld):
            verb(job, "other", "l", *((1, T) if verb == bench.broker.lock else (T,)))
    assert not bench.broker.locks.of_job


def test_a_job_without_its_lock_tries_again_in_any_case(bench: Bench) -> None:
    (first, one), (second, two) = bench.run(), bench.run()
    assert bench.broker.lock(first, one.holder, "l", 1, T)
    assert not bench.broker.lock(second, two.holder, "l", 1, T)
    bench.broker.tick(T + LOCK_AGAIN_MS - 1)
    assert second.state is State.WAITING
    bench.broker.tick(T + LOCK_AGAIN_MS)
    assert state_of(second) is State.READY
    assert bench.take(two, now=T + LOCK_AGAIN_MS) is second
    assert bench.broker.lock(second, two.holder, "l", 2, T)
    assert not bench.broker.locks.waits_for


def test_a_job_without_its_lock_is_pending_after_a_crash(bench: Bench) -> None:
    (first, one), (second, two) = bench.run(name="first"), bench.run(name="second")
    assert bench.broker.lock(first, one.holder, "l", 1, T)
    assert not bench.broker.lock(second, two.holder, "l", 1, T)
    bench.restart()
    bench.ripen(T + LOCK_AGAIN_MS)
    worker = bench.worker()
    for name in ("first", "second"):
        job = bench.take(worker, now=T + LOCK_AGAIN_MS)
        assert job.name == name
        assert bench.broker.lock(job, worker.holder, "l", 2, T)


def test_who_waits_for_a_lock_and_is_gone_does_not_hold_up_the_next(small: Bench) -> None:
    (first, one), (second, two), (third, three) = small.run(), small.run(), small.run()
    broker = small.broker
    assert broker.lock(first, one.holder, "l", 1, T)
    assert not broker.lock(second, two.holder, "l", 1, T)
    assert not broker.lock(third, three.holder, "l", 1, T)
    broker.cancel(second, T)
    broker.close_session(one, T)
    assert (state_of(third), broker.locks.waits_for) == (State.READY, {})


def test_waiting_for_a_lock_is_not_the_end_of_a_watched_run(bench: Bench) -> None:
    client, (first, one), two = bench.worker(), bench.run(), bench.worker()
    bench.submit(watcher=client, no_retry_if_watched=True)
    second = bench.take(two)
    assert bench.broker.lock(first, one.holder, "l", 1, T)
    assert not bench.broker.lock(second, two.holder, "l", 1, T)
    assert bench.ends(client) == []
    assert state_of(second) is State.WAITING


# -- many who wait ----------------------------------------------------------------------------


def locked_out(bench: Bench, count: int) -> tuple[Job, Session, list[Job]]:
    """A run that holds a lock, its worker, and so many jobs that did not get it."""
    holder, worker = bench.run()
    assert bench.broker.lock(holder, worker.holder, "l", 1, T)
    jobs = []
    for _ in range(count):
        job, other = bench.run()
        assert not bench.broker.lock(job, other.holder, "l", 1, T)
        jobs.append(job)
    return holder, worker, jobs


@pytest.mark.parametrize("how", ["falls due", "is taken out", "leaves memory", "is replaced"])
def test_whoever_waits_no_more_for_a_lock_leaves_its_line_at_once(bench: Bench, how: str) -> None:
    holder, worker = bench.run()
    broker, other = bench.broker, bench.worker()
    assert broker.lock(holder, worker.holder, "l", 1, T)
    bench.submit(key="u")
    job = bench.take(other)
    assert not broker.lock(job, other.holder, "l", 1, T)
    assert list(broker.locks.waits_for) == [job.id]
    match how:
        case "falls due":
            broker.tick(T + LOCK_AGAIN_MS)
        case "is taken out":
            broker.retry(job, T)
        case "leaves memory":
            broker.backlog._limits = Limits(waiting_bytes=0)
            bench.submit(run_at=T + 1)
            assert job.id not in broker.jobs
        case _:
            bench.submit(key="u", on_conflict=OnConflict.REPLACE)
    assert not broker.locks.waits_for
    assert broker.locks.first_waiting("l") is None
    broker.unlock(holder, worker.holder, "l", T)


def test_a_job_that_goes_into_the_tail_as_it_is_locked_out_stands_in_no_line() -> None:
    bench = Bench(waiting_bytes=2_500)
    bench.submit_many(5, run_at=T + 1, body=b"x" * 900)
    holder, worker, [job] = locked_out(bench, 1)
    assert job.id not in bench.broker.jobs
    assert not bench.broker.locks.waits_for
    bench.broker.finish(holder, worker.holder, b"", T)
    bench.ripen(T + LOCK_AGAIN_MS)
    assert job.id in ids(bench.take_all(now=T + LOCK_AGAIN_MS))


def test_the_next_in_a_long_line_is_found_without_looking_at_those_that_left() -> None:
    locks = Locks()
    many = 200_000
    for job_id in range(many):
        locks.wait("l", job_id)
    began = process_time()
    for job_id in range(many):
        assert locks.first_waiting("l") == job_id
        locks.wait_no_more(job_id)
    assert process_time() - began < 2
    assert not locks._waiting


def test_so_many_stand_in_line_and_the_others_try_again_in_time() -> None:
    bench = Bench(locks_max=2)
    holder, worker, jobs = locked_out(bench, 3)
    assert list(bench.broker.locks.waits_for) == ids(jobs[:2])
    bench.broker.finish(holder, worker.holder, b"", T)
    assert [state_of(job) for job in jobs] == [State.READY, State.WAITING, State.WAITING]
    bench.broker.tick(T + LOCK_AGAIN_MS)
    assert [state_of(job) for job in jobs] == [State.READY] * 3
