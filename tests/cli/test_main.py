"""Help, wrong words, exit codes, and that a command starts without loading the server."""

import subprocess
import sys
from pathlib import Path

import pytest

from franca import __version__
from franca.cli.main import COMMANDS, run
from franca.node import exits
from tests.cli.conftest import Shell


def test_alone_it_shows_its_help_with_two_examples_first(shell: Shell) -> None:
    lines = shell().stdout.splitlines()
    assert lines[0] == "Examples:"
    assert lines[1].strip().startswith("franca serve")
    assert lines[2].strip().startswith("franca push default hello world")
    assert all(any(line.split()[:1] == [name] for line in lines) for name in COMMANDS)
    assert shell().stdout == shell("--help").stdout == shell("-h").stdout


@pytest.mark.parametrize("words", [["version"], ["--version"], ["-V"]])
def test_it_tells_its_version(shell: Shell, words: list[str]) -> None:
    assert __version__ in shell(*words).stdout


@pytest.mark.parametrize(
    "name", [*COMMANDS, "jobs ls", "queues purge", "workers quiet", "config show"]
)
def test_every_command_has_help(shell: Shell, name: str) -> None:
    assert f"Usage: franca {name}" in shell(*name.split(), "--help").stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["jbos"], "Did you mean 'jobs'?"),
        (["jobs", "lst"], "Did you mean 'ls'?"),
        (["queues", "purg"], "Did you mean 'purge'?"),
        (["zzz"], "See 'franca --help'"),
    ],
)
def test_a_wrong_command_is_answered_with_the_nearest(
    shell: Shell, words: list[str], hint: str
) -> None:
    assert hint in shell(*words, code=exits.USAGE).stderr


@pytest.mark.parametrize(
    "words",
    [
        ["push", "q", "t"],
        ["jobs", "ls"],
        ["jobs", "show", "1"],
        ["jobs", "retry", "1"],
        ["queues", "ls"],
        ["queues", "pause", "q"],
        ["workers", "ls"],
        ["status"],
        ["stop"],
        ["backup", "file"],
    ],
)
def test_without_a_server_every_command_says_so_and_how_to_start_one(
    shell: Shell, words: list[str]
) -> None:
    said = shell(*words, code=exits.NO_CONNECTION)
    assert "franca serve" in said.stderr
    assert str(shell.data) in said.stderr
    assert said.stdout == ""


def test_the_exit_code_is_the_same_outside_of_tests(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["version"]) == exits.OK
    assert run(["jobs", "ls"]) == exits.NO_CONNECTION
    assert run(["jbos"]) == exits.USAGE
    assert run(["config", "show", "--store", "redis:"]) == exits.BAD_CONFIG
    assert capsys.readouterr().out.strip() == __version__


def test_a_command_loads_neither_the_server_nor_its_loop(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from franca.cli.main import run\n"
        "run(['jobs', 'ls', '--data', sys.argv[1]])\n"
        "heavy = {'asyncio', 'uvloop', 'sqlite3', 'ssl', 'franca.engine', 'franca.node.node'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "franca", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == __version__
