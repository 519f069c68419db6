"""What operators may do: pause, purge, remove, flush, cancel, kill, retry; and what the dead cost."""

from __future__ import annotations

import pytest

from franca.core import steering
from franca.core.errors import NotFound
from franca.core.events import Granted
from franca.core.model import Choice, Failure, NewJob, Policy, Schedule, Shelf, State
from tests.core.kit import SMALL, Bench, T, ids

DAY = 24 * 3600 * 1000


# -- pause and resume -----------------------------------------------------------------------


@pytest.mark.parametrize("choice", list(Choice))
def test_a_paused_queue_gives_nothing_and_those_who_wait_are_served_when_it_resumes(
    choice: Choice,
) -> None:
    bench = Bench()
    first = bench.submit()
    bench.broker.pause("q")
    worker = bench.worker()
    assert bench.ask(worker, choice=choice) is None
    second = bench.submit()
    assert (first.state, second.state) == (State.READY, State.READY)
    bench.broker.resume("q", T)
    ((_, event),) = bench.events()
    assert isinstance(event, Granted)
    assert event.job is first


def test_a_paused_queue_stays_paused_over_a_restart() -> None:
    bench = Bench()
    bench.submit()
    bench.broker.pause("q")
    for _ in range(2):
        bench.write()
        bench.crash()
        assert bench.ask(bench.worker()) is None
        bench.submit()
    bench.broker.resume("q", T)
    bench.write()
    bench.crash()
    bench.take(bench.worker())


def test_resuming_asks_for_the_tail_where_memory_has_nothing_left() -> None:
    bench = Bench(**SMALL)
    jobs = bench.submit_many(6)
    bench.write()
    bench.broker.pause("q")
    worker = bench.worker()
    bench.ask(worker)
    for job in jobs[:4]:
        bench.broker.cancel(job, T)
    bench.broker.resume("q", T)
    bench.write()
    assert worker.leases.keys() == {jobs[4].id}


def test_pausing_a_queue_that_nobody_pushed_to_is_nothing() -> None:
    bench = Bench()
    bench.broker.pause("nowhere")
    bench.broker.resume("nowhere", T)
    assert not bench.broker.has_changes()
    assert bench.submit("nowhere").state is State.READY


# -- purge, remove, flush -------------------------------------------------------------------


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("count", [3, 11])
def test_a_purge_cancels_what_is_ready_and_nothing_else(written: bool, count: int) -> None:
    bench = Bench(**SMALL)
    waits = bench.submit(run_at=T + 1_000)
    other = bench.submit("other")
    dead = bench.submit()
    bench.broker.kill(dead, T)
    bench.submit_many(count, name="n", once=False, key="")
    worker = bench.worker()
    runs = bench.take(worker)
    if written:
        bench.write()
    assert bench.broker.purge("q", T) == count - 1
    assert (bench.count().ready, bench.count().leased, bench.count().dead) == (0, 1, 1)
    bench.write()
    assert set(bench.disk.rows) == {waits.id, other.id, dead.id, runs.id}
    assert bench.broker.purge("q", T) == 0
    assert bench.broker.purge("nowhere", T) == 0


def test_a_purge_deals_with_supplied_jobs_one_by_one() -> None:
    # Their rows lie in the tail that is emptied, but some of them are no longer ready.
    bench = Bench(**SMALL)
    bench.submit_many(12)
    bench.write()
    worker = bench.worker()
    for _ in range(3):
        bench.take(worker)
    bench.write()
    runs = bench.take(worker)
    supplied = [j for j in bench.broker.jobs.values() if j.shelf is Shelf.TAIL]
    assert len(supplied) >= 2
    killed = supplied[-1]
    bench.broker.kill(killed, T)
    leased = bench.take(worker)
    bench.broker.purge("q", T)
    bench.write()
    assert killed.id in bench.disk.rows
    assert {runs.id, leased.id} <= bench.disk.rows.keys()
    assert (bench.count().ready, bench.count().leased, bench.count().dead) == (0, 5, 1)


