"""The walks of `docs/ARCHITECTURE.md` are those that messages take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.engine.walk import Call, Function, calls_of, fault_in, has_branch, walks_in
from tests.protocols.eventmq.puppet import World as EventmqWorld
from tests.protocols.faktory.puppet import World as FaktoryWorld
from tests.protocols.gearman.puppet import World as GearmanWorld
from tests.protocols.memodb.puppet import World as MemoDBWorld
from tests.protocols.memodb.puppet import worker_on
from tests.protocols.periodic.puppet import World as PeriodicWorld

PAGE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"
WALKS = walks_in(PAGE.read_text())


def eventmq_request() -> list[Call]:
    """A client asks for something, and a worker has a free slot."""
    world = EventmqWorld()
    world.worker(slots=1)
    client = world.peer()
    return calls_of(client.request)


def eventmq_ready() -> list[Call]:
    """A job waits, and a worker says that it would take one."""
    world = EventmqWorld()
    worker = world.worker()
    worker.say("HEARTBEAT", "1.0")  # what follows an INFORM waits for a turn of its own
    world.peer().request()
    return calls_of(lambda: worker.say("READY"))


PUSH = b'PUSH {"jid":"walk00000001","jobtype":"walk","queue":"walk","args":[]}\r\n'


def faktory_push() -> list[Call]:
    client = FaktoryWorld().client()
    return calls_of(lambda: client.send(PUSH))


def faktory_fetch() -> list[Call]:
    world = FaktoryWorld()
    world.client().send(PUSH)
    worker = world.client("w1")
    return calls_of(lambda: worker.send(b"FETCH walk\r\n"))


def gearman_submit() -> list[Call]:
    return calls_of(GearmanWorld().connect().submit_bg)


def gearman_grab() -> list[Call]:
    world = GearmanWorld()
    worker = world.worker("f")
    world.connect().submit_bg()
    return calls_of(worker.grab)


def periodic_submit() -> list[Call]:
    return calls_of(PeriodicWorld().client().submit)


def periodic_grab() -> list[Call]:
    world = PeriodicWorld()
    worker = world.worker("f")
    world.client().submit()
    return calls_of(worker.grab)


def memodb_result() -> list[Call]:
    world = MemoDBWorld()
    client, worker = world.peer(), worker_on(world, "s")
    client.job()
    task = worker.given()
    return calls_of(lambda: worker.result(task))


SCENES: Mapping[str, Callable[[], list[Call]]] = {
    "Faktory: a PUSH is answered": faktory_push,
    "Faktory: a FETCH is answered with a job": faktory_fetch,
    "Gearman: a SUBMIT_JOB_BG is answered": gearman_submit,
    "Gearman: a GRAB_JOB is answered with a job": gearman_grab,
    "Periodic: a SUBMIT_JOB is answered": periodic_submit,
    "Periodic: a GRAB_JOB is answered with a job": periodic_grab,
    "MemoDB: a RESULT answers the JOB of a client": memodb_result,
    "EventMQ: a REQUEST is answered": eventmq_request,
    "EventMQ: its job is given to a worker that waits": eventmq_request,
    "EventMQ: a READY is answered with a job": eventmq_ready,
}


def test_every_walk_has_its_scene() -> None:
    assert set(WALKS) == set(SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_a_message_takes_the_walk_that_the_page_shows(name: str) -> None:
    walk = WALKS[name]
    assert walk[0] == Function("engine/engine.py", "Engine.turn")
    assert walk[-1].name.startswith("Link.write")
    assert fault_in(walk, SCENES[name]()) == ""


@pytest.mark.parametrize("name", SCENES)
def test_a_walk_that_leaves_something_out_is_wrong(name: str) -> None:
    calls = SCENES[name]()
    walk = WALKS[name]
    left_out = [step for step in walk[1:-1] if has_branch(step)]
    on_the_way = {
        function for call in calls if call.called == walk[-1] for _, function in call.stack
    }
    wrong = [step for step in left_out if step in on_the_way]
    assert len(wrong) >= 3
    for step in wrong:
        assert fault_in([one for one in walk if one != step], calls)


def test_a_walk_in_another_order_or_with_strangers_is_wrong() -> None:
    calls = eventmq_request()
    walk = WALKS["EventMQ: a REQUEST is answered"]
    assert fault_in(walk[::-1], calls)
    assert fault_in([*walk[:-1], Function("core/broker.py", "Broker.tick_twice"), walk[-1]], calls)
    assert fault_in([walk[0]] * 10, calls) == "10 functions are too many"


@pytest.mark.parametrize(
    ("file", "name", "branches"),
    [
        ("engine/engine.py", "Engine._take_inputs", True),
        ("protocols/conversation.py", "Link.write", True),
        ("protocols/conversation.py", "Link.call_next_turn", False),
        ("protocols/conversation.py", "Conversation.unread", False),
        ("protocols/eventmq/service.py", "EventmqService.extra_listeners", False),
    ],
)
def test_what_decides_something(file: str, name: str, branches: bool) -> None:
    assert has_branch(Function(file, name)) is branches
