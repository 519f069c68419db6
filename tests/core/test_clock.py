"""T14 and T30: clocks that jump, and fifty thousand jobs that are due in the same second."""

from random import Random

from franca.core.model import Job, OnHangUp, State
from tests.core.kit import Bench, T, state_of
from tests.sim.disk import settle
from tests.support.queue_counts import queue_counts

HOUR = 3_600_000
JUMPS = (HOUR, -HOUR, 24 * HOUR, -24 * HOUR)
LEASE = 30 * 60_000


def test_a_jumping_wall_clock_ends_no_lease_and_lets_no_job_run_early() -> None:
    # `now` counts spans and never goes backwards; the wall is what `run_at` is compared with.
    rng = Random(14)
    bench = Bench()
    broker = bench.broker
    worker = bench.worker(on_hang_up=OnHangUp.KEEP)
    held: dict[int, tuple[Job, int]] = {}
    early = mass_expiry = jumps = delivered = 0
    now = T
    while jumps < 40:
        now += rng.randrange(1_000, 120_000)
        if rng.random() < 0.3:
            broker.wall_ahead_ms += rng.choice(JUMPS)
            jumps += 1
        bench.submit(now=now, lease_ms=LEASE)
        bench.submit("at", now=now, run_at=broker.wall(now) + rng.randrange(1, 2 * HOUR))
        broker.tick(now)
        mass_expiry += sum(
            job.state is not State.LEASED for job, until in held.values() if now < until
        )
        job = bench.take(worker, now=now)
        if job.attempts == 1:
            held[job.id] = (job, now + LEASE)
        for due in bench.take_all("at", now=now):
            delivered += 1
            early += due.run_at > broker.wall(now)
    print(f"T14 clock: early={early} mass_expiry={mass_expiry} jumps={jumps}")
    assert (early, mass_expiry) == (0, 0)
    assert delivered > 20


def test_the_wall_turned_back_delays_and_turned_forward_releases(bench: Bench) -> None:
    job = bench.submit(run_at=T + HOUR)
    bench.broker.wall_ahead_ms = -HOUR
    bench.broker.tick(T + HOUR)
    assert job.state is State.WAITING
    assert bench.broker.next_wake() == T + 2 * HOUR
    bench.broker.wall_ahead_ms = 0
    bench.broker.tick(T + HOUR)
    assert state_of(job) is State.READY


def test_fifty_thousand_jobs_due_in_one_second_come_in_slices_and_all_of_them(bench: Bench) -> None:
    broker = bench.broker
    due, most = 50_000, bench.limits.due_jobs
    for number in range(due):
        bench.submit(f"q{number % 5}", run_at=T + 60_000 + number % 1_000)
    bench.write()
    early = 0
    broker.tick(T + 59_999)
    early += sum(count.ready for count in queue_counts(broker))
    slices, now, last = [], T + 60_000, 0
    while last < due:
        now += 50
        broker.tick(now)
        settle(broker, bench.disk, now)
        ready = sum(count.ready for count in queue_counts(broker))
        early += sum(job.run_at > now for job in broker.jobs.values() if job.state is State.READY)
        slices.append(ready - last)
        last = ready
        assert len(slices) < 200, "they do not come"
    assert max(slices) <= most
    got = sum(len(bench.take_all(f"q{number}", now=now)) for number in range(5))
    print(
        f"T30 herd: due={due} early={early} lost={due - got} slices={len(slices)} largest={max(slices)}"
    )
    assert (early, got) == (0, due)
