"""What a case starts: the server under test, from this tree or from another commit's."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.server import ROOT, Server, inherited, launcher

SOURCE = "FRANCA_CASES_SOURCE"
"""Names the folder that holds the package of the server under test; this tree's `src` without it."""

StartServer = Callable[..., Server]
T = TypeVar("T")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long cases out unless they are asked for by an expression of markers."""
    if not config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("long") is None]


def environment() -> dict[str, str]:
    """Variables with which a process runs the package under test."""
    source = os.environ.get(SOURCE) or str(ROOT / "src")
    return {"PYTHONPATH": os.pathsep.join((source, str(ROOT)))}


def under_test(data: Path, *args: str, speaks: Sequence[str] = ()) -> Server:
    """The server under test, not started."""
    return Server(data, extra_args=args, speaks=speaks, env=environment())


def peak_mb(server: Server) -> int:
    """The most memory that the server has ever had."""
    return server.rss_kib("VmHWM") // 1024


def or_none(say: Callable[[], T]) -> T | None:
    """What is heard; None if the connection ends or nothing comes."""
    try:
        return say()
    except OSError:
        return None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers, each on a data directory of its own unless one is given as `data`.

    `start("--flag", "value", speaks=("gearman",))`: every protocol named in `speaks` has a free port in
    `server.ports`, Faktory always has; the other listeners are off. All are killed after the test.
    """
    with ExitStack() as stack:
        numbers = count(1)

        def start_one(
            *args: str, speaks: Sequence[str] = (), data: Path | None = None, timeout: float = 20.0
        ) -> Server:
            data = data or tmp_path / f"data{next(numbers)}"
            server = under_test(data, *args, speaks=speaks)
            stack.push(server)
            return server.start(timeout)

        yield start_one


@pytest.fixture
def server(start: StartServer) -> Server:
    """One as it is by default."""
    return start()


@pytest.fixture
def cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `franca ARGS...` of the package under test; its output is text, its exit code not checked."""

    def run(*args: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, *launcher(), *args]
        env = inherited() | environment()
        return subprocess.run(
            argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout
        )

    return run
