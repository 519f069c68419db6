"""Long commands of many connections at once: they share what a turn may take, and the memory."""

import struct
from typing import Any

import pytest

from franca.core.limits import Limits
from franca.core.waiting import Waiting
from franca.protocols.periodic import admin_commands, status
from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support import periodic as p
from tests.support.periodic import listed, packed

FUNCS = 3_000


def ask_all(world: World, clients: list[Puppet], command: int, args: bytes = b"") -> None:
    for client in clients:
        world.engine.inputs.append((client.link, client.message(command, args, b"long")))


@pytest.fixture
def surveys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The moments at which a listing was begun."""
    found: list[int] = []
    make = status.Listings._make

    def counted(self: status.Listings, dialect: Any, rule: Any, now: int) -> Any:
        found.append(now)
        return make(self, dialect, rule, now)

    monkeypatch.setattr(status.Listings, "_make", counted)
    return found


# -- STATUS ----------------------------------------------------------------------------------------


def test_what_many_jobs_wait_for_is_found_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    earliest = Waiting.earliest

    def counted(self: Waiting) -> dict[str, int]:
        nonlocal looks
        looks += 1
        return earliest(self)

    monkeypatch.setattr(Waiting, "earliest", counted)
    world = World()
    clients = [world.peer() for _ in range(4)]
    jobs = [packed(f"f{n % 9}", f"n{n}", at=NOW_S + 1_000 + n) for n in range(1_200)]
    assert clients[0].word(p.LOAD, listed(jobs)) == p.SUCCESS
    for client in clients * 5:
        assert client.status()["f3"][1:] == [133, 0, 0, NOW_S + 1_003]
    assert looks == 1
    world.pass_time(1_000)
    clients[0].submit("f3", "sooner", at=NOW_S + 500)
    assert (clients[0].status()["f3"][4], looks) == (NOW_S + 500, 2)


def test_a_long_listing_is_made_once_for_all_who_ask(world: World, surveys: list[int]) -> None:
    for number in range(FUNCS):
        world.broker.queue(f"f{number:05}")
    clients = [world.peer() for _ in range(5)]
    ask_all(world, clients, p.STATUS)
    world.run()
    assert len(surveys) == 1
    answers = [client.heard() for client in clients]
    assert [len(heard) for heard in answers] == [1] * 5
    assert len({heard[0].data for heard in answers}) == 1
    assert answers[0][0].data.count(b"\n") == FUNCS - 1


@pytest.mark.parametrize("how", ["held back", "gone"])
def test_nobody_waits_for_a_listing_whose_maker_is_held_up(surveys: list[int], how: str) -> None:
    world = World()
    for number in range(FUNCS):
        world.broker.queue(f"f{number:05}")
    maker, other = world.peer(), world.peer()
    ask_all(world, [maker, other], p.STATUS)
    world.engine.turn(world.now)
    if how == "gone":
        maker.conversation.drop(world.now)
    else:
        world.engine.hold_back(maker.link)
    world.run()
    assert (len(other.heard()), len(surveys)) == (1, 1)
    if how != "gone":
        world.engine.go_on(maker.link)
        world.run()
        assert len(maker.heard()) == 1


def test_while_very_much_is_listed_one_may_be_told_what_another_was(
    monkeypatch: pytest.MonkeyPatch, surveys: list[int]
) -> None:
    monkeypatch.setattr(status, "LISTED_A_TICK", 300)
    world = World()
    for number in range(100):
        world.broker.queue(f"f{number:05}")
    clients = [world.peer() for _ in range(9)]
    ask_all(world, clients, p.STATUS)
    world.run()
    assert len(surveys) == 4
    assert all(len(client.heard()) == 1 for client in clients)
    world.pass_time(50)
    clients[0].submit("f00000", "n")
    assert clients[0].status()["f00000"][1] == 1


# -- LOAD ------------------------------------------------------------------------------------------


def test_loads_under_way_hold_no_more_than_one_frame() -> None:
    world = World(limits=Limits(frame_bytes_max=60_000))
    one, two, three = (world.peer() for _ in range(3))
    jobs = [packed("f", f"n{n}") for n in range(1_600)]
    args = listed(jobs)
    assert 30_000 < len(args) < 60_000
    ask_all(world, [one, two], p.LOAD, args)
    ask_all(world, [three], p.LOAD, struct.pack(">q", 2) + packed("f", "x") + packed("f", "y"))
    world.run()
    assert (one.words(), two.words()) == ([p.SUCCESS], [p.UNKNOWN])
    assert three.words() == [p.SUCCESS], "a small one is always taken"
    assert two.word(p.LOAD, args) == p.SUCCESS
    ask_all(world, [one], p.LOAD, args)
    world.engine.turn(world.now)
    assert world.service.load_bytes.taken == len(args)
    one.conversation.drop(world.now)
    assert (world.service.load_bytes.taken, world.service.loads) == (0, 0)


def test_many_loads_share_what_one_takes_of_a_turn(world: World) -> None:
    clients = [world.peer() for _ in range(5)]
    for number, client in enumerate(clients):
        jobs = [packed("f", f"{number} {n}") for n in range(600)]
        args = listed(jobs)
        ask_all(world, [client], p.LOAD, args)
    world.engine.turn(world.now)
    began = world.broker.totals.pushed
    world.engine.turn(world.now)
    assert world.broker.totals.pushed - began <= admin_commands.LOAD_JOBS
    clients[4].hang_up()
    world.run()
    assert [client.words() for client in clients[:4]] == [[p.SUCCESS]] * 4
    assert not world.service.loads
