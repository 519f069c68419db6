"""The server dies or is told to stop, and the real EventMQ peers lose nothing by it."""

from __future__ import annotations

import time

from tests.real.emq import JOBS, EmqStage, not_the_original

BUFFERED = 50
BACK_WITHIN_S = 20.0
"""The job manager itself notices after three times five seconds without a word."""


@not_the_original
def test_jobs_that_waited_when_the_server_was_killed_are_run_once_each(emq: EmqStage) -> None:
    broker = emq.broker()
    client = emq.client(broker)
    client.do("defer_many", func=f"{JOBS}.echo", arguments=[[n] for n in range(BUFFERED)])
    client.until_waiting(default=BUFFERED)
    broker.kill9()
    broker.start()

    client.until_waiting(default=BUFFERED)
    manager = emq.job_manager(broker, jobs=4)
    assert sorted(manager.ran(BUFFERED)) == [[n] for n in range(BUFFERED)]
    client.until_waiting()
    client.defer("echo", "last")
    assert manager.ran_before("last") == []


@not_the_original
def test_a_job_manager_comes_back_and_what_it_ran_and_what_waited_ends(emq: EmqStage) -> None:
    broker = emq.broker()
    manager = emq.job_manager(broker)
    client = emq.client(broker)
    go = emq.folder / "go"
    client.defer("wait", "under way", str(go))
    manager.said("started")
    client.defer("echo", "behind it")
    client.until_waiting(default=1)
    broker.kill9()
    broker.start()
    began = time.monotonic()

    client.until_workers(1)
    assert time.monotonic() - began < BACK_WITHIN_S
    go.touch()
    ran = manager.ran_before("behind it")
    assert ran[0] == ["under way"]
    client.until_slots(1)
    client.defer("echo", "last")
    ran += manager.ran_before("last")
    assert ran == [["under way"]]
    client.until_waiting()


@not_the_original
def test_a_graceful_stop_leaves_a_running_job_to_its_manager(emq: EmqStage) -> None:
    broker = emq.broker()
    manager = emq.job_manager(broker)
    client = emq.client(broker)
    go = emq.folder / "go"
    client.defer("wait", "under way", str(go))
    manager.said("started")
    client.defer("echo", "behind it")
    client.until_waiting(default=1)
    assert broker.terminate() == 0
    broker.start()

    client.until_workers(1)
    go.touch()
    assert manager.ran_before("behind it") == [["under way"]]
