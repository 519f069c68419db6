"""Clients of the control socket that leave, wait, or send and take too much."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from franca.control import server
from franca.control.path import reachable
from franca.control.server import ControlServer
from tests.control.kit import FakeNode
from tests.control.served import served

STATUS = b'{"op":"server.status"}\n'
SHOW = b'{"op":"jobs.show","params":{"job":1}}\n'


@contextmanager
def client(directory: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as peer, reachable(str(directory)) as path:
        peer.settimeout(10)
        peer.connect(path)
        yield peer


def reply(peer: socket.socket) -> Any:
    with peer.makefile("rb") as replies:
        return json.loads(replies.readline() or b"null")


def ask(directory: Path, line: bytes = STATUS) -> Any:
    with client(directory) as peer:
        peer.sendall(line)
        return reply(peer)


class ClosedWriter:
    """What an event loop makes of a client that has left."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.transport = self

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        raise self.error

    def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [RuntimeError("handler is closed"), ConnectionResetError()])
def test_a_client_that_leaves_before_its_answer_ends_its_own_talk_only(
    tmp_path: Path, error: Exception
) -> None:
    async def talk() -> list[Exception]:
        errors: list[Exception] = []
        control = ControlServer(FakeNode(), str(tmp_path), on_error=errors.append)
        reader = asyncio.StreamReader()
        reader.feed_data(STATUS + STATUS)
        writer: Any = ClosedWriter(error)
        await asyncio.create_task(control._serve(reader, writer))
        return errors

    assert asyncio.run(talk()) == []


def test_a_mistake_in_a_talk_is_reported_and_ends_that_talk_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(*_: object) -> bytes:
        raise KeyError("a mistake")

    with served(FakeNode(), tmp_path) as errors:
        with monkeypatch.context() as patch:
            patch.setattr(ControlServer, "_exchange", mistaken)
            with client(tmp_path) as peer:
                assert peer.recv(100) == b""
        assert ask(tmp_path)["ok"]
        assert [type(error) for error in errors] == [KeyError]


def test_one_client_too_many_takes_the_place_of_one_that_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CLIENTS_MAX", 3)
    with served(FakeNode(), tmp_path), ExitStack() as clients:
        first, *others = [clients.enter_context(client(tmp_path)) for _ in range(3)]
        for peer in (first, *others):
            peer.sendall(STATUS)
            assert reply(peer)["ok"]
        assert ask(tmp_path)["ok"]
        assert first.recv(100) == b""


def test_one_client_too_many_is_refused_if_all_have_asked_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CLIENTS_MAX", 0)
    with served(FakeNode(), tmp_path), client(tmp_path) as peer:
        assert reply(peer)["error"]["code"] == "busy"


def test_a_line_that_was_begun_must_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LINE_S", 0.05)
    for begun in (b"{", b" " * 200_000):
        with served(FakeNode(), tmp_path), client(tmp_path) as peer:
            peer.sendall(begun)
            assert reply(peer)["error"]["code"] == "timed-out"


def test_long_lines_are_read_one_at_a_time_and_short_ones_meanwhile(tmp_path: Path) -> None:
    half = b" " * 150_000
    with served(FakeNode(), tmp_path), client(tmp_path) as first, client(tmp_path) as second:
        first.sendall(half)
        second.sendall(half)
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:  # nobody reads it
                second.send(half)
        assert ask(tmp_path)["ok"]
        first.sendall(STATUS)
        assert reply(first)["ok"]
        second.settimeout(10)
        second.sendall(STATUS)
        assert reply(second)["ok"]


def test_an_answer_that_is_not_taken_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ANSWER_S", 0.1)
    node = FakeNode()
    node.broker.jobs[node.submit().id].body = b'["' + b"x" * 5_000_000 + b'"]'
    with served(node, tmp_path), client(tmp_path) as idler:
        idler.sendall(SHOW * 3)
        assert len(ask(tmp_path, SHOW)["result"]["jobs"][0]["body"][0]) == 5_000_000
        assert ask(tmp_path)["ok"]
        with pytest.raises(ConnectionError):
            taken = 1
            while taken:
                taken = len(idler.recv(1 << 20))
            raise ConnectionResetError


def test_a_long_answer_is_made_when_the_one_before_it_is_sent(tmp_path: Path) -> None:
    node = FakeNode()
    node.broker.jobs[node.submit().id].body = b'["' + b"x" * 5_000_000 + b'"]'
    with served(node, tmp_path), client(tmp_path) as first, client(tmp_path) as second:
        first.sendall(SHOW)
        first.recv(1)
        second.sendall(SHOW)
        second.settimeout(0.1)
        with pytest.raises(TimeoutError):
            second.recv(1)
        assert ask(tmp_path)["ok"]
        with first.makefile("rb") as rest:
            rest.readline()
        second.settimeout(10)
        assert reply(second)["ok"]
