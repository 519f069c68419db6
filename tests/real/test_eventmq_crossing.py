"""Jobs that are submitted in one protocol and run by the real workers of another."""

from tests.real.emq import JOBS, Broker, Client, EmqPeers, Franca, not_the_original
from tests.real.kit import until_counts
from tests.support.faktory import Faktory

pytestmark = not_the_original


def test_a_job_manager_runs_what_a_faktory_client_pushed(emq: EmqPeers, broker: Broker) -> None:
    assert isinstance(broker, Franca)
    port = broker.port
    manager = emq.job_manager(broker)
    with Faktory(port) as pusher:
        pusher.hello()
        pusher.push({"jid": "cross-0001", "jobtype": f"{JOBS}.echo", "args": [1, {"two": "zwölf"}]})
        assert manager.ran(1) == [[1, {"two": "zwölf"}]]
        until_counts(port, total_processed=1, working=0, total_failures=0)

        pusher.push({"jid": "cross-0002", "jobtype": f"{JOBS}.boom", "args": ["raises"]})
        assert manager.ran(1) == [["raises"]]
        until_counts(port, total_processed=2, working=0, total_failures=0)


def test_a_faktory_worker_runs_what_a_client_of_eventmq_deferred(
    broker: Broker, client: Client
) -> None:
    assert isinstance(broker, Franca)
    done = client.defer("echo", 1, {"two": "zwölf"}, reply_requested=True)
    failed = client.defer("echo", kwargs={"named": 1}, reply_requested=True)
    client.until_waiting(default=2)
    with Faktory(broker.port) as worker:
        worker.hello(wid="worker-1")
        job = worker.fetch("default")
        assert job is not None
        assert (job["jobtype"], job["args"]) == (f"{JOBS}.echo", [1, {"two": "zwölf"}])
        worker.ack(job["jid"])
        assert _told(client, 2) == [[done], ["true", done]]

        job = worker.fetch("default")
        assert job is not None
        (call,) = job["args"]
        assert call["kwargs"] == {"named": 1}, "not only arguments: the whole call is shown"
        worker.fail(job["jid"], message="not today")
        assert _told(client, 2) == [[failed], ['{"error":"not today"}', failed]]
    until_counts(broker.port, total_processed=2, working=0, total_failures=1, retries=0)


def _told(client: Client, count: int) -> list[list[str]]:
    """What the next REPLYs to a client say."""
    answers = client.do("answers", count=count)
    assert {answer[0] for answer in answers} == {"REPLY"}
    return [answer[2:] for answer in answers]
