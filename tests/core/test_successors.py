"""Replacing a job that runs: the newer one waits behind the run and takes its place after it."""

from typing import Any

import pytest

from franca.core.errors import NotHeld, NotUnique, TooMuch
from franca.core.model import Failure, Job, OnConflict, OnHangUp, Session, State
from franca.core.successors import SUCCESSOR_BYTES
from tests.core.kit import Bench, T, ids, state_of

REPLACE = OnConflict.REPLACE
LATER = T + 60_000
WAITING, READY, LEASED = State.WAITING, State.READY, State.LEASED
DONE, DEAD, CANCELLED = State.DONE, State.DEAD, State.CANCELLED


def running(bench: Bench, **fields: Any) -> tuple[Job, Session]:
    """A job with the key `u`, and the session that runs it."""
    return bench.run(key="u", max_failures=-1, delay_ms=1_000, **fields)


def newer(bench: Bench, **fields: Any) -> Job:
    return bench.submit(key="u", on_conflict=REPLACE, **fields)


def test_a_run_is_left_alone_by_what_replaces_its_job(bench: Bench) -> None:
    old, worker = running(bench)
    new = newer(bench, body=b"new")
    assert (old.state, new.state) == (LEASED, WAITING)
    assert not bench.events(), "the holder hears nothing"
    assert bench.ask(bench.worker(), until=T) is not None
    assert (bench.count().leased, bench.count().scheduled, bench.count().ready) == (1, 1, 0)
    bench.write()
    bench.broker.finish(old, worker.holder, b"", T)
    assert (state_of(old), state_of(new)) == (DONE, READY)
    assert (bench.count().leased, bench.count().scheduled, bench.count().ready) == (0, 0, 1)
    bench.write()
    assert ids(bench.take_all()) == [new.id]


@pytest.mark.parametrize(
    "how", ["fail", "release", "put off", "give back", "lose", "expire", "retry"]
)
def test_a_run_that_did_not_end_its_job_ends_with_the_newer_one(bench: Bench, how: str) -> None:
    old, _ = running(bench, lease_ms=1_000)
    new = newer(bench)
    bench.end(how, old)
    assert (state_of(old), state_of(new)) == (CANCELLED, READY)
    bench.write(T + 3_000)
    assert ids(bench.take_all(now=T + 3_000)) == [new.id]
    bench.broker.tick(LATER)
    assert bench.take_all(now=LATER) == []


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_whatever_ends_the_run_the_newer_one_is_not_lost(bench: Bench, how: str) -> None:
    old, _ = running(bench)
    new = newer(bench)
    bench.end(how, old)
    assert state_of(new) is READY
    bench.write()
    assert ids(bench.take_all()) == [new.id]


def test_only_the_newest_is_kept(bench: Bench) -> None:
    old, worker = running(bench)
    first, second = newer(bench), newer(bench)
    assert (state_of(first), second.state) == (CANCELLED, WAITING)
    bench.broker.finish(old, worker.holder, b"", T)
    bench.write()
    assert ids(bench.take_all()) == [second.id]


def test_a_successor_waits_for_its_own_time_too(bench: Bench) -> None:
    old, worker = running(bench)
    new = newer(bench, run_at=LATER)
    bench.broker.tick(LATER)
    assert state_of(new) is WAITING, "its time has come, and the run goes on"
    bench.broker.finish(old, worker.holder, b"", LATER)
    assert state_of(new) is READY
    bench.write(LATER)
    old, worker = bench.take(bench.worker(), now=LATER), bench.worker()
    newest = newer(bench, run_at=LATER + 5_000, now=LATER)
    bench.broker.finish(old, old.holder, b"", LATER)
    assert state_of(newest) is WAITING
    bench.broker.tick(LATER + 5_000)
    assert state_of(newest) is READY


def test_others_meet_the_job_that_runs(bench: Bench) -> None:
    old, _ = running(bench)
    new = newer(bench)
    assert bench.broker.keyed("q", "u") is old
    assert bench.submit(key="u") is old
    with pytest.raises(NotUnique):
        bench.submit(key="u", on_conflict=OnConflict.REFUSE)
    with pytest.raises(NotUnique):
        bench.broker.retry(new, T)
    with pytest.raises(NotHeld):
        bench.broker.finish(new, old.holder, b"", T)


def test_who_watches_a_job_that_waits_watches_what_replaces_it(bench: Bench) -> None:
    client = bench.worker()
    bench.submit(key="u", watcher=client)
    new = newer(bench)
    assert (bench.ends(client), list(client.watches)) == ([], [new.id])
    bench.take_all()
    assert (bench.ends(client), bench.broker.watches.by_job) == ([DONE], {})


def test_who_watches_a_run_hears_of_that_run(bench: Bench) -> None:
    client, other = bench.worker(), bench.worker()
    old, worker = running(bench, watcher=client)
    newer(bench, watcher=other)
    bench.broker.finish(old, worker.holder, b"", T)
    assert bench.ends(client) == [DONE]
    bench.take_all()
    assert bench.ends(other) == [DONE]


def test_who_watches_a_run_that_gives_way_hears_of_the_next(bench: Bench) -> None:
    client = bench.worker()
    old, worker = running(bench, watcher=client)
    newer(bench)
    bench.broker.fail(old, worker.holder, Failure(), T)
    assert bench.ends(client) == []
    bench.take_all()
    assert bench.ends(client) == [DONE]


