"""What ends together ends a little at a time: nobody else has to wait for all of it."""

from unittest.mock import patch

import pytest

from franca.core import dispatch, purges
from franca.core.dispatch import ENDED_AT_ONCE, NAMES_AT_ONCE
from franca.core.events import Finished, Unmet
from franca.core.model import Demand, NewJob, OnConflict, OnHangUp, Policy, Schedule, State
from franca.core.purges import TOLD_AT_ONCE
from franca.core.stubs import unseen
from franca.core.upkeep import FIRED_AT_ONCE
from tests.core.kit import MINUTE, Bench, T

MANY = 2 * ENDED_AT_ONCE + 1


def running(bench: Bench) -> int:
    return bench.broker.leases.count


def test_leases_of_a_session_that_is_gone(bench: Bench) -> None:
    bench.submit_many(MANY)
    worker = bench.worker(takes=MANY)
    bench.broker.close_session(worker, T)
    assert running(bench) == MANY - ENDED_AT_ONCE
    bench.broker.tick(T)
    bench.broker.tick(T)
    assert (running(bench), bench.broker.queues["q"].ready, worker.leases) == (0, MANY, {})


def test_watches_of_a_session_that_is_gone(bench: Bench) -> None:
    client = bench.worker()
    jobs = [bench.submit(watcher=client, durable=False, dies_unwatched=True) for _ in range(MANY)]
    bench.broker.close_session(client, T)
    assert sum(job.state is State.CANCELLED for job in jobs) == ENDED_AT_ONCE
    assert not [event for _, event in bench.broker.events if isinstance(event, Finished)]
    for _ in range(2):
        bench.broker.tick(T)
    assert (bench.broker.jobs, client.watches) == ({}, {})


def test_who_is_gone_hears_nothing_of_what_it_still_watches(bench: Bench) -> None:
    client = bench.worker()
    jobs = [bench.submit(watcher=client) for _ in range(MANY)]
    bench.broker.close_session(client, T)
    bench.broker.cancel(jobs[-1], T)
    assert not bench.broker.events


def test_leases_that_expire_at_one_moment(bench: Bench) -> None:
    bench.submit_many(MANY, lease_ms=MINUTE)
    bench.worker(on_hang_up=OnHangUp.KEEP, takes=MANY)
    bench.broker.tick(T)
    late = T + 2 * MINUTE
    bench.broker.tick(late)
    assert running(bench) == MANY - ENDED_AT_ONCE
    bench.broker.tick(late)
    bench.broker.tick(late)
    assert running(bench) == 0


def test_demands_that_end_at_one_moment_by_the_queues_that_they_name(bench: Bench) -> None:
    worker = bench.worker()
    names = tuple(f"q{n}" for n in range(NAMES_AT_ONCE // 4))
    demands = [Demand(worker, names, until=T + MINUTE) for _ in range(12)]
    for demand in demands:
        bench.broker.demand(demand, T)
    bench.broker.tick(T)
    bench.broker.tick(T + 2 * MINUTE)
    told = [event.demand for _, event in bench.broker.events if isinstance(event, Unmet)]
    assert told == demands[:5]
    for _ in range(2):
        bench.broker.tick(T + 2 * MINUTE)
    told = [event.demand for _, event in bench.broker.events if isinstance(event, Unmet)]
    assert told == demands


def test_rules_that_are_due_at_one_moment(bench: Bench) -> None:
    for number in range(2 * FIRED_AT_ONCE):
        rule = Schedule(f"s{number}", NewJob("q", "k", b"", Policy()), every_ms=MINUTE)
        bench.broker.put_schedule(rule, T, fire_now=False)
    bench.broker.tick(T + MINUTE)
    assert bench.broker.queues["q"].ready == FIRED_AT_ONCE
    bench.broker.tick(T + MINUTE)
    assert bench.broker.queues["q"].ready == 2 * FIRED_AT_ONCE


def test_rules_wait_while_the_disk_has_much_to_write() -> None:
    bench = Bench(pending_jobs=5)
    rule = Schedule("s", NewJob("q", "k", b"", Policy()), every_ms=MINUTE)
    bench.broker.put_schedule(rule, T, fire_now=False)
    bench.submit_many(5, queue="other")
    bench.broker.tick(T + MINUTE)
    assert "q" not in bench.broker.queues
    bench.write()
    bench.broker.tick(T + MINUTE)
    assert bench.broker.queues["q"].ready == 1


def test_a_session_of_the_same_name_does_not_take_the_place_of_another(bench: Bench) -> None:
    worker = bench.worker(holder="w")
    job = bench.submit()
    assert bench.take(worker) is job
    namesake = bench.worker(holder="w", on_hang_up=OnHangUp.KEEP)
    bench.broker.close_session(namesake, T)
    bench.broker.finish(job, "w", b"", T)
    assert not worker.leases
    bench.broker.close_session(worker, T)
    assert (job.state, bench.broker.jobs, bench.broker.queues["q"].leased) == (State.DONE, {}, 0)


def test_large_jobs_for_who_waits_when_a_queue_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MATCHED_BYTES", 100)
    bench = Bench()
    for _ in range(5):
        bench.submit(body=b"x" * 51)
    bench.broker.pause("q")
    workers = [bench.worker() for _ in range(5)]
    for worker in workers:
        bench.ask(worker)
    bench.broker.resume("q", T)
    assert [session for session, _ in bench.events()] == workers[:2]
    bench.broker.tick(T)
    assert [session for session, _ in bench.events()] == workers[2:4]
    bench.broker.tick(T)
    assert [session for session, _ in bench.events()] == workers[4:]


def test_those_who_wait_for_jobs_of_a_tail_that_is_purged_or_flushed() -> None:
    for end in ("purge", "flush"):
        bench = Bench(window_jobs=1, supply_jobs=1)
        client, broker = bench.worker(), bench.broker
        for number in range(MANY):
            bench.submit(key=f"k{number}")
        bench.submit(key="later", run_at=T + MINUTE)
        bench.write()
        for number in range(MANY):
            bench.submit(key=f"k{number}", on_conflict=OnConflict.JOIN, watcher=client)
        if end == "purge":
            bench.submit(
                key="later", run_at=T + MINUTE, on_conflict=OnConflict.JOIN, watcher=client
            )
        with patch.object(purges, "unseen", side_effect=unseen) as looked_at:
            broker.purge_queues(("q",), T) if end == "purge" else broker.flush(T)
        assert looked_at.call_count <= TOLD_AT_ONCE
        told = [len(bench.ends(client))]
        while told[-1]:
            broker.tick(T)
            told.append(len(bench.ends(client)))
        assert max(told) <= 2 * TOLD_AT_ONCE
        assert sum(told) == MANY
        assert len(told) > 2
        assert len(client.watches) == (end == "purge"), (
            "the one that is not ready is still waited for"
        )
        if end == "flush":
            assert broker.keys.bytes == 0
        bench.write()
        bench.submit(key="k5")
