"""Memory is bounded by what jobs take, not by their bodies alone."""

import pytest

from franca.core.errors import TooMuch
from franca.core.limits import TIME_MAX
from franca.core.model import Demand, Failure, OnHangUp
from franca.core.queues import queue_bytes
from tests.core.kit import MINUTE, Bench, T

NAME = "n" * 1_000


def test_windows_count_names_and_what_protocols_keep_with_a_job() -> None:
    bench = Bench(window_bytes=10_000, window_jobs=1_000, supply_jobs=2)
    for number in range(30):
        bench.submit(name=f"{number}{NAME}", kind=NAME, extra=b"e" * 1_000)
        bench.write()
    assert bench.broker.queue_list.windows.bytes_held <= 10_000
    assert (len(bench.take_all()), bench.broker.queue_list.windows.bytes_held) == (30, 0)


def test_jobs_that_wait_for_another_try_count_with_the_story_of_the_last() -> None:
    bench = Bench(waiting_bytes=20_000, window_jobs=1_000, supply_jobs=2)
    worker = bench.worker()
    bench.submit_many(30, max_failures=3, delay_ms=MINUTE)
    for _ in range(30):
        job = bench.take(worker)
        failure = Failure("E", "t" * 1_000, ["l" * 100] * 20)
        bench.broker.fail(job, worker.holder, failure, T)
        bench.write()
    assert bench.broker.waiting.bytes_held <= 20_000
    bench.broker.tick(T + 2 * MINUTE)
    assert bench.broker.queues["q"].retrying + bench.broker.queues["q"].ready == 30


def test_a_story_has_a_bound_but_for_its_last_attempt() -> None:
    bench = Bench(story_bytes=5_000)
    worker = bench.worker()
    bench.submit(max_failures=-1)
    for run in range(12):
        bench.broker.tick(T + run * MINUTE)
        job = bench.take(worker, now=T + run * MINUTE)
        bench.broker.fail(job, worker.holder, Failure("E", str(run) * 700), T + run * MINUTE)
    assert job.attempt_log is not None
    assert [attempt.error_text[:2] for attempt in job.attempt_log][-1] == "11"
    assert 2 <= len(job.attempt_log) <= 6


def test_whoever_asks_for_one_more_waits_while_those_that_run_take_too_much() -> None:
    bench = Bench(leased_bytes=3_000)
    jobs = bench.submit_many(5, body=b"x" * 1_000)
    worker = bench.worker(on_hang_up=OnHangUp.KEEP)
    for job in jobs[:3]:
        assert bench.take(worker) is job
    assert bench.ask(worker) is None
    bench.broker.finish(jobs[0], worker.holder, b"", T)
    bench.broker.tick(T)
    assert (len(bench.broker.events), bench.broker.leases.bytes) == (1, 3 * 1_001)
    bench.restart()
    assert bench.broker.leases.bytes == 3 * 1_001
    bench.broker.flush(T)
    assert bench.broker.leases.bytes == 0


def test_large_bodies_and_jobs_of_memory_alone_count_elsewhere() -> None:
    bench = Bench(leased_bytes=500)
    worker = bench.worker()
    bench.submit(body=b"x" * 5_000)
    bench.submit(body=b"x" * 5_000, durable=False)
    bench.submit(body=b"x" * 100)
    first, second, third = (bench.take(worker) for _ in range(3))
    assert bench.broker.leases.bytes < 200
    for job in (first, second, third):
        bench.broker.finish(job, worker.holder, b"", T)
    assert bench.broker.leases.bytes == bench.broker.volatile.bytes == 0


def test_a_job_in_memory_that_becomes_durable_while_it_runs_is_counted_once(bench: Bench) -> None:
    worker, client = bench.worker(), bench.worker()
    job = bench.submit(key="k", durable=False, watcher=client)
    bench.take(worker)
    assert bench.submit(key="k") is job
    bench.broker.finish(job, worker.holder, b"", T)
    assert bench.broker.leases.bytes == bench.broker.volatile.bytes == 0


def test_beyond_the_budget_no_new_queue_is_made_by_anybody() -> None:
    bench = Bench(queues_bytes=2 * queue_bytes("a"))
    bench.submit("a")
    bench.submit("b")
    worker = bench.worker()
    with pytest.raises(TooMuch):
        bench.submit("c")
    with pytest.raises(TooMuch):
        bench.broker.serve(worker, "c")
    with pytest.raises(TooMuch):
        bench.broker.list_queue("c")
    with pytest.raises(TooMuch):
        bench.broker.demand(Demand(worker, ("c",)), T)
    assert (worker.demands, worker.serves) == ({}, {})
    bench.broker.list_queue("a")
    bench.take(worker, "c", "a")
    bench.broker.remove_queues(("b",), T)
    bench.submit("c")
    assert bench.broker.queue_list.bytes == 2 * queue_bytes("a")


def test_watches_have_a_bound() -> None:
    bench = Bench(watches_max=2)
    clients = [bench.worker() for _ in range(3)]
    job = bench.submit(key="k", watcher=clients[0])
    bench.submit(key="k", watcher=clients[1])
    with pytest.raises(TooMuch):
        bench.submit(key="k", watcher=clients[2])
    bench.broker.close_session(clients[0], T)
    bench.submit(key="k", watcher=clients[2])
    bench.broker.cancel(job, T)
    assert bench.broker.watches.count == 0


def test_locks_have_a_bound() -> None:
    bench = Bench(locks_max=2)
    job, worker = bench.run()
    assert bench.broker.lock(job, worker.holder, "a", 1, T)
    assert bench.broker.lock(job, worker.holder, "b", 1, T)
    with pytest.raises(TooMuch):
        bench.broker.lock(job, worker.holder, "c", 1, T)
    bench.broker.unlock(job, worker.holder, "a", T)
    assert bench.broker.lock(job, worker.holder, "c", 1, T)
    bench.broker.finish(job, worker.holder, b"", T)
    assert bench.broker.locks.count == 0


@pytest.mark.parametrize("run_at", [-1, TIME_MAX + 1, 1 << 63])
def test_a_moment_that_cannot_be_kept_is_refused(bench: Bench, run_at: int) -> None:
    with pytest.raises(TooMuch):
        bench.submit(run_at=run_at)
    assert not bench.broker.has_changes()
