"""A command line in a home of its own, with and without a server behind it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from franca.cli.main import cli
from franca.node.config import variable_of
from franca.node.settings import LISTENERS
from tests.cli.double import Double, answering
from tests.control.kit import FakeNode
from tests.control.served import served


class Shell:
    """Runs commands as a person would who has exported FRANCA_DATA."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def __call__(self, *words: str, code: int = 0, typed: str | bytes = "") -> Result:
        """Run one command, which must end with `code`."""
        result = CliRunner().invoke(cli, words, input=typed, prog_name="franca")
        assert result.exit_code == code, result.output
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """What a command prints with --json."""
        return json.loads(self(*words, "--json", code=code).stdout)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for variable in (
        "FAKTORY_PASSWORD", "STATE_DIRECTORY", "CONFIGURATION_DIRECTORY", "NO_COLOR", "FORCE_COLOR"
    ):  # fmt: skip
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("FRANCA_DATA", str(data))
    for listener in LISTENERS:
        if listener != "faktory":  # whose ports may be somebody's on this machine
            monkeypatch.setenv(variable_of(f"{listener}.listen"), "off")
    return Shell(data)


@pytest.fixture
def node(shell: Shell) -> Iterator[FakeNode]:
    """A server behind the command line."""
    node = FakeNode()
    with served(node, shell.data):
        yield node


@pytest.fixture
def double(shell: Shell) -> Iterator[Double]:
    """A control socket with recorded answers behind the command line."""
    double = Double()
    with answering(double, shell.data):
        yield double
