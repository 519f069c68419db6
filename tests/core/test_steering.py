"""What operators may do: pause, purge, remove, flush, cancel, kill, retry; and what the dead cost."""

import pytest

from franca.core import purges
from franca.core.errors import NotFound
from franca.core.model import Choice, Failure, NewJob, Policy, Schedule, Shelf, State
from tests.core.kit import SMALL, Bench, T, ids
from tests.support.queue_counts import queue_counts

DAY = 24 * 3600 * 1000


# -- pause and resume -----------------------------------------------------------------------


@pytest.mark.parametrize("choice", list(Choice))
def test_a_paused_queue_serves_those_who_wait_when_it_resumes(bench: Bench, choice: Choice) -> None:
    first = bench.submit()
    bench.broker.pause("q")
    worker = bench.worker()
    assert bench.ask(worker, choice=choice) is None
    second = bench.submit()
    assert (first.state, second.state) == (State.READY, State.READY)
    bench.broker.resume("q", T)
    assert bench.granted() == [first]


@pytest.mark.parametrize("crashes", [False, True])
def test_a_pause_may_end_by_itself(bench: Bench, crashes: bool) -> None:
    job = bench.submit()
    bench.broker.pause("q", until=T + 1_000)
    bench.write()
    if crashes:
        bench.crash()
    worker = bench.worker()
    assert bench.ask(worker) is None
    bench.broker.tick(T + 999)
    assert bench.broker.queues["q"].paused
    assert not bench.events()
    wake = bench.broker.next_wake()
    assert wake is not None
    assert T + 1_000 <= wake <= T + 1_050
    bench.broker.tick(T + 1_100)
    assert ids(bench.granted()) == [job.id]
    bench.write(T + 1_100)


def test_pauses_that_were_replaced_take_no_memory(bench: Bench) -> None:
    bench.submit()
    for number in range(100):
        bench.broker.pause("q", T + 10_000 * number)
    bench.broker.pause("q")
    assert bench.broker.dispatch.pause_ends._buckets == {}


def test_the_last_pause_counts(bench: Bench) -> None:
    bench.submit()
    for until in (T + 500, T + 2_000, 0, T + 3_000):
        bench.broker.pause("q", until)
    for at, paused in ((T + 2_900, True), (T + 3_100, False)):
        bench.broker.tick(at)
        assert bench.broker.queues["q"].paused is paused
    bench.broker.pause("q", T + 4_000)
    bench.broker.resume("q", T + 3_500)
    bench.broker.pause("q")
    bench.broker.tick(T + 9_000)
    assert bench.broker.queues["q"].paused
    bench.write()


def test_a_paused_queue_stays_paused_over_a_restart(bench: Bench) -> None:
    bench.submit()
    bench.broker.pause("q")
    for _ in range(2):
        bench.restart()
        assert bench.ask(bench.worker()) is None
        bench.submit()
    bench.broker.resume("q", T)
    bench.restart()
    bench.take(bench.worker())


def test_resuming_asks_for_the_tail_where_memory_has_nothing_left(small: Bench) -> None:
    jobs = small.submit_many(6)
    small.write()
    small.broker.pause("q")
    worker = small.worker()
    small.ask(worker)
    for job in jobs[:4]:
        small.broker.cancel(job, T)
    small.broker.resume("q", T)
    small.write()
    assert worker.leases.keys() == {jobs[4].id}


def test_pausing_a_queue_that_nobody_pushed_to_is_nothing(bench: Bench) -> None:
    bench.broker.pause("nowhere")
    bench.broker.resume("nowhere", T)
    assert not bench.broker.has_changes()
    assert bench.submit("nowhere").state is State.READY


# -- purge, remove, flush -------------------------------------------------------------------


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("count", [3, 11])
def test_a_purge_cancels_what_is_ready_and_nothing_else(written: bool, count: int) -> None:
    bench = Bench(**SMALL)
    waits, other, dead = bench.submit(run_at=T + 1_000), bench.submit("other"), bench.submit()
    bench.broker.kill(dead, T)
    bench.submit_many(count, name="n", once=False, key="")
    worker = bench.worker()
    runs = bench.take(worker)
    if written:
        bench.write()
    assert bench.broker.purge_queues(("q",), T) == count - 1
    assert (bench.count().ready, bench.count().leased, bench.count().dead) == (0, 1, 1)
    bench.write()
    assert set(bench.disk.rows) == {waits.id, other.id, dead.id, runs.id}
    assert bench.broker.purge_queues(("q",), T) == 0
    assert bench.broker.purge_queues(("nowhere",), T) == 0


