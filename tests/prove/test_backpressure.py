"""A peer that is slow, or says much at once, gets every answer; and it costs nobody else anything."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.prove.observe import Memory
from tests.support.faktory import Faktory, job, push_line, push_many_line
from tests.support.server import Server

BIG = "x" * (4 << 20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Faktory]:
    with Faktory(server.port, timeout=10.0) as client:
        yield client.hello()


def test_a_long_line_behind_a_fetch_that_waits_is_read_to_its_end(client: Faktory) -> None:
    client.say("FETCH nothing-there")
    time.sleep(0.1)  # it waits now, and what follows piles up behind it
    big = push_line(job("big-job-1", BIG, queue="big"))
    sender = threading.Thread(target=client.say, args=(big, "INFO"))
    sender.start()
    assert client.read().body is None
    assert client.read().text == "OK"
    assert client.read().body
    sender.join()


def test_a_long_line_behind_many_short_ones_is_read_to_its_end(client: Faktory) -> None:
    big = push_line(job("big-job-2", BIG, queue="big"))
    sender = threading.Thread(target=client.say, args=(*["INFO"] * 3_000, big))
    sender.start()
    replies = [client.read() for _ in range(3_001)]
    assert [reply.kind for reply in replies] == ["$"] * 3_000 + ["+"]
    sender.join()


def test_who_reads_late_gets_every_answer_in_order(server: Server, client: Faktory) -> None:
    lines = [f"QUEUE LATENCY {'q' * 500}-{n}" for n in range(20_000)]
    sender = threading.Thread(target=client.say, args=lines)
    with Memory(server) as memory:
        sender.start()
        time.sleep(0.5)
        for n in range(20_000):
            assert client.read().body == f'{{"{"q" * 500}-{n}":0}}'.encode()
    sender.join()
    assert memory.peak_mib < 16


def test_who_reads_late_gets_the_answer_to_a_batch_that_was_being_taken(client: Faktory) -> None:
    ask = f"QUEUE LATENCY {'q' * 1_000}"
    rounds = 60
    lines: list[str] = []
    for turn in range(rounds):
        batch = [job(f"batch-{turn:02}-{n:04}", queue="batch") for n in range(600)]
        lines += [*[ask] * 120, push_many_line(batch)]
    sender = threading.Thread(target=client.say, args=lines)
    sender.start()
    time.sleep(1.0)
    for _ in range(rounds):
        for _ in range(120):
            assert client.read().text.startswith('{"qqq')
        assert client.read().text == "{}"
    sender.join()


def test_what_was_said_before_hanging_up_is_done_and_holds_up_nobody(server: Server) -> None:
    with Faktory(server.port) as hasty:
        hasty.hello()
        lines = [push_line(job(f"hasty-{n:05}", n, queue="hasty")) for n in range(2_000)]
        with suppress(OSError):
            hasty.say(*lines, *["INFO"] * 40_000)
    with Faktory(server.port) as witness:
        witness.hello(wid="witness-1")
        worst = 0.0
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            asked = time.monotonic()
            queues = witness.info()["faktory"]["queues"]
            worst = max(worst, time.monotonic() - asked)
            if queues.get("hasty") == 2_000:
                break
        assert queues.get("hasty") == 2_000
        assert worst < 0.5


def test_memory_is_watched_while_it_grows(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Memory(server) as memory:
        with Faktory(server.port) as client:
            client.hello().push(job("some-memory", "z" * (8 << 20), queue="memory"))
        assert memory.peak_mib > 8
