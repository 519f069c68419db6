"""Memory is bounded by bytes: windows of all queues, jobs that wait, jobs that run; and by counts."""

from typing import Any

import pytest

from franca.core.errors import TooMuch
from franca.core.model import Failure, Job, OnConflict, Session, State
from franca.core.wants import SupplyReady
from tests.core.kit import Bench, T, ids, state_of
from tests.support.queue_counts import queue_counts

KIB = b"x" * 1024
LARGE = b"y" * 3_000


def test_the_windows_of_all_queues_share_one_budget() -> None:
    bench = Bench(window_bytes=10 * 1024)
    jobs = [bench.submit(f"q{number % 20}", body=KIB) for number in range(100)]
    assert bench.broker.queue_list.windows.bytes_held <= 10 * 1024
    bench.write()
    names = tuple(f"q{number}" for number in range(20))
    assert sorted(ids(bench.take_all(*names))) == ids(jobs)
    assert bench.broker.queue_list.windows.bytes_held == 0


def test_a_full_window_asks_for_no_more_until_somebody_wants_a_job() -> None:
    bench = Bench(window_bytes=4 * 1024, supply_bytes=2 * 1024)
    bench.submit_many(20, "a", body=KIB)
    bench.submit_many(20, "b", body=KIB)
    bench.write()
    assert not bench.broker.wants
    assert bench.broker.queue_list.windows.bytes_held <= 4 * 1024
    assert (len(bench.take_all("b")), len(bench.take_all("a"))) == (20, 20)


def test_what_was_supplied_and_not_taken_makes_room_for_what_is_asked_for() -> None:
    bench = Bench(window_bytes=4 * 1024, supply_bytes=2 * 1024)
    for number in range(30):
        bench.submit_many(3, f"q{number}", body=KIB)
    session = bench.worker()
    for number in range(30):
        bench.ask(session, f"q{number}", until=T)  # the store is asked, and nobody comes for it
        bench.write()
        assert bench.broker.queue_list.windows.bytes_held <= 8 * 1024


def test_no_job_is_supplied_while_too_much_is_unsent() -> None:
    bench = Bench(window_bytes=0)
    bench.submit(body=KIB)
    bench.write()
    broker, session = bench.broker, bench.worker()
    broker.backlog.wants.hold_supplies = True
    assert bench.ask(session) is None
    assert broker.wants
    assert not broker.has_wants()
    assert broker.take_wants() == []
    broker.backlog.wants.hold_supplies = False
    assert broker.has_wants()
    assert [type(want) for want in broker.take_wants()] == [SupplyReady]


def test_a_large_body_leaves_memory_while_its_job_runs_and_comes_back_with_it() -> None:
    bench = Bench(large_bytes=4_000)
    jobs = bench.submit_many(3, body=LARGE)
    session = bench.worker()
    for _ in jobs:
        bench.take(session)
    bench.broker.tick(T)
    assert [job.away for job in jobs] == [False] * 3, "the store does not have them yet"
    bench.write()
    bench.broker.tick(T)
    assert [(job.away, len(job.body)) for job in jobs] == [(True, 0), (True, 0), (False, 3_000)]
    bench.write()
    bench.broker.close_session(session, T)
    bench.write()
    assert [job.body for job in bench.take_all()] == [LARGE] * 3


def test_a_worker_that_waits_is_given_a_job_whose_body_has_to_be_read_first() -> None:
    bench = Bench(large_bytes=0)
    job = bench.submit(body=LARGE)
    first, second = bench.worker(), bench.worker()
    bench.take(first)
    bench.write()
    bench.broker.tick(T)
    assert job.away
    assert bench.ask(second) is None
    bench.broker.close_session(first, T)
    bench.write()
    [given] = bench.granted()
    assert (given.id, given.body, given.away) == (job.id, LARGE, False)
    assert given.holder == second.holder


def test_a_failed_job_with_a_large_body_is_tried_again_with_it() -> None:
    bench = Bench(large_bytes=0)
    bench.submit(body=LARGE, max_failures=3, delay_ms=1_000)
    session = bench.worker()
    job = bench.take(session)
    bench.write()
    bench.broker.tick(T)
    bench.broker.fail(job, session.holder, Failure("E", "x"), T)
    bench.write()
    assert (state_of(job), job.away) == (State.WAITING, True)
    bench.crash(T)
    bench.ripen(T + 2_000)
    assert [found.body for found in bench.take_all(now=T + 2_000)] == [LARGE]


