"""aio_periodic 1.0.0 and 0.2.8, unchanged, as clients and workers of a real server."""

import json
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.real.fetched import pip
from tests.real.kit import CallRefused, Peers, Program
from tests.support.periodic import Periodic
from tests.support.server import Server

VERSIONS = ["1.0.0", "0.2.8"]
Connect = Callable[[], Program]


@pytest.fixture(params=VERSIONS)
def connect(request: pytest.FixtureRequest, peers: Peers, server: Server) -> Connect:
    """Makes peers of one version, connected."""
    is_old = request.param != "1.0.0"
    # One that is not in the environment is fetched beside it.
    path = pip("aio_periodic", f"aio_periodic=={request.param}") if is_old else ""
    url = f"tcp://127.0.0.1:{server.ports['periodic']}"
    argv = [
        "env",
        f"PYTHONPATH={path}",
        sys.executable,
        "-m",
        "tests.real.programs.aio_periodic_peer",
    ]

    def make() -> Program:
        peer = peers.started(Program, *argv, json.dumps({"url": url}))
        assert peer.said("ready")["old"] is is_old
        return peer

    return make


def test_a_job_from_client_to_worker(connect: Connect) -> None:
    client, worker = connect(), connect()
    assert client.call("ping") is True
    assert client.call("submit", "echo", "n1", "hello") is True
    status = client.call("status")["echo"]
    assert (status["worker_count"], status["job_count"], status["processing"]) == (0, 1, 0)
    worker.call("work", ["echo"])
    assert worker.said("ran") == {"event": "ran", "name": "n1", "workload": "hello", "count": 0}


def test_many_jobs_over_several_slots(connect: Connect) -> None:
    client, worker = connect(), connect()
    worker.call("work", ["echo"])
    for number in range(40):
        client.call("submit", "echo", f"n{number}", str(number))
    ran = {worker.said("ran")["name"] for _ in range(40)}
    assert ran == {f"n{number}" for number in range(40)}


def test_running_a_job_and_hearing_its_result(connect: Connect) -> None:
    client, worker = connect(), connect()
    with pytest.raises(CallRefused, match="no worker"):
        client.call("run", "echo", "n0", "x")
    worker.call("work", ["echo", "boom"])
    assert client.call("run", "echo", "n1", "hello", {"timeout": 10}) == "hello"
    assert client.call("run", "boom", "n2", {"timeout": 10}) == "failed"


def test_a_job_that_fails_is_run_again(connect: Connect) -> None:
    client, worker = connect(), connect()
    worker.call("work", ["shaky"])
    client.call("submit", "shaky", "n")
    assert [worker.said("ran")["tries"] for _ in range(2)] == [1, 2]


def test_a_job_that_puts_itself_off_with_a_counter(connect: Connect) -> None:
    client, worker = connect(), connect()
    worker.call("work", ["later"])
    client.call("submit", "later", "n")
    assert [worker.said("ran")["count"] for _ in range(3)] == [0, 1, 2]


def test_runs_that_hold_a_lock_do_not_overlap(connect: Connect) -> None:
    client, worker = connect(), connect()
    worker.call("work", ["locked"])
    for number in range(6):
        client.call("submit", "locked", f"n{number}")
    spans = sorted(worker.said("unlocked")["span"] for _ in range(6))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_a_broadcast_reaches_every_worker(connect: Connect) -> None:
    client, one, two = connect(), connect(), connect()
    for worker in (one, two):
        worker.call("broadcast", "news")
    for number in range(20):
        client.call("submit", "news", f"n{number}", "x")
    assert one.said("ran")["workload"] == "x"
    assert two.said("ran")["workload"] == "x"


def test_removing_and_dropping(connect: Connect) -> None:
    client = connect()
    client.call("submit", "f", "a")
    client.call("submit", "f", "b")
    assert client.call("remove_job", "f", "a") is True
    assert client.call("status")["f"]["job_count"] == 1
    assert client.call("drop_func", "f") is True
    assert "f" not in client.call("status")


def test_dumping_and_loading(connect: Connect) -> None:
    client = connect()
    jobs = [["f", f"n{number}", f"w{number}"] for number in range(5)]
    assert client.call("load", jobs) is True
    assert client.call("dump") == jobs
    client.call("drop_func", "f")
    assert client.call("dump") == []


def test_a_worker_that_is_killed_loses_its_job_to_another(connect: Connect) -> None:
    client, victim = connect(), connect()
    victim.call("work", ["hang"])
    client.call("submit", "hang", "n")
    victim.said("ran")
    other = connect()
    other.call("work", ["hang"])
    victim.close()
    assert other.said("ran")["name"] == "n"


def test_everybody_comes_back_after_the_server_was_killed(connect: Connect, server: Server) -> None:
    client, worker = connect(), connect()
    assert client.call("submit", "echo", "kept", "x") is True
    server.restart()
    worker_after = connect()
    worker_after.call("work", ["echo"])
    assert worker_after.said("ran")["name"] == "kept"
    client_after = connect()
    assert client_after.call("run", "echo", "n", "y", {"timeout": 10}) == "y"
    assert worker.process.poll() is None


@pytest.mark.parametrize("connect", ["1.0.0"], indirect=True)
def test_a_result_in_pieces(connect: Connect) -> None:
    client, worker = connect(), connect()
    worker.call("work", ["data"])
    assert client.call("stream", "data", "n") == ["all", ["one", "two"]]


@pytest.mark.parametrize("connect", ["1.0.0"], indirect=True)
def test_a_worker_reconnects_and_registers_again(connect: Connect, server: Server) -> None:
    client, worker = connect(), connect()
    worker.call("work", ["echo"])
    assert client.call("run", "echo", "before", {"timeout": 10}) == ""
    worker.said("ran")
    server.restart()
    with Periodic(server.ports["periodic"]) as witness:
        witness.submit("echo", "after")
    assert worker.said("ran")["name"] == "after"
