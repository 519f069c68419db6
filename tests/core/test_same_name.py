"""Jobs that go by one name: the right one is found, and the others are not looked at."""

from time import process_time
from typing import cast

from msgspec.structs import replace

from franca.core.index import LAST_LOOKED_AT, LOOKED_AT, SameName
from franca.core.model import Failure, JobQuery, OnHangUp, Shelf, State
from franca.core.wants import Recall, Recaller
from tests.core.kit import MINUTE, Bench, T, ids

MANY = 3 * LOOKED_AT


def test_each_holder_finds_the_job_that_it_runs(bench: Bench) -> None:
    jobs = bench.submit_many(3, name="n")
    workers = [bench.worker() for _ in jobs]
    taken = [bench.take(worker) for worker in workers]
    assert taken == jobs
    for worker, job in zip(workers, jobs, strict=True):
        assert list(bench.broker.held_as("n", worker.holder)) == [job]
    bench.broker.finish(jobs[1], workers[1].holder, b"", T)
    assert list(bench.broker.held_as("n", workers[1].holder)) == []
    assert list(bench.broker.running_as("n")) == [jobs[0], jobs[2]]


def test_what_ran_and_will_run_again_is_found_until_it_does(bench: Bench) -> None:
    first, second = bench.submit_many(2, name="n", max_failures=3)
    worker = bench.worker(takes=1)
    assert list(bench.broker.returned_as("n")) == []
    bench.broker.fail(first, worker.holder, Failure(), T)
    assert list(bench.broker.returned_as("n")) == [first]
    bench.broker.tick(T + 10 * MINUTE)
    assert [bench.take(worker), bench.take(worker)] == [second, first]
    assert list(bench.broker.returned_as("n")) == []


def test_the_last_of_a_name_is_found_as_any_other_job(bench: Bench) -> None:
    first, second = bench.submit_many(2, name="n", max_failures=3)
    worker = bench.worker(takes=1)
    bench.broker.fail(first, worker.holder, Failure(), T)
    bench.broker.cancel(second, T)
    assert bench.broker.sole("n") is first
    assert list(bench.broker.returned_as("n")) == [first]
    assert (list(bench.broker.running_as("n")), bench.broker.index.same_names) == ([], {})


def test_a_restart_knows_who_runs_which(bench: Bench) -> None:
    bench.submit_many(3, name="n", lease_ms=MINUTE)
    keeps, returns = bench.worker(on_hang_up=OnHangUp.KEEP), bench.worker()
    first, second = bench.take(keeps), bench.take(returns)
    bench.restart()
    assert [job.id for job in bench.broker.held_as("n", keeps.holder)] == [first.id]
    assert [job.id for job in bench.broker.running_as("n")] == [first.id]
    assert [job.id for job in bench.broker.returned_as("n")] == [second.id]


def test_however_many_there_are_few_are_looked_at(bench: Bench) -> None:
    jobs = bench.submit_many(MANY, name="n")
    assert list(bench.broker.last_named("n")) == jobs[: -LAST_LOOKED_AT - 1 : -1]
    assert list(bench.broker.first_named("n")) == jobs[:LOOKED_AT]
    worker = bench.worker()
    for _ in jobs:
        bench.take(worker)
    assert len(list(bench.broker.running_as("n"))) == LOOKED_AT
    for job in jobs:
        bench.broker.give_back(job, worker.holder, T)
    assert not list(bench.broker.running_as("n"))


def test_the_oldest_of_very_many_is_found_without_looking_at_those_that_are_gone() -> None:
    job = Bench().submit(name="n")
    jobs = [replace(job, id=number, holder="w", state=State.LEASED) for number in range(200_000)]
    namesakes = SameName(*jobs)
    began = process_time()
    for job in jobs:
        assert next(namesakes.held_by("w")) is job
        namesakes.discard(job)
    assert process_time() - began < 2


def test_a_flush_leaves_no_names(bench: Bench) -> None:
    bench.submit_many(3, name="n")
    bench.broker.flush(T)
    assert (list(bench.broker.index.all_named("n")), bench.broker.index.same_names) == ([], {})


def test_many_of_one_name_are_recalled_a_page_at_a_time_wherever_they_lie() -> None:
    bench = Bench(window_jobs=40, supply_jobs=10)
    jobs = bench.submit_many(100, name="n")
    away = [bench.submit(name="n", run_at=T + 9_000) for _ in range(50)]
    bench.write()
    for states, wanted in (((State.READY,), jobs), ((State.WAITING,), away), ((), jobs + away)):
        pages = [recalled(bench, states, 0)]
        while pages[-1]:
            pages.append(recalled(bench, states, pages[-1][-1]))
        assert max(map(len, pages)) <= 7
        assert [job_id for page in pages for job_id in page] == ids(wanted)


def recalled(bench: Bench, states: tuple[State, ...], after: int) -> list[int]:
    """A page as it is handed to whoever asked."""
    query = JobQuery(states=states, names=("n",), after=after, limit=7)
    while True:
        found = bench.disk.find(replace(query, limit=999))
        rows = [job for job in found if job.shelf is Shelf.BACKLOG][: query.limit]
        page = bench.broker.page_of(Recall(query, cast(Recaller, None)), rows)
        if page is not None:
            return ids(page)
        [want] = bench.broker.take_wants()
        assert isinstance(want, Recall)
        query = want.query
