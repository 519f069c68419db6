"""The control socket: who may open it, and what it answers to nonsense."""

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from franca.control import client
from franca.control.path import NAME, reachable, written
from tests.control.kit import FakeNode
from tests.control.served import served


def talk(directory: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Send all lines at once on one connection and read as many replies."""
    with socket.socket(socket.AF_UNIX) as peer, reachable(str(directory)) as path:
        peer.settimeout(10)
        peer.connect(path)
        peer.sendall(b"".join(line + b"\n" for line in lines))
        with peer.makefile("rb") as replies:
            return [json.loads(replies.readline()) for _ in lines]


def test_only_the_owner_may_open_it(tmp_path: Path) -> None:
    with served(FakeNode(), tmp_path):
        mode = (tmp_path / NAME).stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600


def test_it_is_gone_after_a_stop(tmp_path: Path) -> None:
    with served(FakeNode(), tmp_path):
        pass
    assert not (tmp_path / NAME).exists()


def test_a_socket_left_by_a_killed_server_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead, reachable(str(tmp_path)) as path:
        dead.bind(path)
    with served(FakeNode(), tmp_path):
        assert talk(tmp_path, b'{"op":"server.status"}')[0]["ok"]


def test_a_file_of_that_name_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("precious")
    with pytest.raises(OSError), served(FakeNode(), tmp_path):
        pass
    assert (tmp_path / NAME).read_text() == "precious"


def test_many_lines_on_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    with served(FakeNode(), tmp_path):
        push = b'{"op":"jobs.push","params":{"queue":"q","type":"t"}}'
        replies = talk(tmp_path, push, b"nonsense", push)
    assert [reply["ok"] for reply in replies] == [True, False, True]
    assert [replies[0]["result"]["id"], replies[2]["result"]["id"]] == [1, 2]


def test_a_line_without_end_is_refused_and_others_are_served(tmp_path: Path) -> None:
    with served(FakeNode(frame_bytes_max=1000, body_bytes_max=1000), tmp_path):
        reply = talk(tmp_path, b"x" * 5_000)[0]
        assert reply["error"]["code"] == "too-much"
        assert talk(tmp_path, b'{"op":"server.status"}')[0]["ok"]


def test_an_error_of_ours_is_reported_and_answered(tmp_path: Path) -> None:
    with served(FakeNode(), tmp_path) as errors:
        with pytest.raises(client.Declined, match="/x exists"):
            client.call(str(tmp_path), "server.backup", {"path": "/x"})
        assert [type(error) for error in errors] == [OSError]


def test_a_data_directory_deeper_than_a_sockets_path_may_be_is_served(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    with served(FakeNode(), deep):
        assert json.loads(client.call(str(deep), "server.status"))["version"] == "test"
    assert os.listdir(deep) == []


def test_no_server_is_told_from_a_server_that_says_no(tmp_path: Path) -> None:
    with pytest.raises(client.CannotConnect):
        client.call(str(tmp_path), "server.status")
    with served(FakeNode(), tmp_path), pytest.raises(client.Declined) as refusal:
        client.call(str(tmp_path), "jobs.show", {"job": 1})
    assert refusal.value.code == "not-found"


def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as mute, reachable(str(tmp_path)) as path:
        mute.bind(path)
        mute.listen()
        with pytest.raises(client.TimedOut):
            client.call(str(tmp_path), "server.status", timeout_s=0.05)


def test_a_path_that_is_no_utf_8_is_written_out() -> None:
    assert written("/tmp/x\udcff é") == "/tmp/x\\xff é"
