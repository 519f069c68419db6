"""The stage of each test, and the Node libraries, installed once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.real import emq as eventmq
from tests.real.kit import NODE, Stage


@pytest.fixture
def stage(tmp_path: Path, find_node: Callable[[], str]) -> Iterator[Stage]:
    """Servers and programs that end with the test."""
    with ExitStack() as stack:
        yield Stage(tmp_path, stack, find_node)


@pytest.fixture
def emq(tmp_path: Path) -> Iterator[eventmq.EmqStage]:
    """Brokers and peers of `eventmq` that end with the test."""
    peers = eventmq.install()
    with ExitStack() as stack:
        yield eventmq.EmqStage(tmp_path, stack, peers)


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    """An authority that nobody trusts but those who are told to."""
    return trustme.CA()


@pytest.fixture(scope="session")
def find_node(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Where `node` is, with its libraries installed; no Node is a skip, and a failure in CI."""
    said: list[str] = []

    def find() -> str:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node and npm:
            _install(npm)
            return node
        missing = " and ".join(n for n, path in (("node", node), ("npm", npm)) if path is None)
        reason = f"{missing} not found on PATH: the Node clients are NOT tested here"
        if os.environ.get("CI"):
            pytest.fail(reason)
        if not said:
            said.append(reason)
            _say_aloud(request, reason)
        pytest.skip(reason)

    return find


def _install(npm: str) -> None:
    """`npm ci`, unless it has been done for this very lock file; one process at a time."""
    lock = NODE / "package-lock.json"
    stamp = NODE / "node_modules" / ".installed"
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        wanted = hashlib.sha256(file.read()).hexdigest()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"], cwd=NODE, capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.fail(f"npm ci failed in {NODE}\n{done.stdout}{done.stderr}")
        stamp.write_text(wanted)


def _say_aloud(request: pytest.FixtureRequest, text: str) -> None:
    """Past pytest's capture: a skip alone would be one letter among hundreds of dots."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n*** {text} ***", file=sys.stderr, flush=True)
