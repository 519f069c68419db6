"""A broker made from what a disk remembers: as if it had never stopped, as far as promised."""

import pytest

from franca.core.errors import NotHeld
from franca.core.model import Failure, OnHangUp, State
from tests.core.kit import Bench, T, ids
from tests.support.queue_counts import queue_counts

LEASE = 60_000
HOUR = 3_600_000


def test_everything_durable_is_there_again_in_the_same_order(small: Bench) -> None:
    jobs = small.submit_many(23)
    volatile = small.submit(durable=False)
    small.restart()
    small.write()
    assert volatile.id not in small.broker.jobs
    assert ids(small.take_all()) == ids(jobs)


def test_what_was_not_written_never_was(bench: Bench) -> None:
    kept = bench.submit()
    bench.write()
    bench.submit()
    bench.broker.cancel(kept, T)
    bench.crash()
    assert (ids(bench.take_all()), bench.broker.totals.pushed) == ([kept.id], 1)


@pytest.mark.parametrize(
    ("down_ms", "left_ms"), [(10_000, 50_000), (59_999, 1), (-HOUR, LEASE), (2 * HOUR, 0)]
)
def test_a_lease_keeps_the_time_that_it_has_left(bench: Bench, down_ms: int, left_ms: int) -> None:
    # A clock that was turned back meanwhile does not make a lease longer than it ever was.
    job = bench.submit(lease_ms=LEASE)
    bench.take(bench.worker("holder", OnHangUp.KEEP))
    bench.write()
    back = T + down_ms
    bench.crash(back)
    job = bench.broker.jobs[job.id]
    assert (job.state, bench.count().leased) == (State.LEASED, 1)
    if left_ms:
        bench.broker.tick(back + left_ms - 1)
        assert job.state is State.LEASED
    bench.broker.tick(back + left_ms + 1_000)
    assert job.state is State.READY


def test_the_holder_of_a_kept_lease_may_speak_after_a_restart(bench: Bench) -> None:
    bench.submit(lease_ms=LEASE)
    job = bench.take(bench.worker("holder", OnHangUp.KEEP))
    bench.restart()
    job = bench.broker.jobs[job.id]
    with pytest.raises(NotHeld):
        bench.broker.finish(job, "another", b"", T)
    bench.broker.finish(job, "holder", b"", T)
    bench.write()
    assert not bench.disk.rows


def test_a_bound_lease_ends_with_the_server_and_its_job_is_first_again(small: Bench) -> None:
    jobs = small.submit_many(9)
    taken = small.take(small.worker())
    small.restart()
    assert (small.count().leased, small.count().ready) == (0, 9)
    small.write()
    assert not any(row.bound for row in small.disk.rows.values())
    assert ids(small.take_all()) == ids(jobs)
    assert taken.id == jobs[0].id


def test_marks_are_right_after_a_restart_whatever_lay_in_memory(small: Bench) -> None:
    small.submit_many(4, priority=5)
    small.worker(takes=4)
    small.submit_many(9, priority=3)
    small.submit_many(9, run_at=T + 1_000)
    small.restart()
    assert small.broker.queues["q"].mark is not None
    small.submit_many(2, priority=4)
    small.write()
    priorities = [job.priority for job in small.take_all()]
    assert priorities == [3] * 9 + [4] * 2 + [5] * 4
    small.ripen(T + 1_000)
    assert len(small.take_all(now=T + 1_000)) == 9


def test_who_was_put_behind_the_others_is_behind_them_after_a_restart(bench: Bench) -> None:
    """Though the bodies of those that ran are not in memory, so that they begin the tail."""
    jobs = [bench.submit(body=bytes(size)) for size in (1, 3_000, 3_000, 3_000, 1)]
    bench.write()
    bench.broker.retry(jobs[0], T)
    bench.worker(takes=3)
    bench.restart()
    assert [job.id for job in bench.take_all()] == [2, 3, 4, 5, 1]


def test_counts_are_right_after_a_restart(small: Bench) -> None:
    small.submit_many(9, max_failures=1, delay_ms=1_000)
    small.submit_many(9, run_at=T + 1_000)
    worker = small.worker(on_hang_up=OnHangUp.KEEP)
    for _ in range(3):
        small.broker.fail(small.take(worker), worker.holder, Failure(), T)
        small.write()
    small.take(worker)
    small.broker.kill(small.take(worker), T)
    small.write()
    before = (queue_counts(small.broker), small.broker.totals)
    small.crash()
    assert (queue_counts(small.broker), small.broker.totals) == before
    small.write()


def test_ids_and_places_go_on_where_they_were(bench: Bench) -> None:
    first = bench.submit()
    bench.restart()
    second = bench.submit()
    assert (second.id, second.place) == (first.id + 1, first.place + 1)


def test_two_crashes_in_a_row_change_nothing(small: Bench) -> None:
    jobs = small.submit_many(15)
    small.take(small.worker())
    small.restart()
    small.crash()
    small.write()
    assert ids(small.take_all()) == ids(jobs)
