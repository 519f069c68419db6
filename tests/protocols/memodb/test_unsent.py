"""Peers that do not read: what waits for them is bounded, over all of them."""

from __future__ import annotations

import tracemalloc

from franca.protocols.memodb.messages import encode_job, encode_ready, encode_result
from franca.protocols.memodb.outbox import HARD, Outbox, Unsent
from franca.protocols.memodb.settings import MemoDBSettings
from tests.protocols.memodb.puppet import SECOND, Puppet, World, stack, worker_on

MIB = 1024 * 1024
SIZE = 60_000


def deaf_client(world: World, worker: Puppet, results: int, size: int = SIZE) -> Puppet:
    """A client that asks for jobs and reads no result of them."""
    client = world.peer()
    for _ in range(results):
        client.job()
    world.engine.hold_back(client.link)
    for _ in range(results):
        worker.result(worker.given(), b"r" * size)
    return client


def test_a_ready_said_many_times_is_written_once() -> None:
    world = World()
    worker = world.peer()
    world.submit("s", b'["%b","y"]' % (b"x" * MIB), "json-args")
    worker.chokes_at = 1
    again = worker.frame(stack(1) + encode_ready(["s"]))
    tracemalloc.start()
    worker.send(again * 64)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * MIB
    assert len(worker.given().payload) == MIB + 8
    assert worker.hear() is None
    assert world.service.unsent.bytes == 0
    # Once it has left, the same request is from somebody who has not heard it.
    worker.drain()
    assert len(worker.given().payload) == MIB + 8
    assert worker.hear() is None


def test_an_answer_that_waits_goes_where_its_request_was_said_last() -> None:
    world = World()
    link, unsent = world.peer().link, Unsent(MIB)
    outbox = Outbox(link, world.limits, unsent)
    link.full = True
    outbox.say(stack(1, 2), b"head", b"body", key=b"worker")
    assert outbox.is_on_its_way(b"worker", outbox.count, stack(1, 3, 4), is_small=True)
    link.full = False
    outbox.flush()
    (message,) = link.out
    assert message[8:] == stack(1, 3, 4) + b"headbody"
    assert unsent.bytes == 0


def test_a_reply_that_waits_is_put_down_once_however_often_it_is_asked_for() -> None:
    world = World()
    client, worker = world.peer(), worker_on(world)
    client.job(request=5)
    worker.result(worker.given(), b"r" * SIZE)
    client.answer()
    world.engine.hold_back(client.link)
    for _ in range(10):
        message = client.frame(stack(5) + encode_job("s", 5_000, b"x"))
        client.conversation.receive(message, world.now)
    assert world.service.unsent.bytes < 1.1 * SIZE
    client.drain()
    assert len(client.answer().payload) == SIZE
    assert client.hear() is None
    assert world.service.unsent.bytes == 0


def test_who_takes_nothing_for_long_goes_when_too_much_waits() -> None:
    world = World(settings=MemoDBSettings(unsent_bytes=10 * SIZE))
    worker = worker_on(world)
    small, large = deaf_client(world, worker, 1), deaf_client(world, worker, 8)
    for _ in range(20):
        world.pass_time(SECOND)
        for beat in worker.hear_all():
            worker.heartbeat(beat)
    assert not small.is_hung_up
    assert not large.is_hung_up
    other = deaf_client(world, worker, 3)
    for _ in range(12):
        world.pass_time(SECOND)
        for beat in worker.hear_all():
            worker.heartbeat(beat)
    assert large.is_hung_up
    assert not small.is_hung_up
    assert not other.is_hung_up
    assert world.service.unsent.bytes < 5 * SIZE


def test_far_too_much_is_not_waited_for_and_readers_are_not_cut_off() -> None:
    world = World(settings=MemoDBSettings(unsent_bytes=15 * SIZE // HARD))
    worker, reader = worker_on(world), world.peer()
    deaf = []
    for _ in range(10):
        deaf.append(deaf_client(world, worker, 6))
        reader.job()
        worker.result(worker.given(), b"r" * SIZE)
        assert len(reader.answer().payload) == SIZE
        assert world.service.unsent.bytes <= 15 * SIZE
    assert sum(client.is_hung_up for client in deaf) >= 7
    assert not reader.is_hung_up
    for client in deaf:
        if not client.is_hung_up:
            client.hang_up()
    assert world.service.unsent.bytes == 0
    assert not world.service.unsent.waiting


def test_one_reply_may_always_wait() -> None:
    world = World(settings=MemoDBSettings(unsent_bytes=1_000))
    client = deaf_client(world, worker_on(world), 1)
    assert not client.is_hung_up
    client.drain()
    assert len(client.answer().payload) == SIZE


def test_a_result_that_many_wait_for_is_counted_once() -> None:
    world = World()
    worker = worker_on(world)
    clients = [world.peer() for _ in range(5)]
    for client in clients:
        client.job(b"z", request=9)
        world.engine.hold_back(client.link)
    task = worker.given()
    worker.ask(encode_result(b"r" * MIB, task.worker))
    assert MIB < world.service.unsent.bytes < 1.1 * MIB
    for client in clients:
        client.drain()
        assert len(client.answer().payload) == MIB
    assert world.service.unsent.bytes == 0