def test_a_job_whose_body_was_left_in_the_store_is_in_its_place_once_it_is_read() -> None:
    bench = Bench(large_bytes=0)
    delayed = bench.submit(body=LARGE, keeps_place=True, run_at=T + 1_000)
    later = [job.id for job in bench.submit_many(3)]
    bench.write()
    bench.broker.tick(T)
    assert delayed.away
    bench.ripen(T + 2_000)
    bench.write()
    given = bench.take_all(now=T + 2_000)
    assert [job.id for job in given] == [delayed.id, *later]
    assert given[0].body == LARGE


def test_a_large_body_that_is_put_off_into_the_tail_is_counted_no_more() -> None:
    bench = Bench(waiting_bytes=4_000)
    worker = bench.worker()
    bench.submit_many(5, run_at=T + 1, body=KIB)
    bench.submit(body=LARGE)
    job = bench.take(worker)
    assert bench.broker.backlog.large.bytes == len(LARGE)
    bench.broker.release(job, worker.holder, T + 9_000, T)
    assert job.id not in bench.broker.jobs
    assert (bench.broker.backlog.large.bytes, bench.broker.backlog.large.jobs) == (0, {})


def test_recalled_jobs_have_their_bodies() -> None:
    bench = Bench(large_bytes=0)
    job = bench.submit(body=LARGE, run_at=T + 9_000)
    bench.write()
    bench.broker.tick(T)
    assert job.away
    assert [found.body for found in bench.recall(ids=(job.id,))] == [LARGE]


def test_waiting_jobs_are_bounded_by_bytes_and_released_in_time() -> None:
    bench = Bench(waiting_bytes=8 * 1024)
    jobs = [bench.submit(body=KIB, run_at=T + 1_000 + number) for number in range(50)]
    assert bench.broker.waiting.bytes_held <= 8 * 1024
    bench.write()
    bench.ripen(T + 1_025)
    assert ids(bench.take_all(now=T + 1_025)) == ids(jobs[:26])
    bench.ripen(T + 2_000)
    assert ids(bench.take_all(now=T + 2_000)) == ids(jobs[26:])
    assert bench.broker.waiting.bytes_held == 0


WAYS_TO_WATCH = ["as it is submitted", "later", "by joining it", "by what it replaces"]


def watched(
    bench: Bench, way: str, client: Session, number: int, body: bytes, **fields: Any
) -> Job:
    """A new job that somebody waits for, however that came about."""
    key = f"u{number}"
    match way:
        case "as it is submitted":
            return bench.submit(key=key, body=body, watcher=client, **fields)
        case "later":
            job = bench.submit(key=key, body=body, **fields)
            bench.broker.watch(job.id, client)
            return job
        case "by joining it":
            job = bench.submit(key=key, body=body, **fields)
            bench.submit(key=key, watcher=client)
            return job
    bench.submit(key=key, watcher=client, **fields)
    return bench.submit(key=key, body=body, on_conflict=OnConflict.REPLACE, **fields)


@pytest.mark.parametrize("way", WAYS_TO_WATCH)
def test_large_bodies_that_run_leave_memory_though_somebody_waits(way: str) -> None:
    bench = Bench(large_bytes=2 * len(LARGE))
    client, worker = bench.worker(), bench.worker()
    jobs = []
    for number in range(6):
        watched(bench, way, client, number, LARGE)
        jobs.append(bench.take(worker))
        bench.write()
        bench.broker.tick(T)
    assert [job.away for job in jobs] == [True] * 4 + [False] * 2
    bench.write()
    bench.broker.close_session(worker, T)
    bench.write()
    assert [job.body for job in bench.take_all()] == [LARGE] * 6
    assert (bench.ends(client), client.watches) == ([State.DONE] * 6, {})


@pytest.mark.parametrize("way", WAYS_TO_WATCH)
@pytest.mark.parametrize("run_at", [0, T + 1_000])
def test_jobs_that_wait_leave_memory_though_somebody_waits(way: str, run_at: int) -> None:
    bench = Bench(window_bytes=4 * 1024, waiting_bytes=4 * 1024)
    client = bench.worker()
    for number in range(30):
        watched(bench, way, client, number, KIB, run_at=run_at)
    bench.write()
    assert bench.broker.queue_list.windows.bytes_held <= 4 * 1024
    assert bench.broker.waiting.bytes_held <= 4 * 1024
    bench.ripen(T + 1_000)
    assert len(bench.take_all(now=T + 1_000)) == 30
    assert bench.ends(client) == [State.DONE] * 30
    assert not bench.broker.watches.in_store


