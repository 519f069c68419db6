"""`franca top`: what one picture shows, and that it comes and goes on a terminal."""

import os
import pty
import select
import subprocess
import sys
import termios

import pytest

from franca.cli.terminal import width
from franca.cli.top import Look, frame, shares
from franca.node import exits
from tests.cli import recorded
from tests.cli.conftest import Shell
from tests.cli.double import Double


def seen(queues: int = 1, running: int = 1, workers: int = 1) -> Look:
    notice = {"what": "paused", "level": "warn", "queue": "q" * 200, "facts": {"ready": 3}}
    return Look(
        status=recorded.STATUS,
        overview=recorded.overview(
            notices=[notice] * 9,
            queues=[recorded.queue(f"queue-{n}-{'x' * 90}", ready=n) for n in range(queues)],
        ),
        workers=[recorded.worker(f"worker-{n}-{'y' * 90}") for n in range(workers)],
        running=[recorded.job(n, progress={"n": 3, "of": 4, "text": "é" * 90}) for n in range(running)],
    )  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (80, 10), (72, 5), (72, 1)])
@pytest.mark.parametrize("many", [0, 1, 100])
def test_a_picture_fits_the_terminal(size: tuple[int, int], many: int) -> None:
    columns, lines = size
    picture = frame(seen(many, many, many), columns, lines)
    assert len(picture) <= lines
    assert max(map(width, picture)) <= columns


def test_every_part_is_on_a_small_terminal() -> None:
    picture = frame(seen(100, 100, 100), 80, 24)
    firsts = [line.split()[0] for line in picture if line]
    heads = [word for word in firsts if word.isalpha() and word.isupper()]
    assert heads == ["QUEUE", "JOB", "WORKER"]
    assert picture[0].startswith("Franca 1.2.3  up 2h  12:00:05 UTC")
    assert "12,345 ready" in picture[1]
    assert "pushed 12.2/s" in picture[2]
    assert "3 of 5 workers busy" in picture[2]
    queues = [line for line in picture if line.startswith("queue-")]
    assert queues[0].startswith("queue-99"), "those with most to do come first"


@pytest.mark.parametrize(
    ("wanted", "room", "given"),
    [
        ([9, 9, 9], 9, [3, 3, 3]),
        ([1, 9, 9], 9, [1, 4, 4]),
        ([2, 2, 2], 99, [2, 2, 2]),
        ([5], -3, [0]),
    ],
)
def test_room_is_shared(wanted: list[int], room: int, given: list[int]) -> None:
    assert shares(wanted, room) == given


@pytest.fixture
def answers(double: Double) -> Double:
    double.answers |= {
        "server.status": recorded.STATUS,
        "overview": recorded.overview(),
        "workers.find": {"workers": [recorded.worker()]},
        "jobs.search": recorded.page(recorded.job(7)),
    }
    return double


def test_once_prints_one_picture(shell: Shell, answers: Double) -> None:
    told = shell("top", "--once").stdout
    assert told.startswith("Franca 1.2.3")
    assert "SendMail" in told
    assert "\x1b" not in told
    assert len(answers.params_of("overview")) == 1
    assert shell("top").stdout.startswith("Franca 1.2.3"), "without a terminal it is the same"
    assert shell.json("top") == recorded.overview()


def test_without_a_server_there_is_no_picture(shell: Shell) -> None:
    shell("top", "--once", code=exits.NO_CONNECTION)


def read_until(terminal: int, text: bytes, shown: bytes = b"") -> bytes:
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], 20)
        assert ready, shown
        shown += os.read(terminal, 65536)
    return shown


def test_it_is_live_on_a_terminal_until_a_key_is_pressed(shell: Shell, answers: Double) -> None:
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    before = termios.tcgetattr(theirs)
    words = [sys.executable, "-m", "franca", "top", "--every", "200ms"]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        read_until(ours, b"\x1b[?1049h")
        for _ in range(2):  # one picture after the other
            read_until(ours, b"Franca 1.2.3")
        answers.answers.pop("overview")
        read_until(ours, b"no operation")
        os.write(ours, b"q")
        last = read_until(ours, b"\x1b[?1049l")
        assert process.wait(20) == exits.OK
    assert b"\x1b[?25h" in last
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    assert len(answers.params_of("jobs.search")) >= 2
