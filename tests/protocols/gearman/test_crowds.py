"""Many wait for one job: nobody else waits for them, and what they are told is there once."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from franca.protocols.gearman import service, submit
from franca.protocols.gearman.wire import Packet
from tests.protocols.gearman.puppet import Puppet, World, err, packet, res

CROWDED = err("QUEUE_ERROR", "Too many clients wait for this job")


def crowd(world: World, size: int, unique: str = "u") -> tuple[list[Puppet], bytes]:
    """Clients that all wait for one job, and its handle."""
    clients = [world.connect() for _ in range(size)]
    [handle] = {client.submit(unique=unique) for client in clients}
    return clients, handle


@pytest.mark.parametrize("number", [Packet.WORK_DATA, Packet.WORK_COMPLETE])
@pytest.mark.parametrize("size", [600, 4_000])
def test_what_many_wait_for_is_there_once(number: int, size: int) -> None:
    world = World()
    clients, handle = crowd(world, 3)
    twice = clients[0]
    twice.submit(unique="u")
    worker = world.worker("f")
    worker.grab()
    world.engine.received(worker.link, packet(number, handle, b"d" * size))
    world.engine.turn(world.now)
    said = [piece for client in clients for piece in client.link.out]
    assert len(said) == 4
    assert len({id(piece) for piece in said}) == 1
    assert twice.link.bulky, "else they would be joined before they are sent"
    world.run()
    assert twice.take_all() == [res(number, handle, b"d" * size)] * 2


def test_an_exception_that_many_wait_for_is_there_once_and_plain_to_the_others() -> None:
    world = World()
    clients, handle = crowd(world, 5)
    for client in clients[::2]:
        client.ask(Packet.OPTION_REQ, "exceptions")
    worker = world.worker("f")
    worker.grab()
    world.engine.received(worker.link, packet(Packet.WORK_EXCEPTION, handle, b"e" * 900))
    world.engine.turn(world.now)
    assert len({id(piece) for client in clients[::2] for piece in client.link.out}) == 1
    world.run()
    for at, client in enumerate(clients):
        plain = res(Packet.WORK_FAIL, handle)
        loud = res(Packet.WORK_EXCEPTION, handle, b"e" * 900)
        assert client.take_all() == [plain if at % 2 else loud]


def test_what_was_said_last_is_not_kept() -> None:
    world = World()
    _, handle = crowd(world, 1)
    worker = world.worker("f")
    worker.grab()
    worker.say(Packet.WORK_COMPLETE, handle, b"r" * 100_000)
    world.pass_time(100)
    assert world.service.passed_on is service.NOTHING


def test_a_word_that_many_hear_ends_a_workers_share_of_the_turn() -> None:
    world = World()
    clients, handle = crowd(world, 70)
    worker = world.worker("f")
    worker.grab()
    world.engine.received(worker.link, packet(Packet.WORK_DATA, handle, "d") * 20)
    world.engine.turn(world.now)
    assert {len(client.link.out) for client in clients} == {1}
    world.run()
    assert all(len(client.take_all()) == 20 for client in clients)


def test_workers_of_jobs_that_many_wait_for_take_turns() -> None:
    world = World()
    crowds = [crowd(world, 70, f"u{n}") for n in range(4)]
    workers = [world.worker("f") for _ in crowds]
    handles = [worker.grab_handle() for worker in workers]
    bystander = world.connect()
    with patch.object(service, "TOLD_A_TURN", 100):
        for worker, handle in zip(workers, handles, strict=True):
            said = packet(Packet.WORK_DATA, handle, "d") + packet(Packet.WORK_COMPLETE, handle)
            world.engine.received(worker.link, said)
        world.engine.received(bystander.link, packet(Packet.ECHO_REQ, "x"))
        world.engine.turn(world.now)
        assert [len(clients[0].link.out) for clients, _ in crowds] == [1, 1, 0, 0]
        assert bystander.link.out
        world.run()
    for clients, handle in crowds:
        data, done = res(Packet.WORK_DATA, handle, "d"), res(Packet.WORK_COMPLETE, handle, "")
        assert all(client.take_all() == [data, done] for client in clients)


def test_one_connection_waits_for_one_job_only_so_often() -> None:
    world = World()
    client, other, worker = world.connect(), world.connect(), world.worker("f")
    [handle] = {client.submit(unique="u") for _ in range(submit.JOINS_MAX)}
    assert client.ask(Packet.SUBMIT_JOB, "f", "u", "x") == CROWDED
    assert other.submit(unique="u") == client.submit_bg(unique="u") == handle
    worker.grab()
    worker.say(Packet.WORK_COMPLETE, handle, "r")
    assert client.take_all() == [res(Packet.WORK_COMPLETE, handle, "r")] * submit.JOINS_MAX
    assert client.conversation.joins == {}
    again = client.submit(unique="u")
    assert again == client.submit(unique="u") != handle


def test_joining_a_job_that_many_wait_for_is_more_than_one_message() -> None:
    world = World()
    crowd(world, 64 * 9)
    client = world.connect()
    world.engine.received(client.link, packet(Packet.SUBMIT_JOB, "f", "u", "x") * 20)
    world.engine.turn(world.now)
    assert len(client.link.out) == 7
    world.run()
    assert len(client.take_all()) == 20
