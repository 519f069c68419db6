"""Gearman on a real server: sockets of every kind, restarts, stops, the command line."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
import trustme

from franca.protocols.gearman.wire import Packet
from tests.protocols.gearman.client import Message, parse_response
from tests.real.kit import Stage, TlsServer
from tests.support.gearman import request
from tests.support.server import HOST, Server
from tests.support.tls import secured

WAIT_S = 10.0


class Peer:
    """One connection, spoken to in packets."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.unread = bytearray()
        sock.settimeout(WAIT_S)

    @classmethod
    def to(cls, server: Server) -> Self:
        return cls(socket.create_connection((HOST, server.ports["gearman"])))

    def say(self, number: int, *arguments: bytes) -> None:
        self.sock.sendall(request(number, *arguments))

    def take(self) -> Message:
        while (message := parse_response(self.unread)) is None:
            data = self.sock.recv(65_536)
            if not data:
                raise EOFError
            self.unread += data
        return message

    def ask(self, number: int, *arguments: bytes) -> Message:
        self.say(number, *arguments)
        return self.take()

    def line(self, text: str) -> Message:
        self.sock.sendall(text.encode() + b"\n")
        return self.take()


def serves(client: Peer, worker: Peer) -> bool:
    """Whether a job goes all the way and back."""
    worker.say(Packet.CAN_DO, b"f")
    assert worker.ask(Packet.ECHO_REQ, b"there").body == b"there"
    handle = client.ask(Packet.SUBMIT_JOB, b"f", b"", b"work").body
    assert worker.ask(Packet.GRAB_JOB).body == handle + b"\0f\0work"
    worker.say(Packet.WORK_COMPLETE, handle, b"result")
    return client.take() == Message(Packet.WORK_COMPLETE, handle + b"\0result")


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "gearman.sock"
    with Server(tmp_path / "data", extra_args=["--gearman", f"unix:{path}"], speaks=("gearman",)):
        peers = []
        for _ in range(2):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(path))
            peers.append(Peer(sock))
        assert serves(*peers)
        assert peers[0].line("create function g") == Message(0, b"OK\r\n"), "a local peer"


@pytest.mark.parametrize("shows_one", [True, False])
def test_tls_and_client_certificates_where_an_authority_is_given(
    stage: Stage, ca: trustme.CA, shows_one: bool
) -> None:
    server = TlsServer(
        stage.folder / "tls",
        extra_args=[
            *secured(stage.folder, ca).flags,
            "--tls-client-ca",
            str(stage.folder / "ca.pem"),
        ],
        speaks=("gearman",),
    )
    with server:
        context = ssl.create_default_context()
        ca.configure_trust(context)
        if shows_one:
            ca.issue_cert("me@example.org").configure_cert(context)
        peers = []
        try:
            for _ in range(2):
                sock = socket.create_connection((HOST, server.ports["gearman"]))
                peers.append(Peer(context.wrap_socket(sock, server_hostname="localhost")))
            assert serves(*peers)
            assert shows_one
        except (ssl.SSLError, EOFError, ConnectionError):
            assert not shows_one


def test_acknowledged_jobs_survive_a_kill_with_their_handles(tmp_path: Path) -> None:
    with Server(tmp_path / "data", speaks=("gearman",)) as server:
        client = Peer.to(server)
        handles = [client.ask(Packet.SUBMIT_JOB_BG, b"f", b"", b"%d" % n).body for n in range(20)]
        worker = Peer.to(server)
        worker.say(Packet.CAN_DO, b"f")
        running = worker.ask(Packet.GRAB_JOB).body.partition(b"\0")[0]
        assert running == handles[0]
        server.restart()
        client, worker = Peer.to(server), Peer.to(server)
        for handle in handles:
            status = handle + b"\x001\x000\x000\x000"
            assert client.ask(Packet.GET_STATUS, handle) == Message(Packet.STATUS_RES, status)
        assert client.ask(Packet.SUBMIT_JOB_BG, b"f", b"", b"new").body not in handles
        worker.say(Packet.CAN_DO, b"f")
        got = [worker.ask(Packet.GRAB_JOB).body.split(b"\0") for _ in range(20)]
        assert got == [[handle, b"f", b"%d" % n] for n, handle in enumerate(handles)]


