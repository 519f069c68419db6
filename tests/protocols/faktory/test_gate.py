"""What takes long: how much of it one turn does for all connections together."""

from __future__ import annotations

from franca.protocols.faktory.gate import STEPS_A_TURN, Gate
from franca.protocols.faktory.wire import encode_fetch, encode_push_many
from tests.protocols.faktory.puppet import OK, World, job


class Waiter:
    polled_in = -1


def test_some_go_on_in_each_turn_and_each_of_them_often_enough() -> None:
    gate = Gate()
    waiters = [Waiter() for _ in range(10)]
    steps = dict.fromkeys(waiters, 0)
    for _ in range(50):
        admitted = [waiter for waiter in waiters if gate.admits(waiter)]
        assert 0 < len(admitted) <= STEPS_A_TURN
        for waiter in admitted:
            steps[waiter] += 1
    assert min(steps.values()) >= 15


def test_one_alone_goes_on_in_each_turn() -> None:
    gate, waiter = Gate(), Waiter()
    assert all(gate.admits(waiter) for _ in range(20))


def test_nobody_waits_for_those_who_are_gone() -> None:
    gate = Gate()
    waiters = [Waiter() for _ in range(10)]
    for waiter in waiters:
        gate.admits(waiter)
    for waiter in waiters[:9]:
        gate.leave(waiter)
    assert gate.admits(waiters[9])


def test_many_connections_that_push_many_are_served_some_in_each_turn() -> None:
    world = World()
    clients = [world.client() for _ in range(30)]
    for number, client in enumerate(clients):
        jobs = (job(f"jid-{number:02}-{i:04}", i) for i in range(200))
        world.engine.received(client.link, encode_push_many(jobs) + b"TRACK x\r\n")
    pushed = world.broker.totals.pushed
    for _ in range(100):
        world.engine.turn(world.now)
        assert world.broker.totals.pushed - pushed <= 200 * STEPS_A_TURN
        pushed = world.broker.totals.pushed
    world.run()
    assert world.broker.totals.pushed == 30 * 200
    for client in clients:
        assert [reply.kind for reply in client.take_all()] == ["$", "-"]


def test_many_connections_that_ask_for_many_queues_are_served_some_in_each_turn() -> None:
    world = World()
    clients = [world.client() for _ in range(30)]
    producer = world.client()
    assert producer.push("jid-0001", queue="29.99") == OK
    for number, client in enumerate(clients):
        names = (f"{number}.{i}" for i in range(100))
        world.engine.received(client.link, encode_fetch(*names))
    waiting = 0
    for _ in range(30):
        world.engine.turn(world.now)
        assert world.service.wishes.names_waiting - waiting <= 100 * STEPS_A_TURN
        waiting = world.service.wishes.names_waiting
    assert waiting == 29 * 100
    world.run()
    reply = clients[29].take()
    assert reply is not None
    assert b"jid-0001" in (reply.body or b"")


def test_a_client_may_go_on_talking_while_its_command_takes_long() -> None:
    world = World()
    client = world.client()
    world.engine.received(client.link, encode_push_many(job(f"jid-{i:05}") for i in range(5_000)))
    world.engine.turn(world.now)
    for _ in range(5):
        world.engine.received(client.link, b"TRACK x\r\n")
        world.engine.turn(world.now)
    world.run()
    assert [reply.kind for reply in client.take_all()] == ["$"] + ["-"] * 5