def test_names_and_keys_of_a_purged_tail_are_free() -> None:
    bench = Bench(**SMALL)
    for number in range(9):
        bench.submit(name=f"n{number}", key=f"u{number}", once=True)
    bench.write()
    bench.broker.purge("q", T)
    assert bench.submit(key="u8").id == 10
    assert bench.submit(name="n7", once=True).id == 11
    bench.write()


def test_jobs_pushed_right_behind_a_purge_are_kept() -> None:
    bench = Bench(**SMALL)
    bench.submit_many(9)
    bench.write()
    bench.broker.purge("q", T)
    jobs = bench.submit_many(9)
    bench.write()
    assert ids(bench.take_all()) == ids(jobs)


@pytest.mark.parametrize("word", ["purge", "flush"])
def test_those_who_wait_for_many_jobs_that_end_together_hear_of_it_turn_by_turn(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "TOLD_AT_ONCE", 3)
    bench = Bench()
    client, other = bench.worker(), bench.worker()
    jobs = bench.submit_many(8, watcher=client, durable=False)
    bench.submit_many(2, watcher=other)
    bench.write()
    if word == "purge":
        assert bench.broker.purge("q", T) == 10
    else:
        bench.broker.flush(T)
    assert not bench.broker.jobs
    assert {job.state for job in jobs} == {State.CANCELLED}
    told = [len(bench.events())]
    bench.broker.close_session(other, T)
    while told[-1]:
        bench.broker.tick(T)
        told.append(len(bench.events()))
    assert told == [3, 3, 2, 0]
    assert bench.broker.fleeting_bytes == 0
    bench.write()


def test_a_purge_remembers_the_newest_of_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "TOLD_AT_ONCE", 3)
    bench = Bench()
    jobs = bench.submit_many(9)
    bench.write()
    bench.broker.purge("q", T)
    changes = bench.broker.drain()
    assert ids(changes.ended) == ids(jobs[-3:])
    assert ids(changes.gone_held) == ids(jobs)


def test_a_removed_queue_is_forgotten_and_made_anew_by_a_job() -> None:
    bench = Bench(**SMALL)
    bench.submit_many(9)
    bench.broker.pause("q")
    bench.write()
    bench.broker.remove_queue("q", T)
    assert bench.broker.counts() == []
    bench.write()
    assert not bench.disk.settings
    assert bench.submit().state is State.READY
    assert not bench.broker.queues["q"].paused
    bench.broker.remove_queue("nowhere", T)


def test_a_removed_queue_stays_while_it_has_jobs_that_are_not_ready() -> None:
    bench = Bench()
    bench.submit(run_at=T + 1_000)
    bench.broker.pause("q")
    bench.broker.remove_queue("q", T)
    bench.write()
    assert (bench.count().scheduled, bench.broker.queues["q"].paused) == (1, False)


@pytest.mark.parametrize("written", [True, False])
def test_a_flush_forgets_everything_but_those_who_wait(written: bool) -> None:
    bench = Bench(**SMALL)
    worker, other = bench.worker(), bench.worker()
    bench.submit_many(9, key="", name="n")
    bench.submit_many(9, run_at=T + 1_000)
    bench.submit(key="u", lease_ms=1_000, priority=-1)
    bench.broker.kill(bench.submit(), T)
    bench.broker.put_schedule(
        Schedule("s", NewJob("q", "k", b"", Policy()), 1_000), T, fire_now=False
    )
    bench.take(worker)
    bench.ask(other, "elsewhere")
    if written:
        bench.write()
    bench.broker.flush(T)
    assert not worker.leases
    assert bench.broker.counts() == []
    bench.write()
    assert (bench.disk.rows, bench.disk.settings, bench.disk.schedules) == ({}, {}, {})
    assert bench.broker.totals.pushed == 0
    bench.broker.tick(T + 10_000)
    assert not bench.broker.jobs
    assert bench.submit(key="u").id > 20, "ids are never used twice"
    assert bench.submit("elsewhere").holder == other.holder
    bench.write()


def test_a_flush_and_what_follows_it_may_be_one_group() -> None:
    bench = Bench(**SMALL)
    bench.submit_many(9)
    bench.write()
    bench.broker.flush(T)
    jobs = bench.submit_many(9)
    bench.write()
    assert sorted(bench.disk.rows) == ids(jobs)


