"""Administrators: what they are told, and who may stop the server."""

import json

import pytest

from franca.protocols.eventmq import admin_commands
from tests.protocols.eventmq.puppet import World
from tests.support.eventmq import message


def test_status_counts_and_ages(world: World) -> None:
    worker, client = world.worker((10, "a"), (10, "default"), slots=2, identity=b"w"), world.peer()
    client.request("1", "a")
    world.pass_time(2_000, worker)
    client.request("2", "a")
    client.request("3", "a")
    world.pass_time(1_000, worker)
    status = world.peer().ask("STATUS")
    assert status == {
        "inflight_messages_by_queue": {"a": 3},
        "latency_messages_by_queue": {"a": 1_666},
        "max_latency_messages_by_queue": {"a": 3_000},
        "waiting_messages_by_queue": {"a": 1},
        "processed_messages_by_queue": {"a": 2},
        "processed_messages_by_worker": {"w": 2},
    }


def test_workers_are_shown_with_their_queues_slots_and_last_word(world: World) -> None:
    world.worker((10, "default"), slots=2, identity=b"light")
    world.worker((20, "default"), (5, "email"), slots=1, identity=b"heavy")
    shown = world.peer().ask("ROUTER_SHOW_WORKERS")
    assert shown["connected_workers"]["light"] == {
        "queues": [[10, "default"]],
        "hb": 1_790_000_000.0,
        "available_slots": 2,
    }
    assert shown["connected_queues"] == {
        "default": [[20, "heavy"], [10, "light"]],
        "email": [[5, "heavy"]],
    }


def test_schedulers_are_shown(world: World) -> None:
    world.worker(role="scheduler", identity=b"s")
    shown = world.peer().ask("ROUTER_SHOW_SCHEDULERS")
    assert list(shown["connected_schedulers"]) == ["s"]
    assert world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"] == {}


def test_hello_is_not_answered() -> None:
    admin = World().peer()
    admin.say("HELLO")
    assert admin.heard() == []


# -- long answers ------------------------------------------------------------------------------------


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> World:
    """A server with 40 queues that have a job each, of which a turn lists ten."""
    monkeypatch.setattr(admin_commands, "SLICE", 10)
    world = World()
    names = [f"q{number}" for number in range(40)]
    world.worker(*((10, name) for name in names), identity=b"w")
    client = world.peer()
    for name in names:
        client.request(name, name)
    return world


STATUS = message(b"STATUS", b"admin:1")


def test_a_long_answer_takes_several_turns_and_then_what_follows_is_heard(busy: World) -> None:
    asker, other = busy.peer(), busy.peer()
    busy.turn((asker, STATUS * 2))
    assert not asker.link.out
    other.say("INFORM", "", "worker")
    assert len(other.heard()) == 2
    busy.run()
    assert [len(json.loads(m[4])["waiting_messages_by_queue"]) for m in asker.heard()] == [40, 40]
    assert not busy.service.listings


@pytest.mark.parametrize("command", [b"STATUS", b"ROUTER_SHOW_WORKERS"])
def test_answers_are_made_one_after_the_other(busy: World, command: bytes) -> None:
    for number in range(30):
        busy.worker((10, f"q{number}"), identity=b"w%d" % number)
    askers = [busy.peer() for _ in range(5)]
    for asker in askers:
        busy.turn((asker, message(command, b"admin:1")))
    turns = list(busy.turns())
    assert 5 < len(askers) + len(turns) < 100
    busy.run()
    (answer, *others) = [m[4] for asker in askers for m in asker.heard()]
    assert others == [answer] * 4


def test_who_leaves_before_the_answer_holds_up_nobody(busy: World) -> None:
    gone, other = busy.peer(), busy.peer()
    busy.turn((gone, STATUS))
    busy.turn((other, STATUS))
    gone.link.close()
    busy.run()
    assert (len(other.heard()), busy.service.listings) == (1, {})


def test_who_cannot_go_on_is_overtaken(busy: World) -> None:
    stuck, other = busy.peer(), busy.peer()
    busy.turn((stuck, STATUS))
    busy.engine.hold_back(stuck.link)
    busy.turn((other, STATUS))
    for _ in range(20):
        busy.engine.turn(busy.now)
    assert not other.link.out
    busy.now += 1_000
    for _ in range(20):
        busy.engine.turn(busy.now)
    assert other.link.out
    busy.engine.go_on(stuck.link)
    busy.run()
    assert len(stuck.heard()) == 1


def test_an_answer_ends_where_it_is_enough(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_commands, "LIST_BYTES_MAX", 300)
    asker = busy.peer()
    status = asker.ask("STATUS")
    assert 1 < len(status["waiting_messages_by_queue"]) < 20
    assert len(status) == 6
    for number in range(40):
        busy.worker((10, "q1"), identity=b"w%d" % number)
    workers = asker.ask("ROUTER_SHOW_WORKERS")
    assert 0 < len(workers["connected_workers"]) < 20
    for number in range(40):
        busy.worker(role="scheduler", identity=b"s%d" % number)
    assert 1 < len(asker.ask("ROUTER_SHOW_SCHEDULERS")["connected_schedulers"]) < 20


# -- stopping ----------------------------------------------------------------------------------------


def test_an_administrators_disconnect_is_acknowledged_and_stops_the_server(world: World) -> None:
    admin = world.peer()
    admin.say("HELLO")
    admin.say("STATUS")
    admin.heard()
    msgid = admin.say("DISCONNECT").decode()
    assert (admin.words(), world.stops) == ([("ACK", msgid)], 1)


@pytest.mark.parametrize(
    ("allowed", "local", "stops"),
    [("loopback", True, 1), ("loopback", False, 0), ("never", True, 0), ("all", False, 1)],
)
def test_who_may_stop_the_server_is_a_setting(allowed: str, local: bool, stops: int) -> None:
    world = World(remote_shutdown=allowed)
    world.peer(local=local).say("DISCONNECT")
    assert world.stops == stops


def test_a_client_or_a_worker_that_leaves_takes_nobody_with_it(world: World) -> None:
    client, worker = world.peer(), world.worker(slots=1)
    client.request()
    client.heard()
    client.say("DISCONNECT")
    worker.say("DISCONNECT")
    assert (client.words(), world.stops) == ([("KBYE",)], 0)


def test_whoever_was_a_worker_or_a_client_once_stops_no_server(world: World) -> None:
    client, worker, scheduler = world.peer(), world.worker(), world.worker(role="scheduler")
    client.request()
    client.say("KBYE")
    world.pass_time(15_000)
    assert not world.service.workers_here.all
    for peer in (client, worker, scheduler):
        peer.say("DISCONNECT")
    refused = world.peer()
    refused.say("INFORM", "", "dancer")
    refused.say("DISCONNECT")
    assert world.stops == 0
