"""Jobs that are submitted in one protocol and run by the real workers of another."""

from __future__ import annotations

from tests.real.emq import JOBS, EmqStage, Franca, not_the_original
from tests.real.kit import until_counts
from tests.support.faktory import Faktory

pytestmark = not_the_original


def test_a_job_manager_runs_what_a_faktory_client_pushed(emq: EmqStage) -> None:
    broker = emq.broker()
    assert isinstance(broker, Franca)
    port = broker.server.port
    manager = emq.job_manager(broker)
    with Faktory(port) as pusher:
        pusher.hello()
        pusher.push({"jid": "cross-0001", "jobtype": f"{JOBS}.echo", "args": [1, {"two": "zwölf"}]})
        assert manager.ran(1) == [[1, {"two": "zwölf"}]]
        until_counts(port, total_processed=1, working=0, total_failures=0)

        pusher.push({"jid": "cross-0002", "jobtype": f"{JOBS}.boom", "args": ["raises"]})
        assert manager.ran(1) == [["raises"]]
        until_counts(port, total_processed=2, working=0, total_failures=0)


def test_a_faktory_worker_runs_what_a_client_of_eventmq_deferred(emq: EmqStage) -> None:
    broker = emq.broker()
    assert isinstance(broker, Franca)
    client = emq.client(broker)
    name = client.defer("echo", 1, {"two": "zwölf"})
    client.until_waiting(default=1)
    with Faktory(broker.server.port) as worker:
        worker.hello(wid="worker-1")
        job = worker.fetch("default")
        assert job is not None
        assert job["jobtype"] == f"{JOBS}.echo"
        assert job["args"] == [1, {"two": "zwölf"}]
        (answer,) = client.do("answers", count=1)
        assert (answer[0], answer[2:]) == ("REPLY", [name])
        worker.ack(job["jid"])
    until_counts(broker.server.port, total_processed=1, working=0, total_failures=0)
