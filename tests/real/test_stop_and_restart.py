"""The server dies or is told to stop, and the real clients lose nothing by it."""

import signal
import threading
from pathlib import Path

import pytest
from pyfaktory import Client, Job, Producer
from pyfaktory.util.exceptions import FaktroyWorkProtocolError

from franca.control import client as control
from tests.real.kit import KINDS, Peers, counts, until_counts, url
from tests.support.server import Server
from tests.support.shared import eventually

BEFORE_THE_KILL = 300
PER_BULK = 10
WID = "worker-1"
BEAT_S = 0.5


@pytest.fixture
def server(peers: Peers) -> Server:
    """One whose log says nothing of others."""
    return peers.server()


class Pushing(threading.Thread):
    """A pyfaktory producer that pushes, singly and in bulk, until the server is gone."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.taken: set[str] = set()
        self.unknown: set[str] = set()
        self._address = address

    def run(self) -> None:
        client = Client(faktory_url=self._address, role="producer")
        client.connect()
        producer = Producer(client)
        number = 0
        try:
            while True:
                names = [f"job-{number + n:06}" for n in range(PER_BULK)]
                number += PER_BULK
                self._push(producer, names[:1])
                self._push(producer, names[1:])
        except (OSError, FaktroyWorkProtocolError):
            client.sock.close()  # there is nobody to say END to

    def _push(self, producer: Producer, names: list[str]) -> None:
        """What was answered is taken; what was not, may be."""
        self.unknown = set(names)
        jobs = [Job(jid=name, jobtype="echo", args=[name]) for name in names]
        if len(jobs) == 1:
            producer.push(jobs[0])
        else:
            assert producer.push_bulk(jobs) == {}
        self.taken |= self.unknown
        self.unknown = set()


def test_what_was_answered_before_a_kill_is_run_after_it(peers: Peers, server: Server) -> None:
    pushing = Pushing(url(server.port))
    pushing.start()
    eventually(lambda: len(pushing.taken) >= BEFORE_THE_KILL or None, "some hundred jobs")
    server.kill9()
    pushing.join()

    server.restart()
    queued = counts(server.port)["queue default"]
    assert len(pushing.taken) <= queued <= len(pushing.taken | pushing.unknown)
    worker = peers.worker("faktory", url(server.port), concurrency=50)
    ran = worker.ran(queued)
    assert len(ran) == queued, "a job was run twice"
    assert pushing.taken <= set(ran) <= pushing.taken | pushing.unknown
    assert all(args == [jid] for jid, args in ran.items())
    until_counts(server.port, working=0, **{"queue default": 0})


def test_retries_dead_jobs_schedules_and_pauses_outlive_a_kill(
    peers: Peers, server: Server
) -> None:
    with Client(faktory_url=url(server.port), role="producer") as client:
        producer = Producer(client)
        producer.push(Job(jobtype="boom", args=[], retry=5))
        producer.push(Job(jobtype="boom", args=[], retry=-1))
        producer.push(Job(jobtype="echo", args=[], at="2099-01-01T00:00:00Z"))
        producer.push(Job(jobtype="echo", args=[], queue="held"))
        client.queue_pause(queues=["held"])
    worker = peers.worker("pyfaktory", url(server.port))
    worker.ran(2)
    before = until_counts(server.port, total_processed=2, total_failures=2, working=0)
    worker.terminate()
    worker.said("stopped")
    server.kill9()
    server.restart()

    after = counts(server.port)
    assert after == before | {"workers": 0}
    assert (after["retries"], after["dead"], after["scheduled"]) == (1, 1, 1)
    worker = peers.worker("pyfaktory", url(server.port), queues=["held", "default"])
    with Client(faktory_url=url(server.port), role="producer") as client:
        Producer(client).push(Job(jid="job-free", jobtype="echo", args=[]))
        assert list(worker.ran(1)) == ["job-free"]
        client.queue_unpause(all_queues=True)
    worker.ran(1)


def test_a_worker_that_comes_back_settles_what_it_ran_meanwhile(
    peers: Peers, server: Server
) -> None:
    """The pool of `faktory-worker` connects again by itself."""
    gate = peers.folder / "gate"
    worker = peers.worker("faktory-worker", url(server.port))
    peers.push("pyfaktory", url(server.port), "job-long", "wait", str(gate))
    worker.said("started")
    server.kill9()
    server.restart()
    assert counts(server.port)["working"] == 1

    gate.touch()
    worker.said("ran")
    until_counts(server.port, working=0, total_processed=1, total_failures=0, retries=0)
    peers.push("pyfaktory", url(server.port), "job-next", "echo")
    assert list(worker.ran(1)) == ["job-next"]


# -- asked to leave --------------------------------------------------------------------------------


def _stopping(server: Server) -> bool:
    return any('"stopping"' in line for line in server.log_lines())


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopping_server_lets_workers_finish_and_asks_them_to_leave(
    peers: Peers, kind: str, server: Server
) -> None:
    gate = peers.folder / "gate"
    worker = peers.worker(kind, url(server.port), wid=WID, beat_s=BEAT_S)
    peers.push("pyfaktory", url(server.port), "job-last", "wait", str(gate))
    worker.said("started")

    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: _stopping(server), "that the server is about to stop")
    gate.touch()
    worker.said("ran")
    assert worker.said("stopped")["terminated"], "BEAT did not say terminate"
    assert server.wait(30.0) == 0
    assert worker.wait() == 0

    server.start()
    found = counts(server.port)
    assert (found["working"], found["retries"], found["queue default"]) == (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_quiet_worker_takes_no_more_and_leaves_when_asked(
    peers: Peers, kind: str, server: Server
) -> None:
    worker = peers.worker(kind, url(server.port), wid=WID, beat_s=BEAT_S)
    control.call(str(server.data), "workers.quiet", {"workers": [WID], "all": False})
    peers.push("pyfaktory", url(server.port), "job-left", "echo")
    control.call(str(server.data), "workers.stop", {"workers": [WID], "all": False})
    assert worker.said("stopped")["terminated"]
    worker.wait()
    assert until_counts(server.port, workers=0)["queue default"] == 1


def test_a_producer_is_cut_off_at_once_and_the_exit_code_is_zero(server: Server) -> None:
    client = Client(faktory_url=url(server.port), role="producer")
    client.connect()
    Producer(client).push(Job(jid="job-kept", jobtype="echo", args=[]))
    assert server.terminate() == 0
    with pytest.raises((OSError, FaktroyWorkProtocolError)):
        Producer(client).push(Job(jobtype="echo", args=[]))
    client.sock.close()
    assert not list(Path(server.data).glob("*-wal")), "the store was not closed tidily"
    server.start()
    assert counts(server.port)["queue default"] == 1
