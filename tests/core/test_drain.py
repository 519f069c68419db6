"""What the store is told: everything that changed, once, and nothing that came to nothing."""

from franca.core.changes import Changes
from franca.core.events import Finished
from franca.core.model import HISTORY_RESULT_BYTES, Failure, OnConflict, Policy, Shelf, State
from franca.core.weights import ATTEMPT_BYTES
from tests.core.kit import Bench, T, ids


def told(changes: Changes) -> dict[str, list[int]]:
    """The jobs of each list that is not empty."""
    names = ("added", "updated", "moved", "gone_from_memory", "gone_from_backlog")
    return {name: ids(jobs) for name in names if (jobs := getattr(changes, name))}


def test_the_next_job_has_the_id_that_was_foretold(bench: Bench) -> None:
    bench.submit_many(3)
    foretold = bench.broker.next_id()
    assert bench.submit().id == foretold


def test_a_job_that_came_and_went_between_two_drains_costs_nothing(bench: Bench) -> None:
    worker = bench.worker()
    job = bench.submit()
    bench.broker.finish(bench.take(worker), worker.holder, b"", T)
    changes = bench.broker.drain()
    assert (told(changes), changes.ended) == ({}, [job])
    assert not bench.broker.has_changes()


def test_volatile_jobs_are_never_told(bench: Bench) -> None:
    bench.submit()
    bench.broker.drain()
    bench.submit_many(5, durable=False)
    worker = bench.worker(takes=4)
    bench.broker.drain()
    bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    assert not bench.broker.has_changes()


def test_what_changed_often_is_told_once_as_it_is_now(bench: Bench) -> None:
    job, worker = bench.run()
    bench.broker.give_back(job, worker.holder, T)
    bench.take(worker)
    assert told(bench.broker.drain()) == {"added": [job.id]}
    bench.broker.extend(job, worker.holder, T)
    assert not bench.broker.has_changes()
    bench.broker.release(job, worker.holder, T + 1, T)
    assert told(bench.broker.drain()) == {"updated": [job.id]}
    bench.broker.cancel(job, T)
    assert told(bench.broker.drain()) == {"gone_from_memory": [job.id]}


def test_jobs_move_between_the_shelves(small: Bench) -> None:
    small.submit_many(4)
    small.write()
    urgent = small.submit(priority=-1)
    changes = small.broker.drain()
    assert told(changes) == {"added": [urgent.id], "moved": [4]}
    assert changes.moved[0].shelf is Shelf.BACKLOG
    small.disk.write(changes, [])
    worker = small.worker(takes=2)
    small.write()
    supplied = small.broker.jobs[4]
    assert supplied.shelf == Shelf.BACKLOG
    for _ in range(3):
        small.take(worker)
    changes = small.broker.drain()
    assert 4 in told(changes)["moved"]
    assert changes.moved[-1].shelf is Shelf.HELD


def test_a_new_job_that_goes_straight_into_the_tail_is_added_there(small: Bench) -> None:
    small.submit_many(6)
    changes = small.broker.drain()
    assert [job.shelf for job in changes.added] == [Shelf.HELD] * 4 + [Shelf.BACKLOG] * 2


def test_the_dead_lie_in_the_tail_and_the_discarded_nowhere(bench: Bench) -> None:
    kept, discarded = bench.submit(), bench.submit(bury=False)
    bench.write()
    worker = bench.worker()
    for _ in range(2):
        bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    changes = bench.broker.drain()
    assert told(changes) == {"moved": [kept.id], "gone_from_memory": [discarded.id]}
    assert (kept.shelf, kept.state) == (Shelf.BACKLOG, State.DEAD)


def test_a_job_of_the_tail_that_ends_unseen_is_told_by_its_id(small: Bench) -> None:
    for number in range(6):
        small.submit(key=f"u{number}")
    small.write()
    small.submit(key="u5", on_conflict=OnConflict.REPLACE)
    assert told(small.broker.drain()) == {"added": [7], "gone_from_backlog": [6]}


def test_bytes_on_their_way_are_counted_until_they_are_drained(bench: Bench) -> None:
    bench.submit(body=b"x" * 100)
    bench.submit(body=b"x" * 50)
    bench.submit(body=b"x" * 7, durable=False)  # waits for no disk
    assert bench.broker.pending_bytes == 150
    bench.broker.drain()
    assert bench.broker.pending_bytes == 0


def test_results_and_failures_on_their_way_are_counted_too(bench: Bench) -> None:
    worker = bench.worker()
    done, brief, failed = bench.submit_many(3, max_failures=1)
    bench.broker.drain()
    for job in (done, brief, failed):
        assert bench.take(worker) is job
    bench.broker.finish(done, worker.holder, b"r" * 100_000, T)
    assert bench.broker.pending_bytes == len(done.result) == HISTORY_RESULT_BYTES
    bench.broker.finish(brief, worker.holder, b"r" * 100, T)
    assert bench.broker.pending_bytes == HISTORY_RESULT_BYTES, "few bytes are counted as a job"
    bench.broker.fail(failed, worker.holder, Failure("E", "t" * 1_000), T)
    assert bench.broker.pending_bytes == HISTORY_RESULT_BYTES + ATTEMPT_BYTES + 1_000
    bench.broker.drain()
    assert bench.broker.pending_bytes == 0


def test_whoever_waits_for_a_result_is_told_all_of_it(bench: Bench) -> None:
    worker, client = bench.worker(), bench.worker()
    job = bench.submit(watcher=client)
    assert bench.take(worker) is job
    bench.broker.finish(job, worker.holder, b"r" * 100_000, T)
    [finished] = [event for _, event in bench.events() if isinstance(event, Finished)]
    assert finished.result == b"r" * 100_000


def test_failed_runs_and_deaths_are_told_once(bench: Bench) -> None:
    worker = bench.worker()
    bench.submit(policy=Policy(max_failures=1))
    bench.submit(policy=Policy(durable=False))
    for now in (T, T + 1):
        bench.broker.fail(bench.take(worker), worker.holder, Failure("E", "x"), now)
    changes = bench.broker.drain()
    assert (changes.failed, changes.died) == ([("q", "k", T)], [])
    bench.broker.kill(bench.broker.jobs[1], T + 2)
    changes = bench.broker.drain()
    assert (changes.failed, changes.died) == ([], [("q", "k", T + 2)])
    assert bench.broker.drain().died == []


def test_a_job_that_is_given_up_and_not_kept_is_a_failed_run_and_no_death(bench: Bench) -> None:
    worker = bench.worker()
    bench.submit(policy=Policy(max_failures=0, bury=False))
    bench.broker.fail(bench.take(worker), worker.holder, Failure("E", "x"), T)
    changes = bench.broker.drain()
    assert (changes.failed, changes.died) == ([("q", "k", T)], [])
    assert bench.broker.jobs == {}


def test_totals_go_with_every_group(bench: Bench) -> None:
    bench.submit()
    worker = bench.worker()
    bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
    totals = bench.broker.drain().totals
    assert (totals.pushed, totals.processed, totals.failures) == (1, 1, 1)
    assert (totals.last_job_id, totals.last_place) == (1, 1)
