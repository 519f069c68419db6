"""A real server that speaks Periodic: sockets, options, rights that change, storms, kills."""

import os
import socket
import stat
import time
from pathlib import Path

import pytest

from tests.support import periodic as p
from tests.support.periodic import CRC, DOC, WORKER, Periodic, PeriodicError
from tests.support.server import HOST, Server, free_port
from tests.support.shared import eventually


def server_of(tmp_path: Path, *args: str, **env: str) -> Server:
    return Server(tmp_path / "data", speaks=("periodic",), extra_args=args, env=env)


@pytest.mark.parametrize("dialect", [CRC, DOC])
def test_a_job_over_every_kind_of_kill(server: Server, dialect: str) -> None:
    port = server.ports["periodic"]
    with Periodic(port, dialect=dialect) as client:
        client.submit("f", "waits", b"1")
        client.submit("f", "runs", b"old")
        client.submit("f", "later", b"3", at=int(time.time()) + 2)
    with Periodic(port, role=WORKER, dialect=dialect) as worker:
        worker.can_do("f")
        jobs = [worker.grab(), worker.grab()]
        assert {job.name for job in jobs} == {"waits", "runs"}
        with Periodic(port, dialect=dialect) as client:
            client.submit("f", "runs", b"new")
        worker.done(next(job for job in jobs if job.name == "waits"))
        # The document has no answer to that; this one comes behind it, from the disk.
        worker.remove("f", "nobody")
        server.restart()
    with Periodic(port, role=WORKER, dialect=dialect) as worker:
        worker.can_do("f")
        jobs = [worker.grab(), worker.grab()]
        assert [(job.name, job.workload) for job in jobs] == [("runs", b"new"), ("later", b"3")]
        for job in jobs:
            worker.done(job)
        worker.ping()
        assert worker.status()["f"][:3] == [1, 0, 0]


def test_the_default_socket_lies_in_the_data_directory_and_is_nobody_elses(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    # Beside the TCP listener that the test server asks for: flags may be repeated.
    args = ("--periodic", "unix:{data}/periodic.sock")
    with Server(deep / "data", speaks=("periodic",), extra_args=args):
        path = deep / "data" / "periodic.sock"
        mode = stat.S_IMODE(os.stat(path).st_mode)
        assert stat.S_ISSOCK(os.stat(path).st_mode)
        assert mode & 0o077 == 0
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect("periodic.sock")
                peer.sendall(bytes.fromhex("00524551 00000001 A505DF1B 01"))
                assert peer.recv(17)[12] == 0x1E
        finally:
            os.chdir(here)


def test_each_listener_may_have_its_own_dialect(tmp_path: Path) -> None:
    port = free_port()
    args = ("--periodic", f"{HOST}:{port}?dialect=doc")
    with server_of(tmp_path, *args) as server:
        with Periodic(port, role=WORKER, dialect=DOC) as worker:
            worker.can_do("f")
            assert worker.call(p.GRAB_JOB).command == p.NO_JOB
        with Periodic(server.ports["periodic"], role=WORKER, dialect=DOC, timeout=0.5) as worker:
            worker.can_do("f")
            with pytest.raises(TimeoutError):
                worker.grab()


def test_the_auth_file_is_followed_as_it_changes(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("client anna secret f\nadmin root root\n")
    with server_of(tmp_path, "--periodic-auth-file", str(rules)) as server:
        port = server.ports["periodic"]
        with Periodic(port) as nobody, pytest.raises(PeriodicError):
            nobody.submit("f", "n")
        with Periodic(port, name="anna", token="secret") as anna:
            anna.submit("f", "n")
            with pytest.raises(PeriodicError):
                anna.submit("g", "n")
            rules.write_text("client anna secret g\nadmin root root\n")

            def may() -> bool:
                try:
                    anna.submit("g", "n")
                except PeriodicError:
                    return False
                return True

            eventually(may, "the new rules hold")
            rules.write_text("nonsense\n")
            eventually(
                lambda: any("file-not-reloaded" in line for line in server.log_lines()), "a word"
            )
            anna.submit("g", "m")
        assert "secret" not in "".join(server.log_lines())


def test_an_auth_file_that_cannot_be_used_is_a_wrong_setting(tmp_path: Path) -> None:
    server = server_of(tmp_path, "--periodic-auth-file", str(tmp_path / "none"))
    server.launch()
    assert server.wait(20) == 78


def test_shutdown_over_the_protocol_stops_the_server(tmp_path: Path) -> None:
    with server_of(tmp_path) as server, Periodic(server.ports["periodic"]) as client:
        client.submit("f", "n")
        client.say(p.SHUTDOWN)
        assert server.wait(20) == 0
    server.start()
    with server, Periodic(server.ports["periodic"]) as client:
        assert client.status()["f"][1] == 1


def test_a_thousand_grabs_in_a_second_get_bounded_answers_and_one_job(server: Server) -> None:
    port = server.ports["periodic"]
    with Periodic(port, role=WORKER) as worker, Periodic(port) as client:
        worker.can_do("f")
        for _ in range(10):
            worker.send_bytes(worker.message(p.GRAB_JOB, b"", b"slot") * 100)
            time.sleep(0.1)
        worker.ping()
        for number in range(5):
            client.submit("f", f"n{number}")
        worker.ping()
        early = [message.command for message in worker.aside]
        assert early.count(p.JOB_ASSIGN) == 1
        assert early.count(p.SUCCESS) <= 2
        print(f"grab storm: grabs=1000 answers={early.count(p.SUCCESS)} assigned=1")


def test_http_is_hung_up_on_at_once(server: Server) -> None:
    with (
        socket.create_connection((HOST, server.ports["periodic"]), timeout=5) as peer,
    ):
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert peer.recv(100) == b""
