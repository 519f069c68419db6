"""Administrators: what they are told, and who may stop the server."""

from __future__ import annotations

import pytest

from franca.protocols.eventmq.service import EventmqSettings
from tests.protocols.eventmq.puppet import World


def test_status_counts_and_ages() -> None:
    world = World()
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


def test_workers_are_shown_with_their_queues_slots_and_last_word() -> None:
    world = World()
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


def test_schedulers_are_shown() -> None:
    world = World()
    world.worker(role="scheduler", identity=b"s")
    shown = world.peer().ask("ROUTER_SHOW_SCHEDULERS")
    assert list(shown["connected_schedulers"]) == ["s"]
    assert world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"] == {}


def test_hello_is_not_answered() -> None:
    admin = World().peer()
    admin.say("HELLO")
    assert admin.heard() == []


# -- stopping ----------------------------------------------------------------------------------------


def test_an_administrators_disconnect_is_acknowledged_and_stops_the_server() -> None:
    world = World()
    admin = world.peer()
    admin.say("HELLO")
    admin.say("STATUS")
    admin.heard()
    msgid = admin.say("DISCONNECT").decode()
    assert admin.words() == [("ACK", msgid)]
    assert world.stop_requests == 1


@pytest.mark.parametrize(
    ("allowed", "local", "stops"),
    [
        ("loopback", True, 1),
        ("loopback", False, 0),
        ("never", True, 0),
        ("all", False, 1),
    ],
)
def test_the_server_is_stopped_by_whom_the_settings_allow(
    allowed: str, local: bool, stops: int
) -> None:
    world = World(settings=EventmqSettings(remote_shutdown=allowed))
    world.peer(local=local).say("DISCONNECT")
    assert world.stop_requests == stops


def test_a_client_or_a_worker_that_leaves_takes_nobody_with_it() -> None:
    world = World()
    client, worker = world.peer(), world.worker(slots=1)
    client.request()
    client.heard()
    client.say("DISCONNECT")
    worker.say("DISCONNECT")
    assert client.words() == [("KBYE",)]
    assert world.stop_requests == 0
