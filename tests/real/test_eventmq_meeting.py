"""How the real peers meet the server: heartbeats, names, and files instead of ports."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tests.real.emq import JOBS, EmqStage, not_the_original
from tests.support.server import HOST

HELD_S = 4.0
"""Longer than the time between two heartbeats."""

_GREETING_BYTES = 64
_MORE, _LONG = 1, 2


def test_without_a_heartbeat_no_process_is_started_and_nothing_is_run(emq: EmqStage) -> None:
    broker = emq.broker()
    client = emq.client(broker)
    with Holding(int(broker.addresses["workers"].rpartition(":")[2])) as between:
        manager = emq.job_manager(f"tcp://{HOST}:{between.port}")
        client.until_workers(1)
        client.defer("echo", "at last")
        time.sleep(HELD_S)
        (worker,) = client.workers().values()
        assert worker["available_slots"] == 0
        client.until_waiting(default=1)
        assert manager.heard() == []

        between.release.set()
        assert manager.ran(1) == [["at last"]]
        client.until_slots(1)


@not_the_original
def test_a_peer_without_a_name_of_its_own_is_served(emq: EmqStage) -> None:
    """The original dies of the five bytes that libzmq gives to such a peer."""
    broker = emq.broker()
    manager = emq.job_manager(broker)
    client = emq.client(broker)
    client.until_slots(1)
    call = {"callable": "echo", "path": JOBS, "args": ["nameless"]}
    frames = ["", "eMQP/1.0", "REQUEST", "nameless-1", "default", "", json.dumps(["run", call])]
    client.do("nameless", frames=frames)
    answer = client.do("nameless_answer")
    assert (answer[0], answer[2:]) == ("REPLY", ["nameless-1"])
    assert manager.ran(1) == [["nameless"]]


@not_the_original
def test_peers_may_meet_the_server_in_a_file_instead_of_a_port(emq: EmqStage) -> None:
    address = f"ipc://{emq.folder}/eventmq"
    broker = emq.broker("--eventmq", address)
    broker.addresses |= dict.fromkeys(("requests", "workers", "admin"), address)
    manager = emq.job_manager(broker)
    client = emq.client(broker)
    client.until_slots(1)
    client.defer("echo", "through a file")
    assert manager.ran(1) == [["through a file"]]


class Holding:
    """A proxy that passes on what the server says up to its first ACK, the rest when released."""

    def __init__(self, server_port: int) -> None:
        self.release = threading.Event()
        self._server_port = server_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._pass_on, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release.set()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
        for thread in self._threads:
            thread.join()

    def _pass_on(self) -> None:
        peer, _ = self._listener.accept()
        server = socket.create_connection((HOST, self._server_port))
        self._sockets += [peer, server]
        back = threading.Thread(target=self._pump_back, args=(server, peer), daemon=True)
        self._threads.append(back)
        back.start()
        try:
            while data := peer.recv(65_536):
                server.sendall(data)
        except OSError:
            pass  # the test is over

    def _pump_back(self, server: socket.socket, peer: socket.socket) -> None:
        try:
            for piece, acknowledges in _messages(server):
                peer.sendall(piece)
                if acknowledges:
                    self.release.wait()
        except OSError:
            pass  # the test is over


def _messages(server: socket.socket) -> Iterator[tuple[bytes, bool]]:
    """The greeting and every whole message, each with whether it is an ACK."""
    with server.makefile("rb") as stream:
        for _ in range(_GREETING_BYTES):  # said in parts, each in answer to one of the other side
            yield stream.read(1), False
        while True:
            whole, frames, flags = b"", [], _MORE
            while flags & _MORE:
                head = stream.read(2)
                if not head:
                    return
                flags = head[0]
                head += stream.read(7) if flags & _LONG else b""
                body = stream.read(int.from_bytes(head[1:], "big"))
                whole += head + body
                frames.append(body)
            yield whole, frames[2:3] == [b"ACK"]
