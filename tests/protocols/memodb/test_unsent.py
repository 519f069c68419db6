"""Peers that do not read: what waits for them is bounded, over all of them."""

from franca.core.limits import Limits
from franca.protocols.memodb.outbox import HARD, Outbox, Unsent
from tests.protocols.memodb.puppet import SECOND, Puppet, World
from tests.support import memodb as m
from tests.support.memodb import stack
from tests.support.memory import traced

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


def pass_seconds(world: World, seconds: int, worker: Puppet) -> None:
    """Let time go by, in which this worker says that it is alive whenever it is asked."""
    for _ in range(seconds):
        world.pass_time(SECOND)
        for beat in worker.heard():
            assert beat.op == m.HEARTBEAT, beat
            worker.heartbeat(beat)


def test_a_ready_said_many_times_is_written_once(world: World) -> None:
    worker = world.peer()
    world.foreign_job("s", b'["%b","y"]' % (b"x" * MIB), "json-args")
    worker.chokes_at = 1
    again = worker.asking(1, m.ready("s"))
    with traced() as memory:
        worker.send(again * 64)
    assert memory.peak < 6 * MIB
    assert len(worker.given().payload) == MIB + 8
    assert (worker.hear(), world.service.unsent.bytes) == (None, 0)
    # Once it has left, the same request is from somebody who has not heard it.
    worker.drain()
    assert len(worker.given().payload) == MIB + 8
    assert worker.hear() is None


def test_an_answer_that_waits_goes_where_its_request_was_said_last(world: World) -> None:
    link, unsent = world.peer().link, Unsent(MIB)
    outbox = Outbox(link, world.limits, unsent)
    link.full = True
    outbox.send(stack(1, 2), b"head", b"body", worker=b"worker")
    assert outbox.is_on_its_way(b"worker", outbox.count, stack(1, 3, 4), is_small=True)
    link.full = False
    outbox.flush()
    (message,) = link.out
    assert message[8:] == stack(1, 3, 4) + b"headbody"
    assert unsent.bytes == 0


def test_a_reply_that_waits_is_put_down_once_however_often_it_is_asked_for(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(request=5)
    worker.result(worker.given(), b"r" * SIZE)
    client.answer()
    world.engine.hold_back(client.link)
    for _ in range(10):
        message = client.asking(5, m.job("s", b"x", 5_000))
        world.share(client.link, message)
    assert world.service.unsent.bytes < 1.1 * SIZE
    client.drain()
    assert len(client.answer().payload) == SIZE
    assert (client.hear(), world.service.unsent.bytes) == (None, 0)


def test_a_client_is_not_dropped_for_what_it_asked_while_replies_wait_for_it_to_read() -> None:
    world = World(limits=Limits(fleeting_bytes=6_000))
    client, worker = world.peer(), world.worker()
    asked = 0
    while len(world.all_jobs) == asked:
        asked += 1
        client.job()
    world.engine.hold_back(client.link)
    for _ in world.all_jobs:
        worker.result(worker.given(), b"r" * SIZE)
    assert not client.is_hung_up
    client.drain()
    assert [len(client.answer().payload) for _ in range(asked - 1)] == [SIZE] * (asked - 1)
    assert client.is_hung_up


def test_who_takes_nothing_for_long_goes_when_too_much_waits() -> None:
    world = World(unsent_bytes=10 * SIZE)
    worker = world.worker()
    small, large = deaf_client(world, worker, 1), deaf_client(world, worker, 8)
    pass_seconds(world, 20, worker)
    assert (small.is_hung_up, large.is_hung_up) == (False, False)
    other = deaf_client(world, worker, 3)
    pass_seconds(world, 12, worker)
    assert (large.is_hung_up, small.is_hung_up, other.is_hung_up) == (True, False, False)
    assert world.service.unsent.bytes < 5 * SIZE


def test_far_too_much_is_not_waited_for_and_readers_are_not_cut_off() -> None:
    world = World(unsent_bytes=15 * SIZE // HARD)
    worker, reader = world.worker(), world.peer()
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
    assert (world.service.unsent.bytes, world.service.unsent.waiting) == (0, {})


def test_one_reply_may_always_wait() -> None:
    world = World(unsent_bytes=1_000)
    client = deaf_client(world, world.worker(), 1)
    assert not client.is_hung_up
    client.drain()
    assert len(client.answer().payload) == SIZE


def test_a_result_that_many_wait_for_is_counted_once(world: World, worker: Puppet) -> None:
    clients = [world.peer() for _ in range(5)]
    for client in clients:
        client.job(b"z", request=9)
        world.engine.hold_back(client.link)
    task = worker.given()
    worker.ask(m.result(task.worker, b"r" * MIB))
    assert MIB < world.service.unsent.bytes < 1.1 * MIB
    for client in clients:
        client.drain()
        assert len(client.answer().payload) == MIB
    assert world.service.unsent.bytes == 0