def test_a_purge_deals_with_supplied_jobs_one_by_one() -> None:
    # Their rows lie in the tail that is emptied, but some of them are no longer ready.
    bench = Bench(**SMALL)
    bench.submit_many(12)
    bench.write()
    worker = bench.worker(takes=3)
    bench.write()
    runs = bench.take(worker)
    supplied = [j for j in bench.broker.jobs.values() if j.shelf is Shelf.BACKLOG]
    assert len(supplied) >= 2
    killed = supplied[-1]
    bench.broker.kill(killed, T)
    leased = bench.take(worker)
    bench.broker.purge_queues(("q",), T)
    bench.write()
    assert killed.id in bench.disk.rows
    assert {runs.id, leased.id} <= bench.disk.rows.keys()
    assert (bench.count().ready, bench.count().leased, bench.count().dead) == (0, 5, 1)


def test_names_and_keys_of_a_purged_tail_are_free(small: Bench) -> None:
    for number in range(9):
        small.submit(name=f"n{number}", key=f"u{number}", once=True)
    small.write()
    small.broker.purge_queues(("q",), T)
    assert small.submit(key="u8").id == 10
    assert small.submit(name="n7", once=True).id == 11
    small.write()


def test_jobs_pushed_right_behind_a_purge_are_kept(small: Bench) -> None:
    small.submit_many(9)
    small.write()
    small.broker.purge_queues(("q",), T)
    jobs = small.submit_many(9)
    small.write()
    assert ids(small.take_all()) == ids(jobs)


@pytest.mark.parametrize("word", ["purge", "flush"])
def test_those_who_wait_for_many_jobs_that_end_together_hear_of_it_turn_by_turn(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purges, "TOLD_AT_ONCE", 3)
    bench = Bench()
    client, other = bench.worker(), bench.worker()
    jobs = bench.submit_many(8, watcher=client, durable=False)
    bench.submit_many(2, watcher=other)
    bench.write()
    if word == "purge":
        assert bench.broker.purge_queues(("q",), T) == 10
    else:
        bench.broker.flush(T)
    assert (bench.broker.jobs, {job.state for job in jobs}) == ({}, {State.CANCELLED})
    told = [len(bench.events())]
    bench.broker.close_session(other, T)
    while told[-1]:
        bench.broker.tick(T)
        told.append(len(bench.events()))
    assert (told, bench.broker.volatile.bytes) == ([3, 3, 2, 0], 0)
    bench.write()


def test_a_purge_remembers_the_newest_of_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purges, "TOLD_AT_ONCE", 3)
    bench = Bench()
    jobs = bench.submit_many(9)
    bench.write()
    bench.broker.purge_queues(("q",), T)
    changes = bench.broker.drain()
    assert ids(changes.ended) == ids(jobs[-3:])
    assert ids(changes.gone_from_memory) == ids(jobs)


def test_a_removed_queue_is_forgotten_and_made_anew_by_a_job(small: Bench) -> None:
    small.submit_many(9)
    small.broker.pause("q")
    small.write()
    small.broker.remove_queues(("q",), T)
    assert queue_counts(small.broker) == []
    small.write()
    assert not small.disk.settings
    assert (small.submit().state, small.broker.queues["q"].paused) == (State.READY, False)
    small.broker.remove_queues(("nowhere",), T)


def test_a_removed_queue_stays_while_it_has_jobs_that_are_not_ready(bench: Bench) -> None:
    bench.submit(run_at=T + 1_000)
    bench.broker.pause("q")
    bench.broker.remove_queues(("q",), T)
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
    assert queue_counts(bench.broker) == []
    bench.write()
    assert (bench.disk.rows, bench.disk.settings, bench.disk.schedules) == ({}, {}, {})
    assert bench.broker.totals.pushed == 0
    bench.broker.tick(T + 10_000)
    assert not bench.broker.jobs
    assert bench.submit(key="u").id > 20, "ids are never used twice"
    assert bench.submit("elsewhere").holder == other.holder
    bench.write()


def test_a_flush_and_what_follows_it_may_be_one_group(small: Bench) -> None:
    small.submit_many(9)
    small.write()
    small.broker.flush(T)
    jobs = small.submit_many(9)
    small.write()
    assert sorted(small.disk.rows) == ids(jobs)


