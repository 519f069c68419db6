"""INFO, FLUSH and QUEUE: what they say and what they change."""

from collections.abc import Collection

import pytest

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Millis, State
from franca.protocols.faktory import admin_commands
from tests.protocols.faktory.puppet import OK, Puppet, World, err
from tests.support.faktory import job, mutate_line
from tests.support.protocols import NoServer


def test_info_has_the_originals_shape_to_the_letter(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fact, value in (("uptime_s", 29), ("connections", 2), ("memory_mb", 7)):
        monkeypatch.setattr(NoServer, fact, lambda _, value=value: value)
    client = world.peer("w1")
    client.push("jid-0001")
    client.push("jid-0002", queue="b")
    client.push("jid-0003", at="2030-01-01T00:00:00Z")
    client.push("jid-0004", retry=-1, queue="c")
    client.push("jid-0005", queue="c")
    client.fetch("c")
    client.fail("jid-0004")
    client.fetch("c")
    world.service.commands = 77
    task = '{"cycles":0,"enqueued":0,"size":%d,"wall_time_sec":0.0}'
    assert client.call("INFO").text == (
        '{"now":"2026-09-21T14:13:20.000Z","server_utc_time":"14:13:20 UTC",'
        '"faktory":{"queues":{"default":1,"b":1,"c":0},'
        '"sets":{"dead":1,"retries":0,"scheduled":1,"working":1},'
        '"tasks":{"Busy":{"reaped":0,"size":1},'
        f'"Dead":{task % 1},"Retries":{task % 0},"Scheduled":{task % 1},'
        '"Workers":{"reaped":0,"size":1}},'
        '"total_failures":1,"total_processed":1,"total_enqueued":2,"total_queues":3},'
        '"server":{"description":"Faktory","faktory_version":"1.10.0","uptime":29,'
        '"connections":2,"command_count":78,"used_memory_mb":7}}'
    )


def test_lines_are_counted(world: World, client: Puppet) -> None:
    client.send(b"TRACK x\r\n" * 200 + b"TRACK")
    assert world.service.commands == 201
    client.send(b" y\r\n\r\n")
    assert world.service.commands == 203


def test_flush_forgets_everything_and_leaves_right_counts(client: Puppet, world: World) -> None:
    for i in range(5):
        client.push(f"jid-000{i}")
    client.push("jid-0006", at="2030-01-01T00:00:00Z")
    client.fetch()
    assert (client.call("FLUSH"), world.jobs()) == (OK, [])
    info = client.info()["faktory"]
    assert info["queues"] == {}
    assert info["total_enqueued"] == info["sets"]["working"] == info["sets"]["scheduled"] == 0
    assert client.ack("jid-0000") == OK
    client.push("jid-0001")
    assert client.info()["faktory"]["queues"] == {"default": 1}


def test_a_fetch_that_waits_survives_a_flush(client: Puppet, worker: Puppet) -> None:
    worker.say("FETCH")
    assert client.call("FLUSH") == OK
    client.push("jid-0001")
    assert worker.cut() is not None


def test_a_big_queue_survives_with_the_right_counts() -> None:
    world = World(limits=Limits(window_jobs=10, supply_jobs=5))
    client = world.peer()
    client.push_many(job(f"jid-{i:04}", i) for i in range(100))
    assert client.info()["faktory"]["queues"] == {"default": 100}
    units = [client.fetch() for _ in range(100)]
    assert [unit["args"] for unit in units if unit] == [[i] for i in range(100)]
    assert client.info()["faktory"]["queues"] == {"default": 0}


def test_pause_and_remove_are_for_queues_that_exist(client: Puppet) -> None:
    client.call("QUEUE PAUSE later")
    client.push("jid-0001", queue="later")
    assert client.fetch("later") is not None


def test_remove_leaves_what_waits_for_its_time(world: World, client: Puppet) -> None:
    client.push("jid-0001", queue="q")
    client.push("jid-0002", queue="q", at="2026-09-21T14:13:30Z")
    client.call("QUEUE PAUSE q")
    assert client.call("QUEUE REMOVE q") == OK
    assert [job.state for job in world.jobs()] == [State.WAITING]
    world.pass_time(11_000, step=500)
    assert client.fetch_job("q")["jid"] == "jid-0002"


def test_a_removed_queue_is_no_longer_listed(client: Puppet) -> None:
    client.push("jid-0001", queue="q")
    client.call("QUEUE REMOVE q")
    assert client.info()["faktory"]["queues"] == {}


def test_latency_is_the_age_of_the_next_job_in_seconds(world: World, client: Puppet) -> None:
    client.push("jid-0001", queue="a")
    world.pass_time(1_500)
    client.push("jid-0002", queue="a")
    client.push("jid-0003", queue="b")
    world.pass_time(250)
    latencies = {"*": 0, "a": 1.75, "b": 0.25, "nosuch": 0}
    assert client.call("QUEUE LATENCY b a nosuch a *").json == latencies
    client.fetch("a")
    assert client.call("QUEUE latency a").json == {"a": 0.25}


def test_latency_counts_from_when_a_job_was_queued_not_pushed(world: World, client: Puppet) -> None:
    client.push("jid-0001", at="2026-09-21T14:13:30Z")
    assert client.call(mutate_line("requeue", "scheduled")) == OK
    world.pass_time(1_000)
    assert client.call("QUEUE LATENCY default").json == {"default": 1.0}


def test_bare_verbs_get_a_clear_error(client: Puppet) -> None:
    for verb in ("PUSH", "PUSHB"):
        assert client.call(verb) == err("invalid JSON: Input data was truncated")
    assert client.call("MUTATE") == err("Input data was truncated")


def test_reservations_that_ran_out_are_counted(world: World, client: Puppet) -> None:
    for jid in ("jid-0001", "jid-0002"):
        client.push(jid, reserve_for=60)
        client.fetch()
    client.ack("jid-0002")
    assert client.info()["faktory"]["tasks"]["Busy"] == {"reaped": 0, "size": 1}
    world.pass_time(62_000, step=500)
    assert client.info()["faktory"]["tasks"]["Busy"] == {"reaped": 1, "size": 0}


def test_the_latency_of_many_queues_is_told_a_few_each_turn(world: World, client: Puppet) -> None:
    client.push("jid-0001", queue="q00777")
    world.pass_time(2_000)
    names = " ".join(f"q{i:05}" for i in range(9_999, -1, -1))
    assert len(client.turns(f"QUEUE LATENCY {names}")) >= 50
    told = client.read().json
    assert list(told) == [f"q{i:05}" for i in range(10_000)]
    assert {name for name, latency in told.items() if latency} == {"q00777"}


@pytest.mark.parametrize("verb", ["LATENCY", "PAUSE", "RESUME", "REMOVE"])
def test_queues_that_cannot_be_are_not_looked_for(client: Puppet, verb: str) -> None:
    assert client.call(f"QUEUE {verb} a {'q' * 1_025}").kind == "-"
    assert client.call(f"QUEUE {verb} {'q' * 1_024}").kind != "-"
    assert client.call(f"QUEUE {verb} " + f"{'q' * 1_000} " * 1_100).kind == "-"
    assert client.call(f"QUEUE {verb} " + "a " * 9_999).kind != "-"


def test_queues_are_removed_together(
    world: World, client: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.push_many(job(f"jid-{i:05}", queue=f"q{i:05}") for i in range(1_000))
    sizes: list[int] = []
    remove = Broker.remove_queues

    def noted(broker: Broker, names: Collection[str], now: Millis) -> None:
        sizes.append(len(names))
        remove(broker, names, now)

    monkeypatch.setitem(admin_commands._CHANGES, "REMOVE", noted)
    assert (client.call("QUEUE REMOVE *"), world.jobs()) == (OK, [])
    assert not client.info()["faktory"]["queues"]
    assert sizes == [200] * 5
