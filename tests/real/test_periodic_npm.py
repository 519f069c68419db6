"""npm's `node-periodic` 0.1.0, 0.1.2 and 1.4.0, unchanged, on a listener as it is by default."""

from collections.abc import Callable

import pytest

from tests.real.fetched import NODE, npm
from tests.real.kit import Peers, Program
from tests.support import periodic as p
from tests.support.server import Server

FOLDER = NODE / "periodic"
VERSIONS = ["0.1.0", "0.1.2", "1.4.0"]
Connect = Callable[[], Program]


@pytest.fixture(params=VERSIONS)
def connect(request: pytest.FixtureRequest, peers: Peers, server: Server) -> Connect:
    """Makes peers of one version, connected."""
    if complaint := npm("install", FOLDER, "package.json"):
        pytest.skip(f"node-periodic: {complaint}: NOT tested here")
    spec = {"library": f"node-periodic-{request.param}", "port": server.ports["periodic"]}
    return lambda: peers.ready(Program, "node/periodic/peer.js", spec)


def test_jobs_from_client_to_worker(connect: Connect) -> None:
    client, worker = connect(), connect()
    assert client.call("ping") == p.PONG
    worker.call("work", "echo")
    for number in range(3):
        assert client.call("submit", "echo", f"n{number}", f"hello {number}") == p.SUCCESS
        ran = worker.said("ran")
        assert (ran["func"], ran["name"]) == ("echo", f"n{number}")
        assert ran["workload"] == f"hello {number}"


def test_a_job_that_was_there_before_its_worker(connect: Connect) -> None:
    client = connect()
    assert client.call("submit", "echo", "n", "hello") == p.SUCCESS
    status = client.call("status")["echo"]
    assert (status["worker_count"], status["job_count"], status["processing"]) == (0, 1, 0)
    worker = connect()
    worker.call("work", "echo")
    assert worker.said("ran")["name"] == "n"