# -- single jobs ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["cancel", "kill", "retry"])
def test_a_job_that_has_ended_cannot_be_steered(verb: str) -> None:
    bench = Bench()
    worker = bench.worker()
    done, discarded = bench.submit(), bench.submit(bury=False)
    bench.broker.finish(bench.take(worker), worker.holder, b"", T)
    bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    bench.write()
    for job in (done, discarded):
        with pytest.raises(NotFound):
            getattr(bench.broker, verb)(job, T)
    assert not bench.broker.has_changes()


def test_a_killed_job_is_dead_whatever_its_policy_and_can_be_retried() -> None:
    bench = Bench(**SMALL)
    jobs = bench.submit_many(6, bury=False)
    bench.write()
    for visitor in bench.recall(ids=(jobs[0].id, jobs[5].id)):
        bench.broker.kill(visitor, T)
    bench.write()
    assert (bench.count().dead, bench.count().ready) == (2, 4)
    dead = bench.recall(states=(State.DEAD,))
    assert ids(dead) == [jobs[0].id, jobs[5].id]
    for visitor in dead:
        bench.broker.retry(visitor, T)
    bench.write()
    assert (bench.count().dead, bench.count().ready) == (0, 6)
    assert ids(bench.take_all())[-2:] == [jobs[0].id, jobs[5].id]


def test_a_recall_finds_the_job_in_memory_and_not_its_row() -> None:
    bench = Bench()
    job = bench.submit(name="n")
    bench.write()
    assert bench.recall(names=("n",)) == [job]
    assert bench.recall(names=("n",), states=(State.WAITING,)) == []


def test_recalls_are_answered_one_group_after_the_other() -> None:
    bench = Bench(**SMALL)
    jobs = bench.submit_many(6)
    bench.write()
    first = bench.recall(ids=(jobs[5].id,))
    bench.broker.cancel(first[0], T)
    assert bench.recall(ids=(jobs[5].id,)) == []


# -- the dead -------------------------------------------------------------------------------


def test_too_many_dead_jobs_go_the_longest_dead_first() -> None:
    bench = Bench(dead_jobs=3)
    jobs = bench.submit_many(5)
    for number, job in enumerate(reversed(jobs)):
        bench.broker.kill(job, T + number)
    bench.write()
    bench.broker.tick(T + 10)
    bench.write()
    assert bench.count().dead == 3
    assert sorted(bench.disk.rows) == [1, 2, 3]


def test_old_dead_jobs_go() -> None:
    bench = Bench(dead_ms=DAY)
    for number in range(3):
        bench.broker.kill(bench.submit(), T + number * DAY)
    bench.write()
    bench.broker.tick(T + int(2.5 * DAY))
    bench.write(T + int(2.5 * DAY))
    assert sorted(bench.disk.rows) == [3]
    assert bench.count().dead == 1


def test_a_flood_of_dead_jobs_is_pruned_within_a_few_ticks() -> None:
    bench = Bench(dead_jobs=10)
    for job in bench.submit_many(2_000):
        bench.broker.kill(job, T)
    bench.write()
    for tick in range(6):
        bench.broker.tick(T + 50 * tick)
        bench.write()
    assert bench.count().dead == len(bench.disk.rows) == 10


# -- counters -------------------------------------------------------------------------------


def test_the_counts_are_always_those_of_a_recount() -> None:
    bench = Bench(**SMALL)
    worker = bench.worker()
    bench.submit_many(9, failures=1, delay_ms=1_000)
    bench.submit_many(9, run_at=T + 5_000)
    bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    bench.take(worker)
    bench.write()
    bench.broker.kill(bench.recall(ids=(9,))[0], T)
    bench.write()
    count = bench.count()
    rows = bench.disk.rows.values()
    recount = {state: sum(row.state is state for row in rows) for state in State}
    assert (count.scheduled, count.retrying) == (9, 1)
    assert recount[State.WAITING] == 10
    assert (count.ready, count.leased, count.dead) == (6, 1, 1)
    assert [recount[s] for s in (State.READY, State.LEASED, State.DEAD)] == [6, 1, 1]
