"""Shell completion: the scripts, and the words that a shell is given."""

import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from franca.cli.main import cli
from tests.cli.conftest import Shell
from tests.cli.double import Double

KNOWN = {
    "queue": [{"value": "mail", "hint": "3 jobs"}, {"value": "news"}, {"value": "bad\x1bname"}],
    "type": [{"value": "SendMail"}],
    "worker": [{"value": "mail-1"}],
    "via": [{"value": "gearman"}],
}


def asked(*words: str) -> dict[str, str]:
    """How zsh asks for the last of the words."""
    return {
        "_FRANCA_COMPLETE": "zsh_complete",
        "COMP_WORDS": " ".join(["franca", *words[:-1], f"'{words[-1]}'"]),
        "COMP_CWORD": str(len(words)),
    }


def completed(*words: str) -> list[str]:
    """What zsh would be told."""
    done = CliRunner().invoke(cli, [], env=asked(*words), prog_name="franca")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout.splitlines()[1::3]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["que"], ["queues"]),
        (["queues", "p"], ["pause", "purge"]),
        (["queues", "pause", ""], ["mail", "news"]),
        (["queues", "pause", "mail", "n"], ["news"]),
        (["push", "m"], ["mail"]),
        (["push", "mail", "S"], ["SendMail"]),
        (["jobs", "ls", "--queue", "n"], ["news"]),
        (["jobs", "ls", "--type", ""], ["SendMail"]),
        (["jobs", "ls", "ra"], ["ran>"]),
        (["jobs", "ls", "state:d"], ["state:done", "state:dead"]),
        (["jobs", "ls", "via:"], ["via:gearman"]),
        (["jobs", "ls", "nonsense:x"], []),
        (["workers", "show", ""], ["mail-1"]),
        (["schedules", "add", "nightly", "n"], ["news"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_words_are_completed(
    shell: Shell, double: Double, words: list[str], expected: list[str]
) -> None:
    double.answers["known"] = KNOWN
    assert completed(*words) == expected


def test_a_shell_is_answered_by_a_process(shell: Shell, double: Double) -> None:
    double.answers["known"] = KNOWN
    code = "import sys; sys.argv[0] = 'franca'; from franca.cli.main import main; main()"
    env = os.environ | asked("queues", "pause", "")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1::3] == ["mail", "news"]


def test_without_a_server_there_are_no_names_and_no_noise(shell: Shell) -> None:
    assert completed("queues", "pause", "") == []


def test_a_server_that_does_not_know_says_nothing(shell: Shell, double: Double) -> None:
    assert completed("queues", "pause", "") == []
    double.answers["known"] = [1, 2]
    assert completed("queues", "pause", "") == []


def test_no_command_is_loaded_to_complete_its_name() -> None:
    code = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from franca.cli.main import cli\n"
        "of = ShellComplete(cli, {}, 'franca', '_FRANCA_COMPLETE')\n"
        "assert 'doctor' in [item.value for item in of.get_completions([], '')]\n"
        "print([name for name in sys.modules if name.startswith('franca.cli.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {"franca.cli.main", "franca.cli.group", "franca.cli.terminal"}
    assert set(eval(done.stdout)) == loaded  # noqa: S307


@pytest.mark.parametrize("of_shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_takes(shell: Shell, of_shell: str) -> None:
    script = shell("completion", of_shell).stdout
    assert "_FRANCA_COMPLETE" in script
    program = shutil.which(of_shell)
    if program is None:
        pytest.skip(f"{of_shell} is not here")
    # Loaded where the command is there, as it is in an environment that is active.
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(
        [program, "-c", script], capture_output=True, text=True, env=os.environ | {"PATH": path}
    )
    assert "syntax" not in done.stderr.lower()
    if of_shell == "bash":
        assert done.returncode == 0, done.stderr


def test_a_wrong_shell_is_a_wrong_use(shell: Shell) -> None:
    shell("completion", "tcsh", code=2)
