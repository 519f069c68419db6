"""Many workers, many slots, many queues, many rules: none of them holds up the others."""

import json
from itertools import pairwise

import pytest

from franca.core.errors import TooMuch
from franca.core.limits import Limits
from franca.core.model import NewJob
from franca.core.queues import Queue, Queues
from franca.protocols.eventmq import schedules, service, worker_commands, workers
from franca.protocols.eventmq.jobs import intended_queue
from tests.protocols.eventmq.puppet import World
from tests.support.eventmq import call, message

READY = message(b"READY", b"i")


def requests(world: World, count: int, body: bytes = b"") -> None:
    client = world.peer()
    for number in range(count):
        client.request(body or call("a.b", number))


# -- slots ---------------------------------------------------------------------------------------------


def test_a_worker_with_many_slots_is_given_some_jobs_at_a_time(world: World) -> None:
    worker = world.worker(slots=300)
    world.broker.pause("default")
    requests(world, 250)
    world.broker.resume("default", world.now)
    world.engine.deliver(world.now)
    assert 1 <= world.broker.leases.count <= workers.ASKED_AT_ONCE + 1
    world.run()
    assert len(worker.given()) == 250


def test_jobs_that_come_back_all_at_once_are_given_out_over_several_turns(world: World) -> None:
    first = world.worker(slots=400)
    requests(world, 400)
    assert len(first.given()) == 400
    second = world.worker(slots=400)
    world.engine.close_link(first.link, world.now, undelivered=False)
    turns: list[int] = []
    while not turns or world.engine.has_input():
        turns.append(len([m for m in second.link.out if b"REQUEST" in m]))
        world.listen()
        world.engine.turn(world.now)
    assert max(turns) <= workers.ASKED_AT_ONCE + 1
    world.run()
    assert len(second.given()) == 400


def test_with_many_queues_fewer_are_given_at_a_time(world: World) -> None:
    names = [(10, f"q{number}") for number in range(640)]
    few, many = world.worker((10, "a")), world.worker(*names)
    assert few.conversation.worker._at_once == 64
    assert many.conversation.worker._at_once == 5


def test_ready_while_more_is_asked_for_takes_no_second_share(world: World) -> None:
    first = world.worker(slots=400)
    requests(world, 400)
    second = world.worker(slots=200)
    world.engine.close_link(first.link, world.now, undelivered=False)
    world.engine.inputs.append((second.link, READY * 60))
    before = len(second.link.out)
    world.engine.turn(world.now)
    assert len(second.link.out) - before <= 2 * workers.ASKED_AT_ONCE
    world.run()
    assert len(second.given()) == 260


def test_what_a_worker_holds_counts_among_its_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SLOTS_MAX", 5)
    world = World()
    worker = world.worker(slots=5)
    requests(world, 20)
    given = worker.given()
    assert len(given) == 5
    worker.ready()
    assert worker.given() == []
    worker.done(given[0])
    assert len(worker.given()) == 1


def test_of_very_many_jobs_of_a_dead_worker_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RELEASED_MAX", 3)
    world = World()
    worker = world.worker(slots=20)
    requests(world, 10)
    requests(world, 1, b"no call")
    assert len(worker.given()) == 11
    worker.hang_up()
    assert sorted(job.losses for job in world.jobs()) == [0] * 3 + [1] * 8


# -- queues --------------------------------------------------------------------------------------------


def test_an_inform_of_queues_for_which_there_is_no_room_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = world.worker((10, "default"), slots=1, identity=b"w")
    known = Queues.listed

    def queue(queues: Queues, name: str) -> Queue:
        if name.startswith("new"):
            raise TooMuch("there are too many queues")
        return known(queues, name)

    monkeypatch.setattr(Queues, "listed", queue)
    worker.say("INFORM", '[[10, "default"], [10, "new"]]', "worker")
    assert worker.heard() == []
    assert "too many queues" in world.engine.notices[-1].reason
    shown = world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"]
    assert shown["w"]["queues"] == [[10, "default"]]
    world.peer().request()
    assert len(worker.given()) == 1  # it is what it was


def test_a_worker_that_informs_again_is_counted_once() -> None:
    queues = [(10, "x" * 200 + str(number)) for number in range(4)]
    world = World(limits=Limits(offered_bytes=2_000))
    worker = world.worker(*queues)
    worker.say("INFORM", json.dumps(queues), "worker")
    assert ([words[0] for words in worker.words()], world.service.refused) == (["ACK"], 0)


# -- names ---------------------------------------------------------------------------------------------