@pytest.mark.parametrize(("flags", "end"), [((), 14), (("--gearman-exceptions",), 25)])
def test_exceptions_go_to_all_clients_where_the_flag_says_so(
    tmp_path: Path, flags: tuple[str, ...], end: int
) -> None:
    with Server(tmp_path / "data", speaks=["gearman"], extra_args=flags) as server:
        client, worker = Peer.to(server), Peer.to(server)
        worker.say(Packet.CAN_DO, b"f")
        handle = client.ask(Packet.SUBMIT_JOB, b"f", b"", b"x").body
        assert worker.ask(Packet.GRAB_JOB).number == Packet.JOB_ASSIGN
        worker.say(Packet.WORK_EXCEPTION, handle, b"boom")
        told = client.take()
        assert (told.number, told.arguments) == (end, [handle, b"boom"][: 1 + len(flags)])


def test_a_long_stream_reaches_a_client_that_begins_to_read_late(tmp_path: Path) -> None:
    """More than the server keeps for a peer that does not read: the worker is held back."""
    chunk, count = b"x" * 1_000_000, 40
    with Server(tmp_path / "data", speaks=("gearman",)) as server:
        client, worker = Peer.to(server), Peer.to(server)
        worker.say(Packet.CAN_DO, b"f")
        handle = client.ask(Packet.SUBMIT_JOB, b"f", b"", b"work").body
        worker.ask(Packet.GRAB_JOB)

        def stream() -> None:
            worker.sock.settimeout(60)
            for _ in range(count):
                worker.say(Packet.WORK_DATA, handle, chunk)
            worker.say(Packet.WORK_COMPLETE, handle, b"")

        with ThreadPoolExecutor(1) as threads:
            sent = threads.submit(stream)
            time.sleep(1.0)
            assert not sent.done()
            for _ in range(count):
                assert client.take() == Message(Packet.WORK_DATA, handle + b"\0" + chunk)
            assert client.take() == Message(Packet.WORK_COMPLETE, handle + b"\0")
            sent.result()


@pytest.mark.parametrize("text", ["shutdown", "shutdown graceful"])
def test_a_local_peer_may_stop_the_server(tmp_path: Path, text: str) -> None:
    with Server(tmp_path / "data", speaks=("gearman",)) as server:
        assert Peer.to(server).line(text) == Message(0, b"OK\r\n")
        assert server.wait(WAIT_S) == 0


def test_a_running_job_may_end_while_the_server_stops(tmp_path: Path) -> None:
    with Server(tmp_path / "data", speaks=("gearman",)) as server:
        client, worker = Peer.to(server), Peer.to(server)
        worker.say(Packet.CAN_DO, b"f")
        handle = client.ask(Packet.SUBMIT_JOB, b"f", b"", b"work").body
        worker.ask(Packet.GRAB_JOB)
        os.kill(server.process.pid, signal.SIGTERM)
        while "stopping" not in server.log_tail():
            time.sleep(0.01)
        assert worker.ask(Packet.GRAB_JOB).number == Packet.NO_JOB
        worker.say(Packet.WORK_COMPLETE, handle, b"result")
        assert client.take().body == handle + b"\0result"
        assert server.wait(WAIT_S) == 0


def test_its_functions_and_jobs_show_in_the_commands(tmp_path: Path) -> None:
    with Server(tmp_path / "data", speaks=("gearman",)) as server:
        Peer.to(server).ask(Packet.SUBMIT_JOB_BG, b"resize", b"u", b"work")
        for words, shown in ((("queues", "ls"), "resize"), (("jobs", "ls"), "H:")):
            command = [sys.executable, "-m", "franca", *words, "--data", str(server.data)]
            said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
            assert shown in said.stdout
