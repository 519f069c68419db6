"""Gearman on a real server: sockets of every kind, restarts, stops, the command line."""

import os
import signal
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme

from tests.support.gearman import Gearman, Packet, Type
from tests.support.server import Server
from tests.support.tls import secured

WAIT_S = 10.0


class Peer(Gearman):
    """One connection, answered packet by packet."""

    def ask(self, kind: Type, *arguments: bytes) -> Packet:
        self.say(kind, *arguments)
        return self.read()


def peers_of(server: Server) -> tuple[Peer, Peer]:
    """A client and a worker."""
    return Peer(server.ports["gearman"]), Peer(server.ports["gearman"])


def serves(client: Peer, worker: Peer) -> bool:
    """Whether a job goes all the way and back."""
    worker.say(Type.CAN_DO, b"f")
    assert worker.ask(Type.ECHO_REQ, b"there").body == b"there"
    handle = client.ask(Type.SUBMIT_JOB, b"f", b"", b"work").body
    assert worker.ask(Type.GRAB_JOB).body == handle + b"\0f\0work"
    worker.say(Type.WORK_COMPLETE, handle, b"result")
    return client.read() == Packet(Type.WORK_COMPLETE, handle + b"\0result")


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "gearman.sock"
    with Server(tmp_path / "data", extra_args=["--gearman", f"unix:{path}"], speaks=("gearman",)):
        peers = [Peer(str(path)) for _ in range(2)]
        assert serves(*peers)
        assert peers[0].line("create function g") == b"OK\r\n", "a local peer"


@pytest.mark.parametrize("shows_one", [True, False])
def test_tls_and_client_certificates_where_an_authority_is_given(
    tmp_path: Path, ca: trustme.CA, shows_one: bool
) -> None:
    server = Server(
        tmp_path / "tls",
        extra_args=[
            *secured(tmp_path, ca).flags,
            "--tls-client-ca",
            str(tmp_path / "ca.pem"),
        ],
        speaks=("gearman",),
    )
    with server:
        context = ssl.create_default_context()
        ca.configure_trust(context)
        if shows_one:
            ca.issue_cert("me@example.org").configure_cert(context)
        try:
            peers = peers_of(server)
            for peer in peers:
                peer._socket = context.wrap_socket(peer._socket, server_hostname="localhost")
            assert serves(*peers)
            assert shows_one
        except (ssl.SSLError, ConnectionError):
            assert not shows_one


def test_acknowledged_jobs_survive_a_kill_with_their_handles(server: Server) -> None:
    client = Peer(server.ports["gearman"])
    handles = [client.ask(Type.SUBMIT_JOB_BG, b"f", b"", b"%d" % n).body for n in range(20)]
    worker = Peer(server.ports["gearman"])
    worker.say(Type.CAN_DO, b"f")
    running = worker.ask(Type.GRAB_JOB).body.partition(b"\0")[0]
    assert running == handles[0]
    server.restart()
    client, worker = peers_of(server)
    for handle in handles:
        status = handle + b"\x001\x000\x000\x000"
        assert client.ask(Type.GET_STATUS, handle) == Packet(Type.STATUS_RES, status)
    assert client.ask(Type.SUBMIT_JOB_BG, b"f", b"", b"new").body not in handles
    worker.say(Type.CAN_DO, b"f")
    got = [worker.ask(Type.GRAB_JOB).body.split(b"\0") for _ in range(20)]
    assert got == [[handle, b"f", b"%d" % n] for n, handle in enumerate(handles)]


@pytest.mark.parametrize(("flags", "end"), [((), 14), (("--gearman-exceptions",), 25)])
def test_exceptions_go_to_all_clients_where_the_flag_says_so(
    tmp_path: Path, flags: tuple[str, ...], end: int
) -> None:
    with Server(tmp_path / "data", speaks=["gearman"], extra_args=flags) as server:
        client, worker = peers_of(server)
        worker.say(Type.CAN_DO, b"f")
        handle = client.ask(Type.SUBMIT_JOB, b"f", b"", b"x").body
        assert worker.ask(Type.GRAB_JOB).type == Type.JOB_ASSIGN
        worker.say(Type.WORK_EXCEPTION, handle, b"boom")
        told = client.read()
        assert (told.type, told.body) == (end, b"\0".join([handle, b"boom"][: 1 + len(flags)]))


def test_a_long_stream_reaches_a_client_that_begins_to_read_late(server: Server) -> None:
    """More than the server keeps for a peer that does not read: the worker is held back."""
    chunk, count = b"x" * 1_000_000, 40
    client, worker = peers_of(server)
    worker.say(Type.CAN_DO, b"f")
    handle = client.ask(Type.SUBMIT_JOB, b"f", b"", b"work").body
    worker.ask(Type.GRAB_JOB)

    def stream() -> None:
        worker.set_timeout(60)
        for _ in range(count):
            worker.say(Type.WORK_DATA, handle, chunk)
        worker.say(Type.WORK_COMPLETE, handle, b"")

    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(stream)
        time.sleep(1.0)
        assert not sent.done()
        for _ in range(count):
            assert client.read() == Packet(Type.WORK_DATA, handle + b"\0" + chunk)
        assert client.read() == Packet(Type.WORK_COMPLETE, handle + b"\0")
        sent.result()


@pytest.mark.parametrize("text", ["shutdown", "shutdown graceful"])
def test_a_local_peer_may_stop_the_server(server: Server, text: str) -> None:
    assert Peer(server.ports["gearman"]).line(text) == b"OK\r\n"
    assert server.wait(WAIT_S) == 0


def test_a_running_job_may_end_while_the_server_stops(tmp_path: Path) -> None:
    with Server(tmp_path / "data", speaks=("gearman",)) as server:
        client, worker = peers_of(server)
        worker.say(Type.CAN_DO, b"f")
        handle = client.ask(Type.SUBMIT_JOB, b"f", b"", b"work").body
        worker.ask(Type.GRAB_JOB)
        os.kill(server.process.pid, signal.SIGTERM)
        while "stopping" not in server.log_tail():
            time.sleep(0.01)
        assert worker.ask(Type.GRAB_JOB).type == Type.NO_JOB
        worker.say(Type.WORK_COMPLETE, handle, b"result")
        assert client.read().body == handle + b"\0result"
        assert server.wait(WAIT_S) == 0


def test_its_functions_and_jobs_show_in_the_commands(server: Server) -> None:
    Peer(server.ports["gearman"]).ask(Type.SUBMIT_JOB_BG, b"resize", b"u", b"work")
    for words, shown in ((("queues", "ls"), "resize"), (("jobs", "ls"), "H:")):
        command = [sys.executable, "-m", "franca", *words, "--data", str(server.data)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        assert shown in said.stdout