def test_a_large_body_that_waits_behind_a_run_leaves_memory_though_somebody_waits() -> None:
    bench = Bench(large_bytes=0)
    client, worker = bench.worker(), bench.worker()
    running = bench.submit(key="u") and bench.take(worker)
    successor = bench.submit(key="u", body=LARGE, on_conflict=OnConflict.REPLACE, watcher=client)
    bench.write()
    bench.broker.tick(T)
    assert successor.away
    bench.broker.finish(running, worker.holder, b"", T)
    bench.write()
    assert [job.body for job in bench.take_all()] == [LARGE]
    assert bench.ends(client) == [State.DONE]


def test_a_large_body_that_only_memory_has_is_not_looked_at_until_the_store_has_it_too() -> None:
    bench = Bench(large_bytes=0)
    client = bench.worker()
    job, worker = bench.run(key="u", body=LARGE, durable=False, watcher=client)
    assert not bench.broker.backlog.large.jobs
    bench.submit(key="u")
    bench.write()
    bench.broker.tick(T)
    assert job.away
    bench.broker.finish(job, worker.holder, b"", T)
    assert bench.broker.backlog.large.bytes == bench.broker.leases.bytes == 0


def test_one_memory_only_job_passes_however_large_it_is() -> None:
    bench = Bench(fleeting_bytes=2_000)
    bench.submit(body=LARGE, durable=False)
    with pytest.raises(TooMuch):
        bench.submit(body=b"", durable=False)


def test_one_large_memory_only_job_does_not_keep_small_ones_out() -> None:
    bench = Bench(fleeting_bytes=80_000)
    bench.submit(body=b"x" * 79_000, durable=False)
    bench.submit(body=b"", durable=False)
    with pytest.raises(TooMuch):
        bench.submit(body=b"x" * 20_000, durable=False)


def test_only_so_many_jobs_run_at_once_and_the_others_follow() -> None:
    bench = Bench(leased_jobs=2)
    jobs = bench.submit_many(4)
    session = bench.worker()
    taken = [bench.take(session), bench.take(session)]
    assert bench.ask(session) is None
    bench.broker.tick(T)
    assert bench.events() == []
    bench.broker.finish(taken[0], session.holder, b"", T)
    bench.broker.tick(T)
    assert bench.granted() == [jobs[2]]


# -- queues ---------------------------------------------------------------------------------


def test_queues_without_anything_are_forgotten_after_a_while() -> None:
    bench = Bench(idle_queue_ms=1_000)
    for name in ("gone", "paused", "served", "scheduled", "dead"):
        bench.submit(name, run_at=T + 9_000 if name == "scheduled" else 0)
    [dead] = bench.recall(states=(State.READY,), queue="dead")
    bench.broker.kill(dead, T)
    bench.broker.pause("paused")
    bench.broker.serve(bench.worker(), "served")
    bench.take_all("gone", "served", "paused")
    bench.broker.resume("paused", T)
    bench.take_all("paused")
    bench.broker.pause("paused")
    for now in (T, T + 900, T + 1_100):
        bench.broker.tick(now)
    bench.write()
    assert {count.queue for count in queue_counts(bench.broker)} == {
        "paused",
        "served",
        "scheduled",
        "dead",
    }
    assert "gone" not in bench.disk.settings


def test_a_million_names_would_leave_only_so_many_behind() -> None:
    bench = Bench(idle_queues=10)
    for number in range(200):
        bench.submit(f"q{number}")
        bench.take_all(f"q{number}")
        bench.broker.tick(T + number)
        assert len(bench.broker.queues) < 20
    for number in range(3):
        bench.broker.tick(T + 300 + number)
    bench.write()
    assert len(bench.broker.queues) == len(bench.disk.settings) == 10


def test_names_cannot_come_faster_than_they_are_forgotten() -> None:
    bench = Bench(idle_queues=10)
    names = 10_000
    for tick in range(8):
        for number in range(names):
            bench.broker.queue(f"q{tick}-{number}")
        bench.broker.tick(T + tick)
        assert len(bench.broker.queues) <= 3 * names


def test_a_queue_that_is_used_again_is_not_forgotten() -> None:
    bench = Bench(idle_queue_ms=1_000)
    bench.submit()
    bench.take_all()
    bench.broker.tick(T)
    bench.submit()
    bench.broker.tick(T + 2_000)
    bench.take_all(now=T + 2_000)
    bench.broker.tick(T + 2_500)
    assert "q" in bench.broker.queues
