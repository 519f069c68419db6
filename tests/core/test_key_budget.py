"""What is remembered of unique jobs is bounded, and a purge does not look at those of others."""

import pytest

from franca.core.errors import TooMuch
from franca.core.events import Finished
from franca.core.keys import KEY_BYTES
from franca.core.model import Job, State
from franca.core.queues import queue_bytes
from tests.core.kit import Bench, T


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


def test_a_key_counts_once_wherever_its_job_is(small: Bench) -> None:
    for number in range(12):
        small.submit(key=f"k{number}", name="name")
        small.write()
    taken = small.broker.keys.bytes
    assert taken == 12 * (KEY_BYTES + 4) + len("".join(f"k{n}" for n in range(12)))
    small.crash()
    assert small.broker.keys.bytes == taken
    assert (len(small.take_all()), small.broker.keys.bytes) == (12, 0)


def test_a_purge_forgets_the_keys_of_its_queues_alone(small: Bench) -> None:
    for queue in ("a", "b", "c"):
        for number in range(12):
            small.submit(queue, key=f"k{number}")
            small.write()
    later = small.submit("a", key="later", run_at=T + 1_000_000)
    assert small.broker.purge_queues(("a", "b", "none"), T) == 24
    assert small.broker.keyed("a", "k11") is small.broker.keyed("b", "k0") is None
    assert small.broker.keyed("a", "later") is later
    assert small.broker.keyed("c", "k11") is not None
    small.write()
    assert len(small.take_all("a", "b", "c")) == 12


def test_who_joined_a_job_of_the_tail_hears_that_it_was_purged(small: Bench) -> None:
    for number in range(12):
        small.submit(key=f"k{number}")
        small.write()
    client = small.worker()
    job = small.submit(key="k11", watcher=client)
    small.broker.remove_queues(("q",), T)
    small.broker.tick(T)
    [event] = [event for session, event in small.broker.events if session is client]
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
