"""Many wait for one job: nobody else waits for them, and what they are told is there once."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from franca.core.limits import Limits
from franca.protocols.gearman import heavy, service, submit
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


def test_the_crowds_that_are_remembered_are_bounded() -> None:
    world = World()
    client = world.connect()
    with patch.object(heavy, "CROWDS_KEPT", 3):
        for number in range(5):
            for _ in range(submit.JOINS_MAX):
                client.submit(unique=f"u{number}")
            world.connect().submit(unique=f"u{number}")
    assert len(world.service.heavy.crowds) == 3


def test_workers_of_jobs_that_many_wait_for_take_turns() -> None:
    world = World()
    crowds = [crowd(world, 70, f"u{n}") for n in range(4)]
    workers = [world.worker("f") for _ in crowds]
    handles = [worker.grab_handle() for worker in workers]
    bystander = world.connect()
    with patch.object(heavy, "HEAVY_A_TURN", 100):
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


def test_a_submit_that_is_refused_does_not_count_as_one_that_waits() -> None:
    world = World(limits=Limits(watches_max=2))
    client, other = world.connect(), world.connect()
    handle = client.submit(unique="u")
    other.submit(unique="v")
    for _ in range(2 * submit.JOINS_MAX):
        assert b"too many jobs are waited for" in client.ask(Packet.SUBMIT_JOB, "f", "u", "x")[-1]
    other.hang_up()
    assert client.submit(unique="u") == handle


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


def test_asking_for_a_job_that_many_wait_for_is_more_than_one_message() -> None:
    world = World()
    crowd(world, 64 * 9)
    client = world.connect()
    world.engine.received(client.link, packet(Packet.GET_STATUS_UNIQUE, "u") * 20)
    world.engine.turn(world.now)
    assert len(client.link.out) == 7
    world.run()
    assert len(client.take_all()) == 20


# -- heavy workers take turns -------------------------------------------------------------------------------


@pytest.mark.parametrize("ms", [0, 1])
def test_heavy_workers_take_turns_in_a_fair_order(ms: int) -> None:
    world = World()
    workers = [world.worker(*(f"f{n}" for n in range(70))) for _ in range(5)]
    with patch.object(heavy, "HEAVY_A_TURN", 100):
        for worker in workers:
            world.engine.received(worker.link, packet(Packet.GRAB_JOB) * 500)
        heard = [0] * 5
        for _ in range(50):
            world.now += ms
            world.engine.turn(world.now)
            said = [len(worker.link.out) for worker in workers]
            world.listen()
            assert sum(1 for count in said if count) <= 1
            heard = [a + b for a, b in zip(heard, said, strict=True)]
        assert max(heard) <= 2 * min(heard)
        world.run()
    assert {len(worker.take_all()) for worker in workers} == {500}
    assert not world.service.heavy._waiting


@pytest.mark.parametrize("before", [True, False])
def test_workers_of_few_do_not_wait_for_those_of_crowds(before: bool) -> None:
    world = World()
    plain = world.worker("f")
    handles, workers = [], []
    for number in range(3):
        clients, handle = crowd(world, 70 if before else 1, f"u{number}")
        workers.append(world.worker("f"))
        handles.append(workers[-1].grab_handle())
        if not before:
            for client in (*clients, world.connect()):
                for _ in range(40):
                    client.submit(unique=f"u{number}")
    with patch.object(heavy, "HEAVY_A_TURN", 50):
        for worker, handle in zip(workers, handles, strict=True):
            world.engine.received(worker.link, packet(Packet.WORK_STATUS, handle, "1", "2") * 3)
        world.engine.received(plain.link, packet(Packet.ECHO_REQ, "x"))
        world.engine.turn(world.now)
        assert plain.link.out
        assert [job.progress for job in world.broker.jobs.values()] == [b"1\x002", b"", b""]
        world.run()
    assert len(world.service.heavy.crowds) == 3
    for worker, handle in zip(workers, handles, strict=True):
        worker.say(Packet.WORK_COMPLETE, handle)
    assert world.service.heavy.crowds == {}


def test_who_cannot_be_called_keeps_no_heavy_worker_waiting() -> None:
    world = World()
    workers = [world.worker(*(f"f{n}" for n in range(200))) for _ in range(4)]
    with patch.object(heavy, "HEAVY_A_TURN", 100):
        for worker in workers:
            world.engine.received(worker.link, packet(Packet.GRAB_JOB) * 20)
        world.engine.turn(world.now)
        stuck, gone, *others = workers[1:] + workers[:1]
        world.engine.hold_back(stuck.link)
        gone.hang_up()
        assert {len(worker.take_all()) for worker in others} == {20}
        world.engine.go_on(stuck.link)
        world.run()
        assert len(stuck.take_all()) == 20


def test_a_sleeper_with_many_functions_that_learns_more_is_heavy() -> None:
    world = World()
    sleeper, other = (world.sleeper(*(f"f{n}" for n in range(200))) for _ in range(2))
    with patch.object(heavy, "HEAVY_A_TURN", 100):
        for worker in (sleeper, other):
            world.engine.received(worker.link, packet(Packet.CAN_DO, "new"))
        world.engine.turn(world.now)
        assert b"new" in sleeper.conversation.functions
        assert b"new" not in other.conversation.functions
        world.run()
    assert b"new" in other.conversation.functions


# -- one connection that is told much --------------------------------------------------------------


def test_a_worker_is_given_as_much_as_may_wait_for_it_and_then_others() -> None:
    world = World()
    client, worker = world.connect(), world.worker("f")
    for _ in range(40):
        client.submit_bg("f", b"w" * 300_000)
    world.engine.received(worker.link, packet(Packet.GRAB_JOB) * 64)
    world.engine.turn(world.now)
    assert sum(map(len, worker.link.out)) < world.limits.output_soft_bytes + 300_100
    world.run()
    heard = [message.number for message in worker.take_all()]
    assert heard.count(Packet.JOB_ASSIGN) == 40
    assert heard.count(Packet.NO_JOB) == 24


def test_echoes_end_a_share_when_as_much_waits_as_may() -> None:
    world = World()
    client = world.connect()
    world.engine.received(client.link, packet(Packet.ECHO_REQ, b"x" * 300_000) * 20)
    world.engine.turn(world.now)
    assert sum(map(len, client.link.out)) < world.limits.output_soft_bytes + 300_100
    world.run()
    assert len(client.take_all()) == 20
