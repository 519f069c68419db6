"""MemoDB: large jobs and results, and what is too large."""

import os
from typing import TypeVar

import pytest

from tests.cases.conftest import StartServer, or_none, peak_mb
from tests.support import memodb
from tests.support.memodb import MemoDB, Reply
from tests.support.server import Server

MIB = 1024 * 1024
T = TypeVar("T")


def peer(server: Server, timeout: float = 30.0) -> MemoDB:
    return MemoDB(server.ports["memodb"], timeout=timeout)


def given(worker: MemoDB) -> Reply | None:
    """The next message that comes."""
    return or_none(worker.read)


@pytest.mark.case(26)
@pytest.mark.long
@pytest.mark.parametrize("size", [17 * MIB, 40 * MIB, 64 * MIB])
def test_large_jobs_and_results_pass(start: StartServer, size: int) -> None:
    server = start(speaks=("memodb",))
    client, worker = peer(server), peer(server)
    worker.ask(memodb.ready("s"))
    body = os.urandom(MIB) * (size // MIB)
    or_none(lambda: client.ask(memodb.job("s", body, 60_000)))
    task = given(worker)
    assert task is not None, f"a job of {size} bytes was never given out"
    assert task.op == memodb.JOB, f"a job of {size} bytes was never given out"
    assert task.payload == body
    worker.ask(memodb.result(task.worker, body[::-1]))
    answer = given(client)
    assert answer is not None, f"a result of {size} bytes never came"
    assert answer.payload == body[::-1]
    assert peak_mb(server) < 800, f"{peak_mb(server)} MB"


@pytest.mark.case(26)
@pytest.mark.long
def test_what_is_too_large_is_logged_with_its_size_and_peer(start: StartServer) -> None:
    server = start(speaks=("memodb",))
    client = peer(server, timeout=5.0)
    size = 70 * MIB
    or_none(lambda: client.ask(memodb.job("s", b"x" * size)))
    assert given(client) is None
    lines = [line for line in server.log_lines() if f"{70 * MIB // 100_000}" in line]
    assert lines, "nothing about it in the log"
    assert str(client.local_port) in lines[0], f"without the peer: {lines[0]}"


@pytest.mark.case(26)
@pytest.mark.long
def test_a_result_that_is_too_large_is_not_made_again_and_again(start: StartServer) -> None:
    server = start(speaks=("memodb",))
    client, worker = peer(server), peer(server, timeout=3.0)
    worker.ask(memodb.ready("s"))
    client.ask(memodb.job("s", b"job", 60_000))
    task = given(worker)
    assert task is not None
    large = memodb.result(task.worker, b"x" * (80 * MIB))
    or_none(lambda: worker.ask(large))
    is_there = or_none(lambda: worker.ask(memodb.ready("t"))) is not None
    assert is_there, "the worker's connection was closed because of its result"
    other = peer(server, timeout=3.0)
    other.ask(memodb.ready("s"))
    again = given(other)
    assert again is None or again.op != memodb.JOB, "the job was given to another worker"
    later = peer(server)
    later.ask(memodb.job("s", b"next"))
    task = given(worker)
    assert task is not None, "the worker's connection was closed because of its result"
    assert task.payload == b"next"
