"""What an admin sees and does with the real `emq-cli`."""

from tests.real.emq import JOBS, ORIGINAL, Broker, Client, EmqPeers, Franca, not_the_original


def test_the_shell_shows_workers_queues_and_schedulers(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    emq.job_manager(broker, [(10, "default"), (5, "email")], jobs=2)
    if not ORIGINAL:
        emq.scheduler(broker)  # the original's peers has one already
    client.until_slots(2)
    client.until_schedulers(1)

    (status, workers, schedulers), _ = emq.shell(
        broker, "status", "show_workers", "show_schedulers"
    )
    assert status.keys() == {
        "inflight_messages_by_queue", "latency_messages_by_queue", "max_latency_messages_by_queue",
        "waiting_messages_by_queue", "processed_messages_by_queue", "processed_messages_by_worker",
    }  # fmt: skip
    assert workers.keys() == {"connected_workers", "connected_queues"}
    ((identity, worker),) = workers["connected_workers"].items()
    assert worker.keys() == {"queues", "hb", "available_slots"}
    assert worker["queues"] == [[10, "default"], [5, "email"]]
    assert worker["available_slots"] == 2
    assert isinstance(worker["hb"], float)
    assert workers["connected_queues"] == {"default": [[10, identity]], "email": [[5, identity]]}
    assert schedulers.keys() == {"connected_schedulers"}
    (scheduler,) = schedulers["connected_schedulers"].values()
    assert isinstance(scheduler["hb"], float)


def test_of_three_requests_to_two_slots_two_are_answered_and_counted(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, jobs=2)
    client.until_slots(2)
    go = emq.folder / "go"
    arguments = [[n, str(go)] for n in range(3)]
    names = client.do("defer_many", func=f"{JOBS}.wait", arguments=arguments, reply_requested=True)

    answers = client.do("answers", count=2)
    assert [(answer[0], answer[2]) for answer in answers] == [("REPLY", n) for n in names[:2]]
    assert client.do("answers", count=1, within_ms=200) == []
    assert sorted(manager.said("started")["name"] for _ in range(2)) == [0, 1]
    status = client.admin("STATUS")
    assert status["waiting_messages_by_queue"] == {"default": 1}
    assert status["processed_messages_by_queue"] == {"default": 2}
    assert list(status["processed_messages_by_worker"].values()) == [2]
    assert status["inflight_messages_by_queue"] == {"default": 3}, "with the one that waits"
    assert status["latency_messages_by_queue"].keys() == {"default"}
    assert status["max_latency_messages_by_queue"].keys() == {"default"}

    go.touch()
    assert sorted(manager.ran(3)) == [[0], [1], [2]]
    client.until_slots(2)
    status = client.admin("STATUS")
    assert status["inflight_messages_by_queue"] == status["waiting_messages_by_queue"] == {}
    # The original does not count what had to wait.
    assert status["processed_messages_by_queue"] == {"default": 2 if ORIGINAL else 3}


@not_the_original
def test_the_shell_shuts_the_server_down_and_what_waits_is_kept(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    assert isinstance(broker, Franca)
    client.defer("echo", "kept")
    client.until_waiting(default=1)

    _, printed = emq.shell(broker, "shutdown")
    assert "'ACK'" in printed
    assert broker.wait(timeout=20) == 0
    broker.start()
    client.until_waiting(default=1)
    manager = emq.job_manager(broker)
    assert manager.ran(1) == [["kept"]]
