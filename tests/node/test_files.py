"""Files that services have read to them: at the start, when they change, and when they go wrong."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from franca.node import files
from franca.node.files import FileWatches
from franca.node.settings import ConfigError
from franca.protocols.conversation import Conversation, Link, Service


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


def run(*services: Service) -> None:
    async def start() -> None:
        watches = FileWatches(services)
        watches.start()
        watches.stop()

    asyncio.run(start())


def test_a_file_is_read_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    reader = Reader(path)
    run(reader)
    assert reader.heard == [b"one"]


@pytest.mark.parametrize("content", [None, b"bad"])
def test_a_file_that_is_missing_or_wrong_at_the_start_is_a_wrong_setting(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=str(path)):
        run(Reader(path))


def test_a_file_too_large_to_be_one_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    monkeypatch.setattr(files, "BYTES_MAX", 10)
    with pytest.raises(ConfigError):
        run(Reader(path))


def test_later_only_changes_are_read_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    reader = Reader(path)

    async def live() -> None:
        watches = FileWatches([reader])
        watches.start()
        watches.look(reader)
        for number, content in enumerate((b"two", b"bad", b"three")):
            path.write_bytes(content)
            os.utime(path, ns=(number, number))
            watches.look(reader)
            watches.look(reader)
        path.unlink()
        watches.look(reader)
        path.write_bytes(b"back")
        watches.look(reader)
        watches.stop()

    asyncio.run(live())
    assert reader.heard == [b"one", b"two", b"three", b"back"]


def test_a_pipe_is_no_file_of_settings_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file"):
        run(Reader(path))
