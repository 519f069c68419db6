"""beanstalkd's own server and clients, unmodified, against this one."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import greenstalk
import pystalk
import pytest

from tests.real.beanstalkd_script import play, play_both
from tests.real.kit import eventually
from tests.support.faktory import Faktory
from tests.support.faktory import job as faktory_job
from tests.support.server import HOST, Server, free_port, listens

BEANSTALKD = shutil.which("beanstalkd")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "data", speaks=("beanstalkd",)) as server:
        yield server


@pytest.fixture
def original() -> Iterator[int]:
    """The port of the original server."""
    if BEANSTALKD is None:
        pytest.skip("Debian's beanstalkd is not here")
    port = free_port()
    with subprocess.Popen([BEANSTALKD, "-l", HOST, "-p", str(port)]) as process:
        try:
            eventually(lambda: listens(port), "beanstalkd listens")
            yield port
        finally:
            process.kill()


def test_a_long_script_is_answered_as_the_original_answers_it(
    server: Server, original: int
) -> None:
    ours = play(server.ports["beanstalkd"])
    theirs = play(original)
    assert len(ours) > 190
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_random_commands_are_answered_as_the_original_answers_them(
    server: Server, original: int, seed: int
) -> None:
    assert play_both((server.ports["beanstalkd"], original), Random(seed), 800) == []


def test_greenstalk(server: Server) -> None:
    address = HOST, server.ports["beanstalkd"]
    with (
        greenstalk.Client(address, use="mail", watch="mail") as client,
        greenstalk.Client(address, watch=["mail", "sms"], encoding=None) as worker,
    ):
        assert (client.using(), client.watching()) == ("mail", ["mail"])
        urgent = client.put("naïve", priority=1)
        plain = client.put("plain", ttr=5)
        later = client.put("later", delay=1_000)
        assert client.peek_ready().id == urgent
        assert client.peek_delayed().body == "later"
        job = worker.reserve(timeout=1)
        assert (job.id, job.body) == (urgent, "naïve".encode())
        worker.touch(job)
        worker.bury(job, priority=7)
        assert client.peek_buried().id == urgent
        assert client.stats_job(urgent)["pri"] == 7
        assert client.kick(5) == 1
        worker.delete(worker.reserve())
        job = worker.reserve()
        assert job.id == plain
        worker.release(job, delay=1_000)
        with pytest.raises(greenstalk.TimedOutError):
            worker.reserve(timeout=0)
        client.kick_job(plain)
        worker.delete(worker.reserve())
        worker.delete(worker.reserve_job(later))
        with pytest.raises(greenstalk.NotFoundError):
            client.peek(later)
        client.pause_tube("mail", 100)
        assert client.stats_tube("mail")["pause"] == 100
        assert client.stats()["total-jobs"] == 3
        assert sorted(client.tubes()) == ["default", "mail", "sms"]


def test_pystalk(server: Server) -> None:
    client = pystalk.BeanstalkClient(HOST, server.ports["beanstalkd"], auto_decode=True)
    client.put_job_into("work", "one")
    with client.using("work") as inserter:
        inserter.put_job("two", pri=10)
    client.watchlist = {"work"}
    bodies = []
    for job in client.reserve_iter():
        assert client.stats_job(job.job_id)["state"] == "reserved"
        bodies.append(job.job_data)
        client.delete_job(job.job_id)
    assert bodies == ["two", "one"]
    client.put_job_into("work", "three")
    job = client.reserve_job(timeout=1)
    client.bury_job(job.job_id)
    client.use("work")
    assert next(client.peek_buried_iter()).job_data == "three"
    assert client.kick_jobs(10) == (b"KICKED", 1)
    client.pause_tube("work", 60)
    assert client.stats_tube("work")["cmd-pause-tube"] == 1
    client.unpause_tube("work")
    client.close()


def test_jobs_outlive_a_kill(tmp_path: Path) -> None:
    with Server(tmp_path / "data", speaks=("beanstalkd",)) as server:
        address = HOST, server.ports["beanstalkd"]
        with greenstalk.Client(address, encoding=None) as client:
            ready = client.put(b"ready", priority=9)
            delayed = client.put(b"delayed", delay=1_000)
            buried = client.put(b"buried", priority=0)
            client.bury(client.reserve(), priority=3)
            client.put(b"held", priority=1)
            held = client.reserve()
            released = client.put(b"released", priority=0)
            client.release(client.reserve(), priority=77)
            server.kill9()
            server.start()
        with greenstalk.Client(address, encoding=None) as client:
            stats = {job_id: client.stats_job(job_id) for job_id in range(1, 6)}
            assert {job_id: one["state"] for job_id, one in stats.items()} == {
                ready: "ready", delayed: "delayed", buried: "buried", held.id: "ready", released: "ready",
            }  # fmt: skip
            assert [stats[one]["pri"] for one in (ready, buried, released)] == [9, 3, 77]
            assert [stats[buried]["buries"], stats[released]["releases"]] == [1, 1]
            assert [client.reserve().id for _ in range(3)] == [held.id, ready, released]


def test_sigusr1_drains_this_protocol_alone(server: Server) -> None:
    with greenstalk.Client((HOST, server.ports["beanstalkd"])) as client:
        client.put("before")
        server.process.send_signal(signal.SIGUSR1)
        eventually(lambda: client.stats()["draining"] == "true", "drain mode")
        with pytest.raises(greenstalk.DrainingError):
            client.put("after")
        assert client.reserve().body == "before"
    with Faktory(server.port) as producer:
        producer.hello().push(faktory_job("still-taken"))
