"""Leases: one holder at a time, fenced, and over when its time, its holder or its word says so."""

import gc
import weakref
from typing import Any

import pytest

from franca.core.errors import NotHeld
from franca.core.events import Finished, Granted, LeaseLost
from franca.core.limits import TIME_MAX
from franca.core.model import NEVER, Failure, Job, OnHangUp, Session, State
from tests.core.kit import Bench, T, ids, state_of
from tests.support.queue_counts import queue_counts

LEASE = 60_000
KEEP, RETURN, FAIL = OnHangUp.KEEP, OnHangUp.RETURN, OnHangUp.FAIL
EXPIRY = T + LEASE + 1_000
"""A lease is over within a second after its end."""


def leased(bench: Bench, on_hang_up: OnHangUp = KEEP, **fields: Any) -> tuple[Job, Session]:
    return bench.run(**{"holder": "holder", "on_hang_up": on_hang_up, "lease_ms": LEASE, **fields})


def test_a_finished_job_is_gone_from_memory_and_from_the_disk(bench: Bench) -> None:
    job, worker = leased(bench)
    bench.write()
    bench.broker.finish(job, "holder", b"result", T + 5)
    bench.write()
    assert (job.state, job.result, job.ended_at) == (State.DONE, b"result", T + 5)
    assert (bench.broker.jobs, bench.disk.rows) == ({}, {})
    assert (bench.broker.totals.processed, worker.leases) == (1, {})


@pytest.mark.parametrize("verb", ["finish", "fail", "release", "give_back", "extend", "report"])
def test_only_the_holder_may_speak_and_only_while_it_holds(bench: Bench, verb: str) -> None:
    job, _ = leased(bench)
    stale = bench.submit()
    arguments: dict[str, tuple[object, ...]] = {
        "finish": (b"", T),
        "fail": (Failure(), T),
        "release": (NEVER, T),
        "give_back": (T,),
        "extend": (T + 2 * LEASE,),
        "report": ("data", b""),
    }
    bench.write()
    before = (queue_counts(bench.broker), job.until, job.attempts)
    for whose, name in ((job, "thief"), (stale, "holder")):
        with pytest.raises(NotHeld):
            getattr(bench.broker, verb)(whose, name, *arguments[verb])
    assert (queue_counts(bench.broker), job.until, job.attempts) == before
    assert not bench.broker.has_changes()
    assert bench.events() == []


def test_a_late_word_of_an_old_holder_does_not_touch_the_new_lease(bench: Bench) -> None:
    job, _ = leased(bench)
    bench.broker.tick(EXPIRY)
    assert bench.take(bench.worker("second"), now=EXPIRY) is job
    for verb in (bench.broker.finish, bench.broker.finish_late):
        with pytest.raises(NotHeld):
            verb(job, "holder", b"", EXPIRY)
    assert (job.state, job.holder) == (State.LEASED, "second")


def test_a_lease_runs_out_after_its_time_and_not_before(bench: Bench) -> None:
    job, _ = leased(bench)
    bench.broker.tick(T + LEASE - 1)
    assert job.state is State.LEASED
    bench.broker.tick(EXPIRY)
    assert (job.state, job.losses, job.attempts) == (State.READY, 1, 1)
    assert job.attempt_log is not None
    assert (job.attempt_log[0].outcome, job.attempt_log[0].holder) == ("expired", "holder")


def test_a_job_without_a_lease_time_is_held_as_long_as_its_session_lasts(bench: Bench) -> None:
    job, _ = leased(bench, OnHangUp.RETURN, lease_ms=0)
    assert job.until == NEVER
    bench.broker.tick(T + 10**10)
    assert job.state is State.LEASED


def test_a_lease_that_outlives_its_session_always_ends(bench: Bench) -> None:
    job, worker = leased(bench, KEEP, lease_ms=0)
    end = T + bench.broker.limits.lease_ms
    assert job.until == end
    bench.broker.close_session(worker, T)
    states: list[State] = []
    for now in (end - 1, end + 1_000):
        bench.broker.tick(now)
        states.append(job.state)
    assert states == [State.LEASED, State.READY]


def test_a_lease_is_extended_and_never_shortened(bench: Bench) -> None:
    job, _ = leased(bench)
    assert bench.broker.extend(job, "holder", T + 2 * LEASE) == T + 2 * LEASE
    assert bench.broker.extend(job, "holder", T + 1) == T + 2 * LEASE
    bench.write()
    assert bench.disk.rows[job.id].until == job.until == T + 2 * LEASE
    bench.broker.tick(EXPIRY)
    assert job.state is State.LEASED
    bench.broker.tick(EXPIRY + LEASE)
    assert state_of(job) is State.READY