def test_removing_a_key_ends_the_run_and_what_waits_behind_it(bench: Bench) -> None:
    client = bench.worker()
    old, _ = running(bench, watcher=client)
    new = newer(bench, watcher=client)
    assert bench.broker.remove("q", "u", T)
    assert (state_of(old), state_of(new)) == (CANCELLED, CANCELLED)
    assert bench.ends(client) == [CANCELLED, CANCELLED]
    assert not bench.broker.remove("q", "u", T)
    bench.write()
    assert not bench.disk.rows


def test_a_successor_may_be_cancelled_and_leaves_no_trace(bench: Bench) -> None:
    old, worker = running(bench)
    bench.broker.cancel(newer(bench), T)
    assert bench.count().scheduled == 0
    bench.broker.finish(old, worker.holder, b"", T)
    bench.write()
    assert (bench.disk.rows, bench.broker.lifecycle.successors.by_job) == ({}, {})
    assert not bench.broker.lifecycle.successors.ahead


@pytest.mark.parametrize(
    "how", ["finish", "fail", "lose", "cancel", "remove", "flush", "replace", "crash"]
)
def test_what_waits_behind_runs_has_a_bound_and_gives_its_room_back(how: str) -> None:
    bench = Bench(leased_bytes=6_000)
    (old, _), _ = [bench.run(key=key, max_failures=-1) for key in ("u", "v")]
    new = newer(bench, body=b"x" * 1_500)
    bench.write()
    with pytest.raises(TooMuch):
        bench.submit(key="v", on_conflict=REPLACE, body=b"x" * 1_500)
    assert not bench.broker.has_changes(), "a refusal changes nothing"
    if how == "replace":
        newer(bench)
    bench.end("finish" if how == "replace" else how, new if how == "cancel" else old)
    broker = bench.broker
    assert broker.lifecycle.successors.bytes == 0
    leased = [job for job in broker.jobs.values() if job.state is LEASED]
    assert broker.leases.bytes == sum(job.weight for job in leased)


def test_what_waits_behind_runs_is_refused_when_those_that_run_take_all_the_room() -> None:
    bench = Bench(leased_bytes=2_000)
    running(bench, body=b"x" * 1_500)
    with pytest.raises(TooMuch):
        newer(bench)


def test_a_successor_that_is_no_larger_than_the_last_is_always_taken() -> None:
    bench = Bench(leased_bytes=2_500)
    running(bench)
    newer(bench, body=b"x" * 200)
    with pytest.raises(TooMuch):
        newer(bench, body=b"x" * 300)
    newer(bench, body=b"y" * 200)
    assert bench.count().scheduled == 1


def test_successors_count_without_their_large_bodies() -> None:
    bench = Bench(large_bytes=0)
    running(bench)
    successor = newer(bench, body=b"x" * 5_000)
    size = bench.broker.lifecycle.successors.bytes
    assert SUCCESSOR_BYTES <= size < SUCCESSOR_BYTES + 100
    bench.write()
    bench.broker.tick(T)
    assert successor.away
    [found] = bench.recall(ids=(successor.id,))
    assert found is successor
    assert not found.away
    bench.broker.remove("q", "u", T)
    assert bench.broker.lifecycle.successors.bytes == 0


def test_successors_count_after_a_restart_too(bench: Bench) -> None:
    running(bench, on_hang_up=OnHangUp.KEEP)
    newer(bench)
    size = bench.broker.lifecycle.successors.bytes
    bench.restart()
    assert bench.broker.lifecycle.successors.bytes == size > SUCCESSOR_BYTES
    bench.broker.remove("q", "u", T)
    assert bench.broker.lifecycle.successors.bytes == 0


def test_successors_of_memory_alone_count_elsewhere() -> None:
    bench = Bench(leased_bytes=1)
    running(bench)
    newer(bench, durable=False)
    assert bench.broker.lifecycle.successors.bytes == 0


def test_flushing_forgets_successors(bench: Bench) -> None:
    running(bench)
    newer(bench)
    bench.broker.flush(T)
    bench.write()
    assert (bench.disk.rows, bench.broker.lifecycle.successors.by_job) == ({}, {})
    assert not bench.broker.lifecycle.successors.ahead


def test_a_successor_with_a_deadline_to_start_has_it_after_the_run_too(bench: Bench) -> None:
    old, worker = running(bench)
    new = newer(bench, start_by=T + 5_000)
    bench.broker.finish(old, worker.holder, b"", T)
    bench.broker.tick(T + 6_000)
    assert state_of(new) is CANCELLED


# -- over a restart -------------------------------------------------------------------------


def test_a_successor_survives_a_crash_and_its_run_does_not(bench: Bench) -> None:
    old, _ = running(bench)
    new = newer(bench)
    bench.restart()
    bench.write()
    assert (list(bench.disk.rows), bench.count().ready) == ([new.id], 1)
    assert ids(bench.take_all()) == [new.id]
    assert old.id not in bench.broker.jobs


def test_a_successor_waits_behind_a_lease_that_outlived_the_server(bench: Bench) -> None:
    old, worker = running(bench, on_hang_up=OnHangUp.KEEP, lease_ms=60_000)
    new = newer(bench)
    bench.restart()
    bench.write()
    job = bench.broker.keyed("q", "u")
    assert isinstance(job, Job)
    assert (job.id, job.state) == (old.id, LEASED)
    assert (bench.count().leased, bench.count().scheduled) == (1, 1)
    bench.broker.finish(job, worker.holder, b"", T)
    bench.write()
    assert ids(bench.take_all()) == [new.id]


def test_a_successor_of_a_job_that_was_never_durable_runs_after_a_crash(bench: Bench) -> None:
    running(bench, durable=False)
    new = newer(bench)
    bench.restart()
    bench.broker.tick(T + 1_000)
    assert ids(bench.take_all(now=T + 1_000)) == [new.id]
