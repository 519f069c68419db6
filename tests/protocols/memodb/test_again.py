"""What is said again takes no more memory than what is said once, and holds nobody up."""

from collections.abc import Callable

import pytest

from tests.protocols.memodb.puppet import Puppet, World
from tests.support import memodb as m
from tests.support.memory import traced

MIB = 1024 * 1024
LONG = 65_000
TIMES = 64

SaidBefore = Callable[[World], tuple[bytes, bytes]]


def answered(world: World, size: int = LONG) -> tuple[bytes, bytes]:
    """A request whose reply is remembered, as it came, and that reply."""
    client, worker = world.peer(), world.worker()
    client.job(request=7)
    worker.result(worker.given(), b"r" * size)
    client.answer()
    (request,) = world.service.requests.by_key.values()
    return client.asking(7, m.job("s", b"x", 5_000)), request.reply


def at_work(world: World) -> tuple[bytes, bytes]:
    """The request of a worker that was answered with a long job, as it came, and that job."""
    client, worker = world.peer(), world.worker()
    client.job(b"first")
    task = worker.given()
    client.job(b"y" * LONG)
    worker.ask(m.result(task.worker, b"done"), 7)
    assert len(worker.given().payload) == LONG
    job = world.all_jobs[-1]
    return worker.asking(7, m.result(task.worker, b"done")), job.body


def of_another_protocol(world: World) -> bytes:
    """The same of a job of another protocol, whose worker is told it in other words."""
    client, worker = world.peer(), world.worker()
    client.job(b"first")
    task = worker.given()
    world.foreign_job("s", b'["%b","z"]' % (b"y" * (LONG // 40)), "json-args")
    worker.ask(m.result(task.worker, b"done"), 7)
    assert worker.hear() is not None
    return worker.asking(7, m.result(task.worker, b"done"))


@pytest.mark.parametrize("said_before", [answered, at_work])
def test_what_is_said_again_to_many_is_there_once(world: World, said_before: SaidBefore) -> None:
    request, body = said_before(world)
    peers = [world.peer() for _ in range(20)]
    with traced() as memory:
        for peer in peers:
            world.share(peer.link, request * TIMES)
    assert memory.held < MIB
    for peer in peers:
        assert len(peer.link.out) > 2
        assert all(piece is body for piece in peer.link.out[1::2])


@pytest.mark.parametrize("cut", [0, 20])
@pytest.mark.parametrize("said_before", [answered, at_work])
def test_a_share_ends_when_as_much_was_said_as_may_wait(said_before: SaidBefore, cut: int) -> None:
    world = World()
    request, _ = said_before(world)
    peer = world.peer()
    data = request * TIMES
    if cut:
        assert not world.share(peer.link, data[:cut])
    assert world.share(peer.link, data[cut:])
    said = sum(map(len, peer.link.out))
    most = world.limits.output_soft_bytes
    assert most < said < most + 2 * LONG
    # Who reads is told the rest in the turns that follow.
    peer.send(b"")
    assert [len(reply.payload) for reply in peer.heard()] == [LONG] * TIMES


def test_a_short_reply_is_said_again_in_one_piece_and_ends_no_share(world: World) -> None:
    request, _ = answered(world, 900)
    peer = world.peer()
    assert not world.share(peer.link, request * TIMES)
    assert [len(piece) for piece in peer.link.out] == [len(peer.link.out[0])] * TIMES


def test_a_result_many_asked_for_is_copied_once_at_most(worker: Puppet, world: World) -> None:
    clients = [world.peer() for _ in range(20)]
    for client in clients:
        client.job(request=9)
    task = worker.given()
    raw = worker.asking(1, m.result(task.worker, b"r" * LONG))
    with traced() as memory:
        world.share(worker.link, raw)
        world.engine.deliver(world.now)
    assert memory.held < 3 * LONG
    world.run()
    assert [len(client.answer().payload) for client in clients] == [LONG] * 20


def test_a_job_of_another_protocol_is_not_written_anew_before_it_has_left(world: World) -> None:
    request = of_another_protocol(world)
    peer = world.peer()
    peer.send(request * TIMES)
    assert len(peer.heard()) == 1
    # Once it has left, the same request is from somebody who has not heard it.
    peer.send(request)
    assert len(peer.heard()) == 1


def test_replies_that_had_to_wait_are_handed_over_without_a_copy(world: World) -> None:
    request, reply = answered(world)
    peer = world.peer()
    world.engine.hold_back(peer.link)
    world.share(peer.link, request)
    assert not peer.link.out
    world.engine.go_on(peer.link)
    world.share(peer.link, b"")
    assert peer.link.out[1] is reply