def test_who_does_not_hold_a_lease_cannot_extend_it(bench: Bench) -> None:
    job, _ = leased(bench)
    with pytest.raises(NotHeld):
        bench.broker.extend(job, "another", T + 2 * LEASE)
    bench.broker.finish(job, "holder", b"", T)
    with pytest.raises(NotHeld):
        bench.broker.extend(job, "holder", T + 2 * LEASE)


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_lease_ends_some_time_however_far_it_is_extended(bench: Bench, is_timed: bool) -> None:
    job, _ = leased(bench)
    if is_timed:
        bench.broker.tick(T)
    assert bench.broker.extend(job, "holder", 1 << 80) == TIME_MAX
    bench.write()
    bench.broker.tick(TIME_MAX + 1_000)
    assert job.state is State.READY


def test_a_lease_without_an_end_has_none_when_it_was_extended(bench: Bench) -> None:
    job, _ = leased(bench, RETURN, lease_ms=0)
    assert bench.broker.extend(job, "holder", T + 1) == NEVER
    bench.broker.tick(T + 10**10)
    assert job.state is State.LEASED


def test_a_finish_that_comes_late_counts_while_nobody_else_was_given_the_job(bench: Bench) -> None:
    job, _ = leased(bench)
    bench.broker.tick(EXPIRY)
    with pytest.raises(NotHeld):
        bench.broker.finish_late(job, "another", b"", EXPIRY)
    bench.broker.finish_late(job, "holder", b"", EXPIRY)
    assert (job.state, bench.count().ready) == (State.DONE, 0)
    bench.write(EXPIRY)


def test_a_finish_that_comes_late_finds_a_job_that_waits_for_its_retry(bench: Bench) -> None:
    job, _ = leased(bench, loss_is_failure=True, max_failures=3, delay_ms=1_000)
    bench.broker.tick(EXPIRY)
    assert job.state is State.WAITING
    bench.broker.finish_late(job, "holder", b"", EXPIRY)
    bench.write(EXPIRY)
    assert bench.count().retrying == 0
    bench.broker.tick(EXPIRY + 10_000)
    assert state_of(job) is State.DONE


def test_a_grant_that_never_arrived_is_as_if_it_had_not_been_made(bench: Bench) -> None:
    first, second = bench.submit_many(2)
    worker = bench.worker(takes=1)
    bench.broker.give_back(first, worker.holder, T)
    assert (first.attempts, first.losses, first.attempt_log) == (0, 0, None)
    assert ids(bench.take_all()) == ids([first, second])


def test_a_released_job_returns_to_its_place_or_at_its_time_and_did_not_fail(bench: Bench) -> None:
    now_job, later_job, other = bench.submit_many(3)
    worker = bench.worker(takes=1)
    bench.take(worker)
    bench.broker.release(now_job, worker.holder, NEVER, T)
    bench.broker.release(later_job, worker.holder, T + 1_000, T)
    assert (later_job.state, later_job.failures, later_job.losses) == (State.WAITING, 0, 0)
    assert bench.count().scheduled == 1
    assert ids(bench.take_all()) == ids([now_job, other])
    bench.broker.tick(T + 1_000)
    assert ids(bench.take_all(now=T + 1_000)) == [later_job.id]


@pytest.mark.parametrize(
    ("on_hang_up", "state", "losses", "failures"),
    [(KEEP, State.LEASED, 0, 0), (RETURN, State.READY, 1, 0), (FAIL, State.WAITING, 1, 1)],
)
def test_what_becomes_of_a_lease_when_its_session_closes(
    bench: Bench, on_hang_up: OnHangUp, state: State, losses: int, failures: int
) -> None:
    job, worker = leased(bench, on_hang_up, max_failures=5, delay_ms=1_000)
    bench.write()
    bench.broker.close_session(worker, T)
    bench.broker.close_session(worker, T)
    assert (job.state, job.losses, job.failures) == (state, losses, failures)
    bench.write()


def test_a_session_hears_that_it_lost_a_lease_before_it_is_given_it_again(bench: Bench) -> None:
    job, worker = leased(bench, RETURN)
    bench.ask(worker)
    bench.broker.tick(EXPIRY)
    kinds = [type(event) for session, event in bench.events() if session is worker]
    assert (kinds, job.holder, job.attempts) == ([LeaseLost, Granted], "holder", 2)


def test_an_operator_who_takes_a_running_job_away_tells_its_holder() -> None:
    for verb in ("cancel", "kill", "retry"):
        bench = Bench()
        job, worker = leased(bench, RETURN)
        getattr(bench.broker, verb)(job, T)
        told = [type(event) for session, event in bench.events() if session is worker]
        assert told == [LeaseLost], verb
        assert (worker.leases, bench.count().leased) == ({}, 0)


