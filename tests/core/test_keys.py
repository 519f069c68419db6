"""Keys and names: one live job to a key, and a push said twice is one job."""

from typing import Any

import pytest

from franca.core.errors import NotUnique, StoreFull, TooMuch
from franca.core.model import Failure, OnConflict, State
from tests.core.kit import SMALL, Bench, T, ids

JOIN, REPLACE, REFUSE = OnConflict.JOIN, OnConflict.REPLACE, OnConflict.REFUSE
LATER = T + 1_000


def full_of(bench: Bench, count: int, **fields: Any) -> None:
    for number in range(count):
        bench.submit(**{"key": f"u{number}", "name": f"n{number}", "digest": number, **fields})


# -- keys -----------------------------------------------------------------------------------


def test_joining_is_the_job_that_is_there(bench: Bench) -> None:
    first = bench.submit(key="u")
    assert bench.submit(key="u") is first
    assert bench.submit("other", key="u") is not first, "a key belongs to its queue"
    assert bench.submit(key="") is not bench.submit(key="")
    assert bench.broker.totals.pushed == 4


def test_a_durable_submit_makes_the_job_it_joins_durable(bench: Bench) -> None:
    client = bench.worker()
    job = bench.submit(key="u", durable=False, dies_unwatched=True, watcher=client)
    assert bench.submit(key="u") is job
    bench.write()
    bench.broker.close_session(client, T)
    assert job.state is State.READY
    bench.write()
    assert job.id in bench.disk.rows


def test_refusing_changes_nothing(bench: Bench) -> None:
    job = bench.submit(key="u")
    bench.write()
    with pytest.raises(NotUnique):
        bench.submit(key="u", on_conflict=REFUSE)
    assert not bench.broker.has_changes()
    assert (bench.broker.totals.pushed, ids(bench.take_all())) == (1, [job.id])


@pytest.mark.parametrize("run_at", [0, LATER])
def test_replacing_ends_the_job_that_is_there(bench: Bench, run_at: int) -> None:
    old, new = bench.submit(key="u", run_at=run_at), bench.submit(key="u", on_conflict=REPLACE)
    assert (old.state, new.state) == (State.CANCELLED, State.READY)
    bench.write()
    assert list(bench.disk.rows) == [new.id]
    bench.broker.tick(LATER)
    assert bench.count().ready == 1


def test_a_key_is_free_again_when_its_job_has_ended(bench: Bench) -> None:
    first, worker = bench.run(key="u")
    assert bench.submit(key="u") is first
    bench.broker.fail(first, worker.holder, Failure(), T)
    assert bench.submit(key="u") is not first


@pytest.mark.parametrize("run_at", [0, LATER])
@pytest.mark.parametrize("written", [True, False])
def test_keys_hold_for_jobs_in_the_tail(run_at: int, written: bool) -> None:
    bench = Bench(**SMALL)
    full_of(bench, 12, run_at=run_at)
    if written:
        bench.write()
    count = bench.count()
    joined = bench.submit(key="u11")
    assert (joined.id, joined.name) == (12, "n11")
    with pytest.raises(NotUnique):
        bench.submit(key="u10", on_conflict=REFUSE)
    assert bench.count() == count
    new = bench.submit(key="u11", on_conflict=REPLACE, run_at=run_at)
    assert new.id != joined.id
    assert bench.count() == count
    bench.write()
    assert joined.id not in bench.disk.rows
    bench.ripen(LATER)
    assert sorted(ids(bench.take_all(now=LATER))) == [*range(1, 12), new.id]


def test_a_failed_job_in_the_tail_is_counted_right_when_it_is_replaced(small: Bench) -> None:
    full_of(small, 12, max_failures=5, delay_ms=1_000)
    worker = small.worker()
    for _ in range(12):
        small.broker.fail(small.take(worker), worker.holder, Failure(), T)
        small.write()
    assert (small.count().retrying, small.count().scheduled) == (12, 0)
    away = next(n for n in range(12) if n + 1 not in small.broker.jobs)
    joined = small.submit(key=f"u{away}")
    assert joined.name == f"n{away}", "its name is known though it ran before"
    small.submit(key=f"u{away}", on_conflict=REPLACE)
    assert (small.count().retrying, small.count().scheduled) == (11, 0)
    small.write()


def test_a_dead_job_is_not_retried_into_a_taken_key(bench: Bench) -> None:
    dead = bench.submit(key="u")
    bench.broker.kill(dead, T)
    bench.write()
    bench.submit(key="u")
    (visitor,) = bench.recall(states=(State.DEAD,))
    with pytest.raises(NotUnique):
        bench.broker.retry(visitor, T)
    assert (visitor.state, bench.count().dead, bench.count().ready) == (State.DEAD, 1, 1)
    bench.take_all()
    bench.broker.retry(visitor, T)
    assert bench.count().ready == 1
    assert bench.submit(key="u") is visitor


