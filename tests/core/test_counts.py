"""What is counted since the start: of each queue, and who ran whose jobs."""

import pytest

from franca.core.model import NEVER, Failure, OnHangUp, State
from franca.core.queues import Queue
from tests.core.kit import Bench, T

DONE, FAILED, DEAD = (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 1, 1)


def counted(queue: Queue) -> tuple[int, int, int, int]:
    return queue.pushed, queue.done, queue.failed, queue.died


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(
    ("end", "policy", "counts"),
    [
        ("finish", {}, DONE),
        ("fail", {"max_failures": 1}, FAILED),
        ("fail", {}, DEAD),
        ("fail", {"bury": False}, DEAD),
        ("expire", {"max_losses": 0}, DEAD),
        ("expire", {"loss_is_failure": True, "max_failures": 1}, FAILED),
        ("lose", {"max_losses": 1}, (1, 0, 0, 0)),
        ("release", {}, (1, 0, 0, 0)),
        ("cancel", {}, (1, 0, 0, 0)),
        ("kill", {}, (1, 0, 0, 1)),
    ],
)
def test_a_queue_counts_its_jobs_and_the_runs_that_failed(
    bench: Bench, durable: bool, end: str, policy: dict[str, int], counts: tuple[int, ...]
) -> None:
    job, _ = bench.run(durable=durable, lease_ms=1_000, **policy)
    bench.end(end, job)
    assert counted(bench.broker.queues["q"]) == counts
    totals = bench.broker.totals
    assert (totals.pushed, totals.processed, totals.failures) == (1, sum(counts[1:3]), counts[2])


def test_a_finish_that_comes_late_is_counted(bench: Bench) -> None:
    job, worker = bench.run(lease_ms=1_000, on_hang_up=OnHangUp.KEEP)
    bench.end("expire", job)
    bench.broker.finish_late(job, worker.holder, b"", T + 3_000)
    assert counted(bench.broker.queues["q"]) == DONE
    assert bench.broker.crossings == {0: {"": 1}}


def test_what_a_queue_counted_that_is_gone_is_not_lost(bench: Bench) -> None:
    for queue in ("a", "b"):
        job, _ = bench.run(queue=queue)
        bench.end("finish" if queue == "a" else "fail", job)
    bench.broker.flush(T)
    forgotten = bench.broker.queue_list.forgotten
    assert not bench.broker.queues
    assert (forgotten.pushed, forgotten.done, forgotten.failed, forgotten.died) == (2, 1, 1, 1)


def test_it_is_counted_who_runs_whose_jobs(bench: Bench) -> None:
    broker = bench.broker
    for origin, by in (("one", 1), ("one", 2), ("other", 2), ("one", 2)):
        job = bench.submit(origin=origin)
        session = broker.open_session(f"w{by}", OnHangUp.KEEP, None, by)
        assert bench.take(session) is job
        broker.finish(job, session.holder, b"", T)
    assert broker.crossings == {1: {"one": 1}, 2: {"one": 2, "other": 1}}


def test_a_job_knows_whose_worker_ran_it_last_and_each_attempt_whose_worker_it_was(
    bench: Bench,
) -> None:
    broker = bench.broker
    job = bench.submit(max_failures=3)
    assert job.by == 0
    workers = [broker.open_session(f"w{by}", OnHangUp.KEEP, None, by) for by in (1, 2, 3)]
    bench.take(workers[0])
    broker.fail(job, "w1", Failure(), T)
    bench.ripen(T)
    bench.take(workers[1])
    broker.release(job, "w2", NEVER, T)
    bench.take(workers[2])
    bench.restart()
    job = bench.broker.jobs[job.id]
    assert (job.state, job.by) == (State.LEASED, 3)
    assert [run.by for run in job.attempt_log or ()] == [1, 2]


def test_a_grant_that_never_arrived_was_nobodys(bench: Bench) -> None:
    job = bench.submit()
    session = bench.broker.open_session("w", OnHangUp.KEEP, None, 5)
    bench.take(session)
    bench.broker.give_back(job, "w", T)
    assert job.by == 0
