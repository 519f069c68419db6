"""beanstalkd's own server and clients, unmodified, against this one.

Each line of `beanstalkd_script.txt` is a connection and a command. `\\n` stands for CRLF, so that a
body may follow; `x300` for 300 bytes. A command that is not answered at once begins with `~`; a line
`a <` reads that answer later.
"""

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import greenstalk
import pystalk
import pytest

from tests.support.beanstalkd import Beanstalkd, Reply
from tests.support.faktory import Faktory
from tests.support.faktory import job as faktory_job
from tests.support.server import HOST, Server, free_port, listens
from tests.support.shared import eventually

BEANSTALKD = shutil.which("beanstalkd")
SCRIPT = Path(__file__).with_name("beanstalkd_script.txt").read_text()
RANDOM = {
    "put {pri} {delay} 100 4\r\nwork": 8, "reserve-with-timeout 0": 8, "delete {job}": 5, "release {job} {pri} {delay}": 4,
    "bury {job} {pri}": 4, "touch {job}": 1, "watch {tube}": 2, "ignore {tube}": 2, "use {tube}": 2, "kick {few}": 2,
    "kick-job {job}": 2, "peek {job}": 2, "peek-ready": 2, "peek-buried": 2, "stats-job {job}": 3, "stats-tube {tube}": 2,
    "list-tubes-watched": 1, "pause-tube {tube} {pause}": 0.3, "reserve-job {job}": 3, "stats": 0.5,
}  # fmt: skip
"""Commands, and how often each is said."""

_UNEQUAL = re.compile(
    rb"(?m)^(pid|uptime|version|id|hostname|total-connections|rusage-utime|rusage-stime|age|time-left|pause-time-left"
    rb"): .*(?=\n)"
)
_UNEQUAL_OF_JOB = re.compile(rb"(?m)^(age|time-left): .*(?=\n)")
_LONG = re.compile(r"x([0-9]+)$")


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


def reply(peer: Beanstalkd) -> Reply | None:
    """The next reply, without what two servers may say differently; None at the end."""
    try:
        found = peer.read()
    except ConnectionResetError:
        return None
    if found.words[0] != b"OK":
        return found
    unequal = _UNEQUAL_OF_JOB if b"\ntube: " in found.data else _UNEQUAL
    return Reply((b"OK",), unequal.sub(rb"\1: *", found.data))


def play(port: int) -> list[tuple[str, Reply | None]]:
    """Every command of the script with its reply."""
    peers: dict[str, Beanstalkd] = {}
    heard = []
    with ExitStack() as stack:
        for line in SCRIPT.strip().splitlines():
            who, _, text = line.lstrip("~").partition(" ")
            if who not in peers:
                peers[who] = stack.enter_context(Beanstalkd(port))
            if text != "<":
                text = _LONG.sub(lambda match: "x" * int(match[1]), text)
                said = text.replace(r"\n", "\r\n").replace(r"\t", "\t")
                peers[who].send_bytes(said.encode() + b"\r\n")
            if not line.startswith("~"):
                heard.append((line, reply(peers[who])))
    return heard


def play_both(ports: tuple[int, int], rng: Random, count: int) -> list[tuple[object, ...]]:
    """Say the same random commands to two servers; those that are answered differently."""
    unlike: list[tuple[object, ...]] = []
    last = 0
    with ExitStack() as stack:
        peers = {who: [stack.enter_context(Beanstalkd(port)) for port in ports] for who in "abc"}
        for number in range(count):
            who = rng.choice("abc")
            command = rng.choices(list(RANDOM), list(RANDOM.values()))[0].format(
                pri=rng.choice((0, 1, 5, 1023, 1024, 70_000, 4_294_967_295)),
                delay=rng.choice((0, 0, 0, 100 + number)),
                job=rng.randint(max(1, last - 12), last + 1),
                tube=rng.choice(("default", "t1", "t2", "t3")),
                few=rng.randint(0, 4),
                pause=rng.choice((0, 0, 500)),
            )
            last += command.startswith("put")
            for peer in peers[who]:
                peer.send_bytes(command.encode() + b"\r\n")
            one, other = map(reply, peers[who])
            if one != other:
                unlike.append((number, who, command, one, other))
    return unlike


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


def test_an_answer_arrives_whole_whatever_came_after_the_last_command(tmp_path: Path) -> None:
    body = b"x" * 4 * 1024 * 1024
    found = b"FOUND 1 %d\r\n%b\r\n" % (len(body), body)
    args = ("--beanstalkd-max-job-size", str(len(body)))
    with Server(tmp_path / "data", speaks=("beanstalkd",), extra_args=args) as server:
        port = server.ports["beanstalkd"]
        with Beanstalkd(port) as producer:
            producer.send_bytes(b"put 0 0 60 %d\r\n%b\r\n" % (len(body), body))
            assert reply(producer) == Reply((b"INSERTED", b"1"))
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.connect((HOST, port))
            slow.sendall(b"peek 1\r\nquit\r\n")
            heard = b""
            with suppress(ConnectionError):
                while piece := slow.recv(64 * 1024):
                    heard += piece
                    slow.sendall(b"stats\r\n")
        assert heard == found


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
