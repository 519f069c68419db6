"""What jobs cost in memory is bounded by bytes, however large they are and however many queues there are."""

import pytest

from tests.cases.conftest import peak_mb
from tests.support.faktory import Faktory, ack_line, job, job_in
from tests.support.server import Server

MOST_MB = 400
BODY = "x" * (4 << 20)
LARGE_JOBS = 150


def push_large(client: Faktory, count: int) -> None:
    for number in range(count):
        client.push(job(f"large-job-{number}", BODY))


@pytest.mark.long
@pytest.mark.case(8)
def test_one_fetch_does_not_bring_all_large_jobs_into_memory(server: Server) -> None:
    with Faktory(server.port, timeout=60) as client:
        client.hello(wid="worker-number-1")
        push_large(client, LARGE_JOBS)
        assert client.fetch() is not None
        client.ack("large-job-0")
        assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB after one FETCH"
    server.restart(timeout=60)
    with Faktory(server.port, timeout=60) as client:
        client.hello(wid="worker-number-2")
        found = client.fetch() or {}
        assert found["args"] == [BODY]
        assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB after a restart"


@pytest.mark.long
@pytest.mark.case(8)
def test_large_jobs_that_run_or_wait_do_not_stay_in_memory(server: Server) -> None:
    with Faktory(server.port, timeout=60) as client:
        client.hello(wid="worker-number-1")
        push_large(client, LARGE_JOBS)
        taken = [client.fetch() for _ in range(LARGE_JOBS)]
        assert all(found is not None and found["args"] == [BODY] for found in taken)
        assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB while all of them run"
        client.fail("large-job-7")
    server.restart(timeout=60)
    with Faktory(server.port, timeout=60) as client:
        client.hello(wid="worker-number-1")
        client.push(job("another-job", "small"))
        client.ack("large-job-0")
        assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB after a restart"


@pytest.mark.long
@pytest.mark.case(8)
def test_large_jobs_of_many_queues_share_one_budget(server: Server) -> None:
    with Faktory(server.port, timeout=60) as client:
        client.hello(wid="worker-number-1")
        for number in range(LARGE_JOBS):
            client.push(job(f"large-job-{number}", BODY, queue=f"queue-{number}"))
        peak = peak_mb(server)
        assert peak < MOST_MB, f"{peak} MB for {LARGE_JOBS} jobs in as many queues"
        for number in range(LARGE_JOBS):
            found = client.fetch(f"queue-{number}") or {}
            assert found["args"] == [BODY]
            client.ack(found["jid"])


@pytest.mark.long
@pytest.mark.case(12)
def test_queues_that_come_and_go_are_forgotten(server: Server) -> None:
    names, at_once = 40_000, 500
    with Faktory(server.port, timeout=60) as client:
        client.hello()
        for first in range(0, names, at_once):
            queues = [
                f"some-queue-with-a-name-{number}" for number in range(first, first + at_once)
            ]
            client.push_many(job(f"job-in-{queue}", queue=queue) for queue in queues)
            client.say(*(f"FETCH {queue}" for queue in queues))
            taken = [job_in(client.read()) for _ in queues]
            client.say(*(ack_line(found["jid"]) for found in taken if found is not None))
            assert all(client.read().text == "OK" for found in taken if found is not None)
            assert None not in taken
        listed = len(client.info()["faktory"]["queues"])
    assert listed < names * 3 // 4, f"{listed} of {names} empty queues are still listed"
