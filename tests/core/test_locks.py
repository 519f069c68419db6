"""Counted, named locks held by jobs."""

from __future__ import annotations

from franca.core.locks import Locks
from franca.core.model import NEVER, Failure
from tests.core.kit import Bench, T


def test_a_lock_is_open_to_as_many_as_its_count() -> None:
    locks = Locks()
    assert [locks.acquire("l", 2, job) for job in (1, 2, 3)] == [True, True, False]
    assert locks.acquire("l", 2, 1), "asking again while holding is no second permit"
    assert locks.release("l", 1)
    assert not locks.release("l", 1)
    assert locks.acquire("l", 2, 3)


def test_the_largest_count_that_anyone_asked_for_holds() -> None:
    locks = Locks()
    assert locks.acquire("l", 1, 1)
    assert not locks.acquire("l", 1, 2)
    assert locks.acquire("l", 2, 2)
    assert not locks.acquire("l", 1, 3)


def test_a_lock_that_nobody_holds_leaves_nothing_behind() -> None:
    locks = Locks()
    assert not locks.acquire("closed", 0, 1)
    locks.acquire("a", 1, 1)
    locks.acquire("b", 1, 1)
    assert locks.of_job.keys() == {1}
    assert locks.let_go(1) == ["a", "b"]
    assert locks.let_go(1) == []
    assert not locks.of_job
    assert not locks._holders
    assert not locks._most


def test_a_job_that_runs_no_more_holds_no_lock() -> None:
    for how in ("finish", "fail", "release", "give_back", "close", "cancel", "flush"):
        bench = Bench()
        worker = bench.worker()
        job = bench.submit() and bench.take(worker)
        broker = bench.broker
        assert broker.locks.acquire("l", 1, job.id)
        match how:
            case "finish":
                broker.finish(job, worker.holder, b"", T)
            case "fail":
                broker.fail(job, worker.holder, Failure(), T)
            case "release":
                broker.release(job, worker.holder, NEVER, T)
            case "give_back":
                broker.give_back(job, worker.holder, T)
            case "close":
                broker.close_session(worker, T)
            case "cancel":
                broker.cancel(job, T)
            case _:
                broker.flush(T)
        assert not broker.locks.of_job, how