def test_keys_hold_over_a_restart(small: Bench) -> None:
    full_of(small, 12)
    small.restart()
    assert [small.submit(key=f"u{n}").id for n in range(12)] == list(range(1, 13))
    small.write()
    assert len(small.take_all()) == 12


def test_a_key_is_asked_for_wherever_its_job_lies(small: Bench) -> None:
    jobs = [small.submit(key=f"k{number}") for number in range(6)]
    small.write()
    for number, job in enumerate(jobs):
        found = small.broker.keyed("q", f"k{number}")
        assert found is not None
        assert found.id == job.id
    assert small.broker.keyed("other", "k0") is None


def test_jobs_that_only_memory_has_are_refused_when_there_are_too_many() -> None:
    bench = Bench(fleeting_bytes=3 * 1_100)
    client = bench.worker()
    jobs = [bench.submit(durable=False, body=b"x" * 76, watcher=client) for _ in range(3)]
    with pytest.raises(TooMuch):
        bench.submit(durable=False, watcher=client)
    bench.submit()
    bench.broker.cancel(jobs[0], T)
    bench.submit(durable=False, key="k")
    with pytest.raises(TooMuch):
        bench.submit(durable=False)
    bench.submit(key="k")
    bench.submit(durable=False)
    bench.broker.flush(T)
    assert bench.broker.volatile.bytes == 0


def test_a_full_disk_refuses_new_durable_jobs_and_nothing_else(bench: Bench) -> None:
    job = bench.submit(key="u")
    bench.write()
    bench.broker.refusing_new = True
    for key, on_conflict in (("", JOIN), ("u", REPLACE)):
        with pytest.raises(StoreFull):
            bench.submit(key=key, on_conflict=on_conflict)
    assert not bench.broker.has_changes()
    assert bench.submit(key="u") is job
    assert bench.submit(durable=False).state is State.READY
    worker = bench.worker()
    bench.broker.finish(bench.take(worker), worker.holder, b"", T)


# -- names, and a push whose answer was lost ------------------------------------------------


@pytest.mark.parametrize("run_at", [0, LATER])
def test_a_push_said_again_is_the_same_job_while_it_waits(run_at: int) -> None:
    bench = Bench(**SMALL)
    full_of(bench, 12, once=True, key="", run_at=run_at)
    for _ in range(2):
        again = [
            bench.submit(name=f"n{n}", digest=n, once=True, run_at=run_at).id for n in range(12)
        ]
        assert again == list(range(1, 13))
        bench.write()
    assert bench.broker.totals.pushed == 12


@pytest.mark.parametrize(
    "other", [{"queue": "other"}, {"kind": "other"}, {"digest": 9}, {"run_at": LATER}]
)
def test_a_push_that_differs_at_all_is_another_job(bench: Bench, other: dict[str, Any]) -> None:
    said: dict[str, Any] = {"name": "n", "digest": 1, "once": True}
    first, second = bench.submit(**said), bench.submit(**(said | other))
    assert second.id != first.id
    assert list(bench.broker.index.all_named("n")) == [first, second]


def test_a_job_that_ran_once_is_not_the_one_that_is_pushed_now(bench: Bench) -> None:
    first, worker = bench.run(name="n", once=True, max_failures=1)
    second = bench.submit(name="n", once=True)
    assert second is not first
    bench.broker.fail(first, worker.holder, Failure(), T)
    bench.take(worker)
    assert bench.submit(name="n", once=True) not in (first, second)


def test_a_dead_job_swallows_no_push_not_even_after_a_restart(bench: Bench) -> None:
    dead = bench.submit(name="n", once=True)
    bench.broker.kill(dead, T)
    bench.restart()
    assert bench.submit(name="n", once=True).id != dead.id


def test_only_the_last_names_of_the_tail_are_remembered() -> None:
    bench = Bench(**SMALL, recent_names=3)
    full_of(bench, 12, once=True, key="")
    assert bench.submit(name="n11", digest=11, once=True).id == 12
    assert bench.submit(name="n5", digest=5, once=True).id == 13


def test_the_list_of_a_name_may_be_acted_on_while_it_is_read(bench: Bench) -> None:
    bench.submit_many(3, name="n")
    for job in list(bench.broker.index.all_named("n")):
        bench.broker.cancel(job, T)
    assert (list(bench.broker.index.all_named("n")), bench.broker.jobs) == ([], {})
