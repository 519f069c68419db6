"""Colours, widths and bars: on a terminal only, and where people said so."""

import os
import pty
import subprocess
import sys

import pytest

from franca.cli import terminal
from franca.cli.output import table_lines
from tests.cli.conftest import Shell
from tests.cli.double import Double
from tests.cli.recorded import job, page


@pytest.mark.parametrize(
    ("env", "is_terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_who_decides_about_colours(env: dict[str, str], is_terminal: bool, expected: bool) -> None:
    assert terminal.wants_colour(env, is_terminal) is expected


def test_colours_are_written_where_they_are_wanted(
    shell: Shell, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.answers["jobs.search"] = page(job(state="dead"))
    assert "\x1b" not in shell("jobs", "ls", "x").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    told = shell("jobs", "ls", "x").stdout
    assert "\x1b[1mID" in told
    assert "\x1b[31mdead" in told
    assert "\x1b" not in shell("jobs", "ls", "x", "--no-color").stdout
    assert "\x1b" not in shell("--no-color", "jobs", "ls", "x").stdout
    assert "\x1b" not in shell("jobs", "ls", "x", "--json").stdout


def test_what_a_peer_wrote_has_no_colours_of_its_own(
    shell: Shell, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    double.answers["jobs.search"] = page(job(type="\x1b[31mred"))
    assert "\\u001b[31mred" in shell("jobs", "ls", "x").stdout


@pytest.mark.parametrize("room", [30, 40, 80])
def test_a_table_is_as_wide_as_the_terminal_at_most(room: int) -> None:
    rows = [{"a": "x" * 50, "b": 17, "c": "日本語のキュー"}, {"a": "y", "b": 1, "c": "z" * 20}]
    lines = table_lines("A B C", "a b c", rows, room)
    assert max(map(terminal.width, lines)) <= room
    assert lines[1].split()[1] == "17"


def test_columns_stand_below_each_other_whatever_is_in_them() -> None:
    rows = [{"a": "日本", "b": "x"}, {"a": "abcd", "b": "y"}]
    lines = table_lines("A B", "a b", rows)
    assert [
        terminal.width(line[: line.index(last)]) for line, last in zip(lines, "Bxy", strict=True)
    ] == [6, 6, 6]


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [(999, "B", "999 B"), (12_500_000, "B", "12.5 MB"), (3 * 10**15, "B", "3000.0 TB"),
     (1234, "jobs", "1,234 jobs"), (0, "", "0")],
)  # fmt: skip
def test_amounts_are_short(number: int, unit: str, text: str) -> None:
    assert terminal.amount(number, unit) == text


def test_a_bar_is_shown_on_a_terminal_and_nowhere_else() -> None:
    code = (
        "from franca.cli.terminal import Progress\n"
        "with Progress('copy') as bar:\n"
        "    bar.show(25, 100, 'jobs')\n"
        "    bar.show(26, 100, 'jobs')\n"  # too soon after the one before it
        "    bar._drawn_at = 0.001\n"
        "    bar.show(50, None, 'jobs')\n"
    )
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert piped.stderr == b""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm"}
    with open(ours, "rb", buffering=0) as reader:
        subprocess.run([sys.executable, "-c", code], stderr=theirs, env=env, check=True)
        shown = reader.read(4096).decode()
        os.close(theirs)
    assert "copy  [########......................]  25%  25 jobs" in shown
    assert "26%" not in shown
    assert "copy  50 jobs" in shown
    assert shown.endswith("\r\x1b[K")
