"""Many wait for one job: nobody else waits for them, and what they are told is there once."""

import pytest

from franca.core.limits import Limits
from franca.engine.engine import COSTLY
from franca.protocols.gearman import client_commands, service
from tests.protocols.gearman.puppet import Puppet, World, err, res
from tests.support.gearman import Type, request

CROWDED = err("QUEUE_ERROR", "Too many clients wait for this job")


def crowd(world: World, size: int, unique: str = "u") -> tuple[list[Puppet], bytes]:
    """Clients that all wait for one job, and its handle."""
    clients = [world.connect() for _ in range(size)]
    [handle] = {client.submit(unique=unique) for client in clients}
    return clients, handle


@pytest.mark.parametrize("number", [Type.WORK_DATA, Type.WORK_COMPLETE])
@pytest.mark.parametrize("size", [600, 4_000])
def test_what_many_wait_for_is_there_once(world: World, number: int, size: int) -> None:
    clients, handle = crowd(world, 3)
    twice = clients[0]
    twice.submit(unique="u")
    worker = world.worker("f")
    worker.grab()
    worker.begin(request(number, handle, b"d" * size))
    said = [piece for client in clients for piece in client.link.out]
    assert (len(said), len({id(piece) for piece in said})) == (4, 1)
    assert twice.link.in_pieces, "else they would be joined before they are sent"
    world.run()
    assert twice.heard() == [res(number, handle, b"d" * size)] * 2


def test_an_exception_many_wait_for_is_held_once_and_plain_to_the_others(world: World) -> None:
    clients, handle = crowd(world, 5)
    for client in clients[::2]:
        client.call(Type.OPTION_REQ, "exceptions")
    worker = world.worker("f")
    worker.grab()
    worker.begin(request(Type.WORK_EXCEPTION, handle, b"e" * 900))
    assert len({id(piece) for client in clients[::2] for piece in client.link.out}) == 1
    world.run()
    plain, loud = res(Type.WORK_FAIL, handle), res(Type.WORK_EXCEPTION, handle, b"e" * 900)
    for at, client in enumerate(clients):
        assert client.heard() == [plain if at % 2 else loud]


def test_what_was_said_last_is_not_kept(world: World) -> None:
    _, worker, handle = world.running()
    worker.complete(handle, b"r" * 100_000)
    world.pass_time(100)
    assert world.service.forwarded is service.NOTHING


def test_a_word_that_many_hear_ends_a_workers_share_of_the_turn(world: World) -> None:
    clients, handle = crowd(world, 70)
    worker = world.worker("f")
    worker.grab()
    worker.begin(request(Type.WORK_DATA, handle, "d") * 20)
    assert {len(client.link.out) for client in clients} == {13}, "each costs as much as five others"
    world.run()
    assert all(len(client.heard()) == 20 for client in clients)


def test_workers_of_jobs_that_very_many_wait_for_come_behind_the_others(world: World) -> None:
    clients, handle = crowd(world, 20 * COSTLY)
    worker, bystander = world.worker("f"), world.connect()
    worker.grab()
    worker.begin(request(Type.WORK_DATA, handle, "d"))
    assert worker.link.costly
    worker.begin(request(Type.WORK_COMPLETE, handle), turns=0)
    bystander.begin(request(Type.ECHO_REQ, "x"))
    assert bystander.link.out
    assert [len(client.link.out) for client in clients[:2]] == [1, 1]
    world.run()
    data, done = res(Type.WORK_DATA, handle, "d"), res(Type.WORK_COMPLETE, handle, "")
    assert all(client.heard() == [data, done] for client in clients)


def test_a_submit_that_is_refused_does_not_count_as_one_that_waits() -> None:
    world = World(limits=Limits(watches_max=2))
    client, other = world.connect(), world.connect()
    handle = client.submit(unique="u")
    other.submit(unique="v")
    for _ in range(2 * client_commands.JOINS_MAX):
        assert b"too many jobs are waited for" in client.call(Type.SUBMIT_JOB, "f", "u", "x")[-1]
    other.hang_up()
    assert client.submit(unique="u") == handle


def test_one_connection_waits_for_one_job_only_so_often(world: World) -> None:
    client, other, worker = world.connect(), world.connect(), world.worker("f")
    [handle] = {client.submit(unique="u") for _ in range(client_commands.JOINS_MAX)}
    assert client.call(Type.SUBMIT_JOB, "f", "u", "x") == CROWDED
    assert other.submit(unique="u") == client.submit_bg(unique="u") == handle
    worker.grab()
    worker.complete(handle, "r")
    assert client.heard() == [res(Type.WORK_COMPLETE, handle, "r")] * client_commands.JOINS_MAX
    assert client.conversation.joins == {}
    again = client.submit(unique="u")
    assert again == client.submit(unique="u") != handle


@pytest.mark.parametrize(
    ("message", "at_once"),
    [
        pytest.param(request(Type.SUBMIT_JOB, "f", "u", "x"), 7, id="joining"),
        pytest.param(request(Type.GET_STATUS_UNIQUE, "u"), 6, id="asking for, which is a task"),
    ],
)
def test_a_job_that_many_wait_for_is_more_than_one_message(
    world: World, message: bytes, at_once: int
) -> None:
    crowd(world, 64 * 9)
    client = world.connect()
    client.begin(message * 20)
    assert len(client.link.out) == at_once
    world.run()
    assert len(client.heard()) == 20


# -- one connection that is told much --------------------------------------------------------------


def test_a_worker_is_given_as_much_as_may_wait_for_it_and_then_others(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    for _ in range(40):
        client.submit_bg("f", b"w" * 300_000)
    worker.begin(request(Type.GRAB_JOB) * 64)
    assert sum(map(len, worker.link.out)) < world.limits.output_soft_bytes + 300_100
    world.run()
    heard = [message.type for message in worker.heard()]
    assert (heard.count(Type.JOB_ASSIGN), heard.count(Type.NO_JOB)) == (40, 24)


def test_echoes_end_a_share_when_as_much_waits_as_may(world: World, client: Puppet) -> None:
    client.begin(request(Type.ECHO_REQ, b"x" * 300_000) * 20)
    assert sum(map(len, client.link.out)) < world.limits.output_soft_bytes + 300_100
    world.run()
    assert len(client.heard()) == 20
