"""Jobs of the real EventMQ client, run by the real job manager."""

import hashlib
import json
import signal

from tests.real.emq import JOBS, ORIGINAL, Broker, Client, EmqPeers, Franca, not_the_original
from tests.real.kit import counts
from tests.support.shared import eventually

MANY = 100


def test_a_deferred_job_is_run_by_a_process_of_the_job_manager(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, jobs=2)
    client.until_slots(2)

    name = client.defer("echo", 1, "zwölf", None, kwargs={"deep": {"list": [1.5, True]}})
    ran = manager.said("ran")
    assert ran["args"] == [1, "zwölf", None]
    assert ran["kwargs"] == {"deep": {"list": [1.5, True]}}
    (answer,) = client.do("answers", count=1)
    assert (answer[0], answer[2:]) == ("REPLY", [name]), "it was handed to a worker, that is all"

    method = f"{JOBS}:Adder.add"
    client.do("defer", func=method, args=[4], class_args=[1], class_kwargs={"second": 2})
    assert manager.ran(1) == [[7]]
    client.do("delay_many", arguments=[["by the decorator"]])
    assert manager.ran(1) == [["by the decorator"]]
    text = "0123456789abcdef" * 65_536
    client.defer("measure", text)
    assert manager.ran(1) == [[len(text), hashlib.sha256(text.encode()).hexdigest()]]


def test_a_job_goes_to_who_serves_its_queue_and_to_the_heavier_of_two(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    first = emq.job_manager(broker, [(10, "default")])
    second = emq.job_manager(broker, [(20, "email"), (5, "default")])
    client.until_slots(2)

    client.defer("wait", "nobody serves this queue", str(emq.folder / "go"), queue="undelivered-of")
    assert first.said("started")["name"] == "nobody serves this queue"
    client.defer("wait", "the heavier is busy", str(emq.folder / "go"))
    assert second.said("started")["name"] == "the heavier is busy"

    client.defer("echo", "light", queue="default")
    client.defer("echo", "heavy", queue="email")
    client.until_waiting(default=1, email=1)
    (emq.folder / "go").touch()
    assert second.ran(2) == [["the heavier is busy"], ["heavy"]]
    assert first.ran(2) == [["nobody serves this queue"], ["light"]]


def test_jobs_wait_for_a_worker_and_their_client_is_answered_when_one_comes(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    names = [client.defer("echo", n) for n in range(3)]
    client.until_waiting(default=3)
    assert client.do("answers", count=1, within_ms=100) == []

    manager = emq.job_manager(broker)
    assert manager.ran(3) == [[0], [1], [2]]
    client.until_waiting()
    answers = client.do("answers", count=3, within_ms=1_000)
    # The original never answers for a job that it could not hand on at once.
    assert [(answer[0], answer[2]) for answer in answers] == (
        [] if ORIGINAL else [("REPLY", name) for name in names]
    )


@not_the_original
def test_a_result_larger_than_any_message_costs_no_second_run(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker)
    client.until_slots(1)

    client.defer("large", "unasked", 80 * 1024 * 1024)
    client.defer("echo", "behind it")
    assert manager.ran(2) == [["unasked"], ["behind it"]]
    client.until_idle()
    assert manager.has_said() == []


@not_the_original
def test_a_client_that_wants_a_result_hears_it_after_the_word_it_knows(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    emq.job_manager(broker)
    for job, args, result in (
        ("echo", [1, "zwölf"], {"value": [1, "zwölf"]}),
        ("boom", [], {"value": "boom"}),
        ("nothing", [], True),
    ):
        name = client.defer(job, *args, reply_requested=True)
        handed, done = client.do("answers", count=2)
        assert (handed[0], handed[2:]) == ("REPLY", [name])
        assert (done[0], json.loads(done[2]), done[3:]) == ("REPLY", result, [name])


def test_every_one_of_many_jobs_runs_once(emq: EmqPeers, broker: Broker, client: Client) -> None:
    managers = [emq.job_manager(broker, jobs=2) for _ in range(2)]
    client.do("defer_many", func=f"{JOBS}.echo", arguments=[[n] for n in range(0, MANY, 2)])
    client.do("delay_many", arguments=[[n] for n in range(1, MANY, 2)])

    ran: list[int] = []

    def look() -> bool:
        ran.extend(job["args"][0] for manager in managers for job in manager.has_said())
        return len(ran) >= MANY

    eventually(look, f"{MANY} jobs")
    assert sorted(ran) == list(range(MANY))
    client.until_slots(4)
    assert [m.has_said() for m in managers] == [[], []]


def test_what_a_job_raises_is_its_result(emq: EmqPeers, broker: Broker, client: Client) -> None:
    manager = emq.job_manager(broker)
    client.defer("boom", "first", retry_count=3, reply_requested=True)
    client.defer("echo", "last")
    assert manager.ran_before("last") == [["first"]]


def test_a_job_is_tried_again_after_its_timeout_as_often_as_was_asked(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, jobs=6)
    never, go = str(emq.folder / "never"), emq.folder / "go"
    client.defer("wait", "once", never, timeout=1)
    client.defer("wait", "twice", never, timeout=1, retry_count=1)
    client.defer("wait", "until it is done", str(go), timeout=1, guarantee=True)

    # The original never tries again.
    again = [] if ORIGINAL else ["twice", "until it is done"]
    wanted = sorted(["once", "twice", "until it is done", *again])
    assert sorted(manager.said("started")["name"] for _ in wanted) == wanted
    go.touch()
    assert ["until it is done"] in manager.ran(1 if ORIGINAL else 2)
    if isinstance(broker, Franca):
        client.until_idle()
        found = counts(broker.port)
        assert (found["retries"], found["dead"], found["total_failures"]) == (0, 0, 2)
    assert manager.has_said("started") == []


@not_the_original
def test_the_job_of_a_killed_job_manager_is_run_by_another(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    first = emq.job_manager(broker, [(10, "default")])
    go = emq.folder / "go"
    client.defer("wait", "orphan", str(go))
    first.said("started")
    second = emq.job_manager(broker, [(10, "default")])
    client.until_slots(1)

    first.close()
    assert second.said("started")["name"] == "orphan"
    go.touch()
    assert second.ran(1) == [["orphan"]]
    client.until_slots(1)
    assert len(client.workers()) == 1


@not_the_original
def test_a_job_manager_whose_processes_hold_its_connection_is_missed_too(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    """They inherit its socket, so that nothing is closed when only the manager itself is killed."""
    first = emq.job_manager(broker)
    go = emq.folder / "go"
    client.defer("wait", "orphan", str(go))
    first.said("started")
    second = emq.job_manager(broker)
    client.until_slots(1)

    first.process.kill()
    assert second.said("started")["name"] == "orphan"
    go.touch()
    assert second.ran(1) == [["orphan"]]


def test_a_job_manager_that_is_told_to_stop_finishes_its_job(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    first = emq.job_manager(broker)
    go = emq.folder / "go"
    client.defer("wait", "the last one", str(go))
    first.said("started")
    second = emq.job_manager(broker)
    client.until_slots(1)

    first.process.send_signal(signal.SIGTERM)
    eventually(lambda: len(client.workers()) == 1, "that it said good-bye")
    client.defer("echo", "for those who stay")
    assert second.ran(1) == [["for those who stay"]]
    go.touch()
    assert first.ran(1) == [["the last one"]]
    assert first.wait() == 0
    client.defer("echo", "last")
    assert second.ran_before("last") == []
    assert second.has_said("started") == []
