"""A broker made from what a disk remembers: as if it had never stopped, as far as promised."""

from __future__ import annotations

import pytest

from franca.core.errors import NotHeld
from franca.core.model import Failure, OnHangUp, State
from tests.core.kit import SMALL, Bench, T, ids

LEASE = 60_000
HOUR = 3_600_000


def test_everything_durable_is_there_again_in_the_same_order() -> None:
    bench = Bench(**SMALL)
    jobs = bench.submit_many(23)
    volatile = bench.submit(durable=False)
    bench.write()
    bench.crash()
    bench.write()
    assert volatile.id not in bench.broker.jobs
    assert ids(bench.take_all()) == ids(jobs)


def test_what_was_not_written_never_was() -> None:
    bench = Bench()
    kept = bench.submit()
    bench.write()
    bench.submit()
    bench.broker.cancel(kept, T)
    bench.crash()
    assert ids(bench.take_all()) == [kept.id]
    assert bench.broker.totals.pushed == 1


@pytest.mark.parametrize(
    ("down_ms", "left_ms"), [(10_000, 50_000), (59_999, 1), (-HOUR, LEASE), (2 * HOUR, 0)]
)
def test_a_lease_goes_on_for_the_time_that_it_has_left(down_ms: int, left_ms: int) -> None:
    # A clock that was turned back meanwhile does not make a lease longer than it ever was.
    bench = Bench()
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


def test_the_holder_of_a_kept_lease_may_speak_after_a_restart() -> None:
    bench = Bench()
    bench.submit(lease_ms=LEASE)
    job = bench.take(bench.worker("holder", OnHangUp.KEEP))
    bench.write()
    bench.crash()
    job = bench.broker.jobs[job.id]
    with pytest.raises(NotHeld):
        bench.broker.finish(job, "another", b"", T)
    bench.broker.finish(job, "holder", b"", T)
    bench.write()
    assert not bench.disk.rows


def test_a_bound_lease_ends_with_the_server_and_its_job_is_first_again() -> None:
    bench = Bench(**SMALL)
    jobs = bench.submit_many(9)
    taken = bench.take(bench.worker())
    bench.write()
    bench.crash()
    assert (bench.count().leased, bench.count().ready) == (0, 9)
    bench.write()
    assert not any(row.bound for row in bench.disk.rows.values())
    assert ids(bench.take_all()) == ids(jobs)
    assert taken.id == jobs[0].id


def test_marks_are_right_after_a_restart_whatever_lay_in_memory() -> None:
    bench = Bench(**SMALL)
    bench.submit_many(4, priority=5)
    worker = bench.worker()
    for _ in range(4):
        bench.take(worker)
    bench.submit_many(9, priority=3)
    bench.submit_many(9, run_at=T + 1_000)
    bench.write()
    bench.crash()
    assert bench.broker.queues["q"].mark is not None
    bench.submit_many(2, priority=4)
    bench.write()
    priorities = [job.priority for job in bench.take_all()]
    assert priorities == [3] * 9 + [4] * 2 + [5] * 4
    bench.ripen(T + 1_000)
    assert len(bench.take_all(now=T + 1_000)) == 9


def test_whoever_was_put_behind_the_others_is_still_behind_them_after_a_restart() -> None:
    """Though the bodies of those that ran are not in memory, so that they begin the tail."""
    bench = Bench()
    jobs = [bench.submit(body=bytes(size)) for size in (1, 3_000, 3_000, 3_000, 1)]
    bench.write()
    bench.broker.retry(jobs[0], T)
    worker = bench.worker()
    for _ in range(3):
        bench.take(worker)
    bench.write()
    bench.crash()
    assert [job.id for job in bench.take_all()] == [2, 3, 4, 5, 1]


def test_counts_are_right_after_a_restart() -> None:
    bench = Bench(**SMALL)
    bench.submit_many(9, failures=1, delay_ms=1_000)
    bench.submit_many(9, run_at=T + 1_000)
    worker = bench.worker(on_hang_up=OnHangUp.KEEP)
    for _ in range(3):
        bench.broker.fail(bench.take(worker), worker.holder, Failure(), T)
        bench.write()
    bench.take(worker)
    bench.broker.kill(bench.take(worker), T)
    bench.write()
    before = (bench.broker.counts(), bench.broker.totals)
    bench.crash()
    assert (bench.broker.counts(), bench.broker.totals) == before
    bench.write()


def test_ids_and_places_go_on_where_they_were() -> None:
    bench = Bench()
    first = bench.submit()
    bench.write()
    bench.crash()
    second = bench.submit()
    assert (second.id, second.place) == (first.id + 1, first.place + 1)


def test_two_crashes_in_a_row_change_nothing() -> None:
    bench = Bench(**SMALL)
    jobs = bench.submit_many(15)
    bench.take(bench.worker())
    bench.write()
    bench.crash()
    bench.crash()
    bench.write()
    assert ids(bench.take_all()) == ids(jobs)
