"""Real NNG peers (`pynng`), unchanged, against a real server."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pynng
import pytest

from tests.real.memo import PATIENCE_MS, Worker, run
from tests.support.memodb import MemoDB
from tests.support.server import Server

SMALL, MIDDLE, LARGE = 32, 64 * 1024, 8 * 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path / "data", speaks=("memodb",))


def address(server: Server) -> str:
    return f"tcp://127.0.0.1:{server.ports['memodb']}"


@pytest.mark.parametrize("size", [0, SMALL, MIDDLE, LARGE])
def test_a_job_of_any_size_goes_to_a_worker_and_its_result_comes_back(
    server: Server, size: int
) -> None:
    payload = hashlib.shake_128(b"%d" % size).digest(size)
    with (
        server,
        Worker(address(server), ["alive.tv"], lambda body: body[::-1]) as worker,
        pynng.Req0(dial=address(server), recv_timeout=PATIENCE_MS) as client,
    ):
        assert run(client, "alive.tv", payload) == payload[::-1]
        assert worker.ran == [payload]


def test_a_peer_of_few_lines_is_served_too(server: Server) -> None:
    """The witness of the proofs, against the server and beside NNG."""
    with (
        server,
        Worker(address(server), ["echo"], lambda body: body),
        MemoDB(server.ports["memodb"]) as client,
    ):
        assert client.run("echo", b"said") == b"said"
