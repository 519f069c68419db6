"""Workers that were given nothing, or something that they never heard of: asked again, they are."""

import pytest

from tests.protocols.memodb.puppet import SECOND, Puppet, World
from tests.support import memodb as m
from tests.support.memodb import Reply


def put_off(world: World) -> tuple[Puppet, Puppet, Reply]:
    """A worker that was put off because its connection was full; its client; its last task."""
    client, worker = world.peer(), world.peer()
    worker.ready()
    client.job(b"1")
    task = worker.given()
    worker.ask(m.result(task.worker, b"done"), 77)
    assert client.answer().payload == b"done"
    world.engine.hold_back(worker.link)
    client.job(b"x" * 100_000)
    assert worker.hear() is None
    (waiting,) = world.service.registry.by_id.values()
    assert waiting.demand is None
    return worker, client, task


@pytest.mark.parametrize("again", [True, False])
def test_a_worker_that_was_put_off_and_moves_is_asked_for_there(world: World, again: bool) -> None:
    _, client, task = put_off(world)
    elsewhere = world.peer()
    elsewhere.ask(m.result(task.worker, b"done") if again else m.heartbeat(task.worker), 77)
    task = elsewhere.given()
    assert task.payload == b"x" * 100_000
    elsewhere.result(task, b"done too")
    assert client.answer().payload == b"done too"


def test_a_worker_that_was_put_off_goes_on_when_its_connection_can(world: World) -> None:
    worker, _, task = put_off(world)
    for n in range(5):
        message = m.result(task.worker, b"done")
        world.share(worker.link, worker.asking(77, message))
        world.pass_time(n)
    worker.drain()
    assert worker.given().payload == b"x" * 100_000
    assert worker.hear() is None


def test_whoever_waits_for_nothing_is_looked_after(world: World) -> None:
    client, worker = world.peer(), world.peer()
    worker.ready()
    (waiting,) = world.service.registry.by_id.values()
    assert waiting.demand is not None
    world.broker.withdraw(waiting.demand)
    waiting.demand = None
    world.pass_time(2 * SECOND, step=SECOND)
    client.job(b"for it")
    assert worker.given().payload == b"for it"


def test_a_worker_whose_job_was_taken_away_unheard_is_given_another(world: World) -> None:
    client, worker = world.peer(), world.peer()
    request = worker.ready()
    client.job(b"1")
    worker.given()  # lost on the way, say
    world.cancel(*world.all_jobs)
    client = world.peer()
    client.job(b"2")
    worker.ask(b"\x84\x66memo01\x01\x40\x81\x61s", request)
    assert worker.given().payload == b"2"
