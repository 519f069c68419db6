"""The server dies or is told to stop, and the real EventMQ peers lose nothing by it."""

import signal
import time

from tests.real.emq import JOBS, NOTICES_SOON, Broker, Client, EmqPeers, Franca, not_the_original

BUFFERED = 50
BACK_WITHIN_S = 10.0
"""A job manager notices after three of its timeouts without a word; here these are two seconds."""


@not_the_original
def test_jobs_that_waited_when_the_server_was_killed_are_run_once_each(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    client.do("defer_many", func=f"{JOBS}.echo", arguments=[[n] for n in range(BUFFERED)])
    client.until_waiting(default=BUFFERED)
    broker.kill9()
    client.defer("echo", BUFFERED)  # its socket keeps it
    broker.start()

    client.until_waiting(default=BUFFERED + 1)
    manager = emq.job_manager(broker, jobs=4)
    assert sorted(manager.ran(BUFFERED + 1)) == [[n] for n in range(BUFFERED + 1)]
    client.until_waiting()
    client.defer("echo", "last")
    assert manager.ran_before("last") == []


@not_the_original
def test_a_job_manager_comes_back_and_what_ran_meanwhile_counts(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, settings=NOTICES_SOON)
    go = emq.folder / "go"
    client.defer("wait", "under way", str(go))
    manager.said("started")
    client.defer("echo", "behind it")
    client.until_waiting(default=1)
    broker.kill9()
    broker.start()
    began = time.monotonic()

    go.touch()  # the job ends before the manager has noticed anything
    assert manager.ran(2) == [["under way"], ["behind it"]]
    assert time.monotonic() - began < BACK_WITHIN_S
    client.until_slots(1)
    client.defer("echo", "last")
    assert manager.ran_before("last") == []
    assert manager.has_said("started") == []


@not_the_original
def test_a_graceful_stop_waits_for_what_runs_and_keeps_what_waits(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    assert isinstance(broker, Franca)
    manager = emq.job_manager(broker, settings=NOTICES_SOON)
    go = emq.folder / "go"
    client.defer("wait", "under way", str(go))
    manager.said("started")
    client.defer("echo", "behind it")
    client.until_waiting(default=1)
    broker.process.send_signal(signal.SIGTERM)
    go.touch()
    assert broker.wait(timeout=20) == 0
    broker.start()

    assert manager.ran(2) == [["under way"], ["behind it"]]
    client.until_slots(1)
    client.defer("echo", "last")
    assert manager.ran_before("last") == []
    assert manager.has_said("started") == []
