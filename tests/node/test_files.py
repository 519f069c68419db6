"""Files that services have read to them: at the start, when they change, and when they go wrong."""

import os
from pathlib import Path

import pytest

from franca.node import files
from franca.node.files import FileWatches
from franca.node.settings import ConfigError
from franca.protocols.conversation import Conversation, Link
from franca.protocols.service import Service


class Reader(Service):
    """A service that notes what it is read, and likes no bad news."""

    name = "reader"

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self.heard: list[bytes] = []

    def open(self, link: Link, now: int) -> Conversation:
        raise AssertionError("nobody connects to it")

    def take_file(self, content: bytes) -> str:
        if content == b"bad":
            raise ValueError("bad news")
        self.heard.append(content)
        return "noted"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_file_is_read_at_the_start(path: Path) -> None:
    path.write_bytes(b"one")
    reader = Reader(path)
    FileWatches([reader]).read()
    assert reader.heard == [b"one"]


@pytest.mark.parametrize("content", [None, b"bad"])
def test_a_wrong_file_at_the_start_is_a_wrong_setting(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=str(path)):
        FileWatches([Reader(path)]).read()


def test_a_file_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"x" * 11)
    monkeypatch.setattr(files, "BYTES_MAX", 10)
    with pytest.raises(ConfigError):
        FileWatches([Reader(path)]).read()


def test_later_only_changes_are_read_and_a_wrong_one_changes_nothing(path: Path) -> None:
    path.write_bytes(b"one")
    reader = Reader(path)

    watches = FileWatches([reader])
    watches.read()
    watches.look()
    for number, content in enumerate((b"two", b"bad", b"three")):
        path.write_bytes(content)
        os.utime(path, ns=(number, number))
        watches.look()
        watches.look()
    path.unlink()
    watches.look()
    path.write_bytes(b"back")
    watches.look()

    assert reader.heard == [b"one", b"two", b"three", b"back"]


def test_a_pipe_is_no_file_of_settings_and_nobody_waits_for_its_writer(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file"):
        FileWatches([Reader(path)]).read()