def test_no_worker_in_time_ends_a_job_that_had_to_start_by_then(bench: Bench) -> None:
    client = bench.worker()
    late = bench.submit(start_by=T + 1_000, durable=False, watcher=client)
    bench.broker.tick(T + 999)
    assert late.state is State.READY
    bench.broker.tick(T + 1_050)
    ((_, event),) = bench.events()
    assert isinstance(event, Finished)
    assert (event.state, event.failure.kind) == (State.CANCELLED, "NotStarted")


def test_a_job_that_started_in_time_may_take_its_time(small: Bench) -> None:
    jobs = small.submit_many(6, start_by=T + 1_000)
    worker = small.worker()
    started = [small.take(worker) for _ in range(3)]
    small.write()
    small.broker.give_back(started[0], worker.holder, T)
    small.write()
    small.broker.tick(T + 1_050)
    small.write(T + 1_050)
    assert [job.state for job in started[1:]] == [State.LEASED] * 2
    assert {job.id for job in small.broker.jobs.values()}.isdisjoint({jobs[0].id})


def test_sessions_and_those_who_speak_for_them_can_be_let_go() -> None:
    class Owner:
        session: Session

        def on_event(self, session: Session, event: object, now: int) -> None: ...

    bench = Bench()
    owner = Owner()
    owner.session = bench.broker.open_session("holder", RETURN, owner)
    bench.ask(owner.session, "q", until=T + 2_000)
    bench.broker.close_session(owner.session, T)
    bench.broker.tick(T)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_what_a_protocol_wants_to_remember_is_kept_with_a_released_job(bench: Bench) -> None:
    worker = bench.worker()
    bench.submit(extra=b"1")
    bench.broker.release(bench.take(worker), worker.holder, T + 10, T, extra=b"2")
    bench.restart()
    bench.ripen(T + 10)
    assert bench.take(bench.worker(), now=T + 10).extra == b"2"


def test_putting_off_ends_a_job_whose_watcher_waits_for_this_run(bench: Bench) -> None:
    client, worker = bench.worker(), bench.worker()
    bench.submit(watcher=client, no_retry_if_watched=True)
    bench.broker.release(bench.take(worker), worker.holder, T + 10, T)
    assert bench.ends(client) == [State.CANCELLED]
    bench.write()
    assert not bench.disk.rows


def test_a_late_word_about_a_job_that_left_memory_meanwhile_changes_nothing(small: Bench) -> None:
    stale, worker = small.run(lease_ms=1_000)
    small.submit_many(9)
    small.broker.tick(T + 3_000)
    while stale.id in small.broker.jobs:
        small.submit(priority=-1)
        small.write(T + 3_000)
    with pytest.raises(NotHeld):
        small.broker.finish_late(stale, worker.holder, b"", T + 3_000)
    small.write(T + 3_000)
    assert stale.id in ids(small.take_all(now=T + 3_000))


def test_what_everybody_runs_is_found_by_holder_whether_a_lease_is_on_the_clock_or_not(
    bench: Bench,
) -> None:
    jobs = bench.submit_many(4, lease_ms=LEASE)
    one, other = (bench.worker(name, KEEP, takes=2) for name in ("one", "other"))
    bench.broker.tick(T)
    bench.broker.release(jobs[0], one.holder, NEVER, T)
    assert bench.take(other) is jobs[0]
    bench.broker.release(jobs[0], other.holder, NEVER, T)
    assert bench.take(one) is jobs[0]
    found = bench.broker.leases.by_holder()
    assert {holder: sorted(runs) for holder, runs in found.items()} == {
        "one": [jobs[0].id, jobs[1].id],
        "other": [jobs[2].id, jobs[3].id],
    }
    assert sum(map(len, bench.broker.leases.by_holder(3).values())) == 3
    bench.broker.finish(jobs[1], "one", b"", T)
    assert sorted(bench.broker.leases.by_holder()["one"]) == [jobs[0].id]


@pytest.mark.parametrize("end", ["fail", "expire", "kill"])
def test_nothing_of_its_last_lease_stays_in_the_row_of_a_dead_job(bench: Bench, end: str) -> None:
    job, _ = bench.run(lease_ms=LEASE, max_losses=0)
    if end == "expire":
        for now in (T, EXPIRY):
            bench.broker.tick(now)
    else:
        bench.end(end, job)
    bench.write()
    row = bench.disk.rows[job.id]
    assert (row.state, row.until) == (State.DEAD, NEVER)