# -- single jobs ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["cancel", "kill", "retry"])
def test_a_job_that_has_ended_cannot_be_steered(bench: Bench, verb: str) -> None:
    worker = bench.worker()
    done, discarded = bench.submit(), bench.submit(bury=False)
    bench.broker.finish(bench.take(worker), worker.holder, b"", T)
    bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    bench.write()
    for job in (done, discarded):
        with pytest.raises(NotFound):
            getattr(bench.broker, verb)(job, T)
    assert not bench.broker.has_changes()


def test_a_killed_job_is_dead_whatever_its_policy_and_can_be_retried(small: Bench) -> None:
    jobs = small.submit_many(6, bury=False)
    small.write()
    for visitor in small.recall(ids=(jobs[0].id, jobs[5].id)):
        small.broker.kill(visitor, T)
    small.write()
    assert (small.count().dead, small.count().ready) == (2, 4)
    dead = small.recall(states=(State.DEAD,))
    assert ids(dead) == [jobs[0].id, jobs[5].id]
    for visitor in dead:
        small.broker.retry(visitor, T)
    small.write()
    assert (small.count().dead, small.count().ready) == (0, 6)
    assert ids(small.take_all())[-2:] == [jobs[0].id, jobs[5].id]


def test_a_recall_finds_the_job_in_memory_and_not_its_row(bench: Bench) -> None:
    job = bench.submit(name="n")
    bench.write()
    assert bench.recall(names=("n",)) == [job]
    assert bench.recall(names=("n",), states=(State.WAITING,)) == []


def test_recalls_are_answered_one_group_after_the_other(small: Bench) -> None:
    jobs = small.submit_many(6)
    small.write()
    first = small.recall(ids=(jobs[5].id,))
    small.broker.cancel(first[0], T)
    assert small.recall(ids=(jobs[5].id,)) == []


# -- the dead -------------------------------------------------------------------------------


def test_too_many_dead_jobs_go_the_longest_dead_first() -> None:
    bench = Bench(dead_jobs=3)
    jobs = bench.submit_many(5)
    for number, job in enumerate(reversed(jobs)):
        bench.broker.kill(job, T + number)
    bench.write()
    bench.broker.tick(T + 10)
    bench.write()
    assert (bench.count().dead, sorted(bench.disk.rows)) == (3, [1, 2, 3])


def test_old_dead_jobs_go() -> None:
    bench = Bench(dead_ms=DAY)
    for number in range(3):
        bench.broker.kill(bench.submit(), T + number * DAY)
    bench.write()
    bench.broker.tick(T + int(2.5 * DAY))
    bench.write(T + int(2.5 * DAY))
    assert (sorted(bench.disk.rows), bench.count().dead) == ([3], 1)


@pytest.mark.parametrize("crashes", [False, True])
def test_dead_jobs_that_are_kept_stay_however_many_and_old_they_are(crashes: bool) -> None:
    bench = Bench(dead_jobs=2, dead_ms=DAY)
    for job in bench.submit_many(600, keep_dead=True) + bench.submit_many(3):
        bench.broker.kill(job, T)
    bench.write()
    if crashes:
        bench.crash()
    for at in (T + 10, T + 2 * DAY):
        bench.broker.tick(at)
        bench.write(at)
        assert bench.count().dead == (602 if at == T + 10 else 600)
    job = bench.recall(ids=(5,))[0]
    bench.broker.retry(job, T)
    assert (job.run_at, bench.broker.backlog.kept_dead) == (T, 599)
    bench.write()


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


def test_the_counts_are_always_those_of_a_recount(small: Bench) -> None:
    worker = small.worker()
    small.submit_many(9, max_failures=1, delay_ms=1_000)
    small.submit_many(9, run_at=T + 5_000)
    small.broker.fail(small.take(worker), worker.holder, Failure(), T)
    small.take(worker)
    small.write()
    small.broker.kill(small.recall(ids=(9,))[0], T)
    small.write()
    count = small.count()
    rows = small.disk.rows.values()
    recount = {state: sum(row.state is state for row in rows) for state in State}
    assert (count.scheduled, count.retrying, recount[State.WAITING]) == (9, 1, 10)
    assert (count.ready, count.leased, count.dead) == (6, 1, 1)
    assert [recount[s] for s in (State.READY, State.LEASED, State.DEAD)] == [6, 1, 1]
