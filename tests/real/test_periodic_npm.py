"""npm's `node-periodic` 0.1.0, 0.1.2 and 1.4.0, unchanged, on a listener as it is by default."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.kit import NODE, Program
from tests.support import periodic as p
from tests.support.server import Server

FOLDER = NODE / "periodic"
VERSIONS = ["0.1.0", "0.1.2", "1.4.0"]
Peers = Callable[[], Program]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "data", speaks=("periodic",)) as running:
        yield running


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest) -> str:
    """Where `node` is, with the libraries installed; what cannot be had is said aloud."""
    node, npm = shutil.which("node"), shutil.which("npm")
    reason = "" if node and npm else "node or npm not found on PATH"
    if npm and not reason:
        reason = _install(npm)
    if reason:
        reason += ": node-periodic is NOT tested here"
        capture = request.config.pluginmanager.getplugin("capturemanager")
        assert capture is not None
        with capture.global_and_fixture_disabled():
            print(f"\n*** {reason} ***", file=sys.stderr, flush=True)
        pytest.skip(reason)
    assert node
    return node


def _install(npm: str) -> str:
    """Fetch the libraries, once; why not, if they cannot be had."""
    stamp = FOLDER / "node_modules" / ".installed"
    with (FOLDER / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == lock.read():
            return ""
        argv = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True)
        if done.returncode != 0:
            complaints = [line for line in done.stderr.splitlines() if " code " in line]
            return f"npm cannot install it ({' '.join(complaints) or done.returncode})"
        stamp.write_text((FOLDER / "package.json").read_text())
    return ""


@pytest.fixture(params=VERSIONS)
def peers(
    request: pytest.FixtureRequest, tmp_path: Path, server: Server, node: str
) -> Iterator[Peers]:
    """Makes peers of one version, connected."""
    with ExitStack() as stack:
        count = 0

        def make() -> Program:
            nonlocal count
            count += 1
            library = f"node-periodic-{request.param}"
            spec = json.dumps({"library": library, "port": server.ports["periodic"]})
            argv = [node, str(FOLDER / "peer.js"), spec]
            peer = stack.enter_context(Program(argv, tmp_path / f"peer-{count}.stderr"))
            peer.said("ready")
            return peer

        yield make


def test_jobs_from_client_to_worker(peers: Peers) -> None:
    client, worker = peers(), peers()
    assert client.call("ping") == p.PONG
    worker.call("work", "echo")
    for number in range(3):
        assert client.call("submit", "echo", f"n{number}", f"hello {number}") == p.SUCCESS
        ran = worker.said("ran")
        assert (ran["func"], ran["name"]) == ("echo", f"n{number}")
        assert ran["workload"] == f"hello {number}"


def test_a_job_that_was_there_before_its_worker(peers: Peers) -> None:
    client = peers()
    assert client.call("submit", "echo", "n", "hello") == p.SUCCESS
    status = client.call("status")["echo"]
    assert (status["worker_count"], status["job_count"], status["processing"]) == (0, 1, 0)
    worker = peers()
    worker.call("work", "echo")
    assert worker.said("ran")["name"] == "n"
