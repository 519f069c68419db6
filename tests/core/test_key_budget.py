"""What is remembered of unique jobs is bounded, and a purge does not look at those of others."""

from __future__ import annotations

import pytest

from franca.core.errors import TooMuch
from franca.core.events import Finished
from franca.core.keys import KEY_BYTES
from franca.core.model import Job, State
from franca.core.ready import queue_bytes
from tests.core.kit import SMALL, Bench, T


def test_beyond_the_budget_more_unique_jobs_are_refused() -> None:
    bench = Bench(keyed_bytes=3 * KEY_BYTES)
    jobs = [bench.submit(key=f"k{n}") for n in range(3)]
    with pytest.raises(TooMuch):
        bench.submit(key="k3")
    assert bench.broker.totals.pushed == 3
    assert bench.submit(key="k1") is jobs[1]
    bench.submit()
    bench.broker.cancel(jobs[0], T)
    bench.submit(key="k3")


def test_a_key_counts_once_wherever_its_job_is() -> None:
    bench = Bench(**SMALL)
    for number in range(12):
        bench.submit(key=f"k{number}", name="name")
        bench.write()
    taken = bench.broker.keys.bytes
    assert taken == 12 * (KEY_BYTES + 4) + len("".join(f"k{n}" for n in range(12)))
    bench.crash()
    assert bench.broker.keys.bytes == taken
    assert len(bench.take_all()) == 12
    assert bench.broker.keys.bytes == 0


def test_a_purge_forgets_the_keys_of_its_queues_alone() -> None:
    bench = Bench(**SMALL)
    for queue in ("a", "b", "c"):
        for number in range(12):
            bench.submit(queue, key=f"k{number}")
            bench.write()
    later = bench.submit("a", key="later", run_at=T + 1_000_000)
    assert bench.broker.purge_queues(("a", "b", "none"), T) == 24
    assert bench.broker.keyed("a", "k11") is bench.broker.keyed("b", "k0") is None
    assert bench.broker.keyed("a", "later") is later
    assert bench.broker.keyed("c", "k11") is not None
    bench.write()
    assert len(bench.take_all("a", "b", "c")) == 12


def test_who_joined_a_job_of_the_tail_hears_that_it_was_purged() -> None:
    bench = Bench(**SMALL)
    for number in range(12):
        bench.submit(key=f"k{number}")
        bench.write()
    client = bench.worker()
    job = bench.submit(key="k11", watcher=client)
    bench.broker.remove_queues(("q",), T)
    bench.broker.tick(T)
    [event] = [event for session, event in bench.broker.events if session is client]
    assert isinstance(event, Finished)
    assert (event.job.id, event.state) == (job.id, State.CANCELLED)


def test_queues_beyond_a_quarter_of_theirs_share_the_room_of_keys() -> None:
    size = queue_bytes("a")
    bench = Bench(queues_bytes=4 * size, keyed_bytes=3 * size)
    bench.submit("a")
    bench.submit("b")
    bench.broker.tick(T)
    jobs: list[Job] = []
    with pytest.raises(TooMuch):
        while True:
            jobs.append(bench.submit("a", key=f"k{len(jobs)}"))
    assert 0 <= bench.broker.keys.bytes - 2 * size <= 2 * KEY_BYTES
    bench.broker.tick(T)
    with pytest.raises(TooMuch):
        bench.submit("c")
    for job in jobs:
        bench.broker.cancel(job, T)
    bench.broker.tick(T)
    bench.submit("c")
    bench.submit("d")