def test_a_worker_that_informs_again_keeps_its_name(world: World) -> None:
    bob = world.worker(identity=b"bob")
    for role in ("worker", "scheduler", "worker"):
        bob.say("INFORM", "", role)
    assert list(world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"]) == ["bob"]
    other = world.worker(identity=b"bob")
    assert len(world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"]) == 2
    bob.hang_up()
    registry = world.service.workers_here
    assert "bob" not in registry.by_name
    other.say("INFORM", "", "worker")
    assert list(registry.by_name) == ["bob"]
    assert list(registry.all.values()) == [registry.by_name["bob"]]


# -- heartbeats ----------------------------------------------------------------------------------------


def test_heartbeats_to_many_are_sent_over_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BEATS_AT_ONCE", 4)
    world = World()
    peers = [world.worker() for _ in range(10)]
    world.pass_time(4_000, *peers)
    for peer in peers:
        peer.heard()
    told = []
    for _ in range(60):
        world.now += 50
        world.run()
        told.append(sum(len(peer.heard()) for peer in peers))
    assert (max(told), sum(told)) == (4, 10)


def test_many_silent_peers_are_dropped_over_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LOST_AT_ONCE", 3)
    world = World()
    peers = [world.worker() for _ in range(8)]
    peers[0].conversation.holding = True
    world.pass_time(9_900)
    left = []
    for _ in range(30):
        world.pass_time(50)
        left.append(len(world.service.workers_here.all))
    assert [a - b for a, b in pairwise(left) if a != b] in ([3, 3, 1], [3, 1])
    assert left[-1] == 1  # to whom nobody listened


def test_there_are_only_so_many_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_commands, "SCHEDULERS_MAX", 2)
    world = World()
    for _ in range(2):
        world.worker(role="scheduler")
    third = world.peer()
    third.say("INFORM", "", "scheduler")
    assert (third.heard(), world.service.refused) == ([], 1)


# -- rules ---------------------------------------------------------------------------------------------


def test_rules_are_found_by_the_queue_that_they_wish_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    client = world.peer()
    rules = world.broker.schedules.by_id
    world.worker((10, "first"))  # from now on wishes are noted
    looked_at: list[NewJob] = []

    def look_at(new: NewJob) -> str:
        looked_at.append(new)
        return intended_queue(new)

    monkeypatch.setattr(schedules, "intended_queue", look_at)
    for number in range(50):
        wish = f"wish{number % 25}"
        client.say("SCHEDULE", wish, "nohaste", "60", call("a.b", number), "")
    looked_at.clear()
    world.worker((10, "wish3"), (10, "other"))
    assert (len(looked_at), sum(rule.job.queue == "wish3" for rule in rules.values())) == (2, 2)
    client.say("SCHEDULE", "later", "nohaste", "60", call("a.b", 4), "")  # it wished for wish4
    world.worker((10, "wish4"))
    assert sum(rule.job.queue == "wish4" for rule in rules.values()) == 1
    again = world.restarted()
    again.worker((10, "later"), (10, "wish5"))
    queues = [rule.job.queue for rule in again.broker.schedules.by_id.values()]
    assert (queues.count("later"), queues.count("wish5")) == (1, 2)


def test_wishes_of_rules_that_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "STALE_MAX", 10)
    world = World(limits=Limits(rules_max=5))
    client = world.peer()
    world.worker((10, "first"))
    for number in range(100):
        body = call("a.b", number)
        client.say("SCHEDULE", f"wish{number}", "nohaste", "60", body, "")
        assert world.service.schedules._noted <= 21
        if number < 99:
            client.say("UNSCHEDULE", "", "", "60", body, "")
    world.worker((10, "wish99"))
    (rule,) = world.broker.schedules.by_id.values()
    assert rule.job.queue == "wish99"


def test_many_rules_with_one_wish_run_over_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "ADOPTED_AT_ONCE", 5)
    world = World()
    client = world.peer()
    for number in range(22):
        client.say("SCHEDULE", "wish", "nohaste", "60", call("a.b", number), "")

    def fulfilled(world: World) -> int:
        rules = world.broker.schedules.by_id.values()
        return sum(rule.job.queue == "wish" for rule in rules)

    world.worker((10, "wish"))
    assert 5 <= fulfilled(world) <= 10
    world.pass_time(50)
    assert fulfilled(world) < 22
    again = world.restarted()
    again.worker((10, "another"))  # from now on it is remembered who wished for what
    again.pass_time(500)
    assert fulfilled(again) == 22
    world.pass_time(500)
    assert fulfilled(world) == 22
