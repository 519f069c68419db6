"""Large results: a client that takes what it is sent loses none; who does not is not waited for."""

import pytest

from franca.core.limits import Limits
from franca.protocols.eventmq.results import PACE_BYTES_PER_MS, PATIENCE_MS, SHORT_PATIENCE_MS
from tests.protocols.eventmq.puppet import Puppet, World
from tests.support.eventmq import Given, call, message

SIZE = 200_000
COUNT = 50
"""More than may be kept for one client."""


def ask(client: Puppet, count: int = COUNT, prefix: bytes = b"") -> list[bytes]:
    """Requests whose results are wanted; their ids."""
    msgids = [prefix + b"%d" % number if prefix else b"" for number in range(count)]
    return [client.request(call(), headers="reply-requested", msgid=msgid) for msgid in msgids]


def answer(worker: Puppet, jobs: list[Given], size: int = SIZE) -> None:
    """All results in one piece, as a busy socket brings them."""
    result = b"x" * size
    replies = [message(b"REPLY", b"i", result, job.msgid) for job in jobs]
    worker.send(b"".join(replies))


def kept_waiting(world: World, client: Puppet) -> Puppet:
    """A worker that is not listened to, because of results that this client does not take."""
    ask(client)
    worker = world.worker(slots=COUNT)
    client.link.full = True
    answer(worker, worker.given())
    assert worker.conversation.holding
    return worker


def results(client: Puppet) -> list[bytes]:
    """The ids of those that were heard since this was last asked."""
    return [frames[5] for frames in client.heard() if len(frames) == 6]


def take_slowly(client: Puppet) -> list[bytes]:
    """Take some at a time; the socket is behind in between."""
    world = client.world
    heard: list[bytes] = []
    while True:
        client.link.full = False
        world.now += 50
        world.engine.turn(world.now)
        world.listen()
        some = results(client)
        if not some:
            return heard
        heard += some
        client.link.full = True
        world.run()


# -- clients that take what they are sent ----------------------------------------------------------


@pytest.mark.parametrize("identity", [b"me", b""])
def test_a_client_that_reads_gets_all_large_results_in_order(world: World, identity: bytes) -> None:
    worker, client = world.worker(slots=COUNT), world.peer(identity=identity)
    asked = ask(client)
    answer(worker, worker.given())
    assert results(client) == asked
    assert (world.service.results.dropped, world.service.results.kept_bytes) == (0, 0)


def test_no_more_of_them_are_on_their_way_at_once_than_may_be_unsent(world: World) -> None:
    worker, client = world.worker(slots=COUNT), world.peer()
    ask(client)
    for job in worker.given():
        reply = message(b"REPLY", b"i", b"x" * SIZE, job.msgid)
        world.engine.inputs.append((worker.link, reply))
    for _ in world.turns():
        assert sum(map(len, client.link.out)) <= world.limits.output_soft_bytes + 2 * SIZE
    world.run()
    assert len(results(client)) == COUNT


def test_who_asked_for_the_same_later_hears_as_much(world: World) -> None:
    first, second = world.peer(identity=b"1"), world.peer(identity=b"2")
    asked = ask(first, prefix=b"job-")
    assert ask(second, prefix=b"job-") == asked
    worker = world.worker(slots=COUNT)
    answer(worker, worker.given())
    assert (results(first), results(second)) == (asked, asked)


@pytest.mark.parametrize("later", [False, True])
def test_a_worker_waits_for_a_client_whose_socket_is_behind(world: World, later: bool) -> None:
    other, client = world.peer(identity=b"1"), world.peer(identity=b"2")
    asked = ask(other if later else client, prefix=b"job-")
    if later:
        ask(client, prefix=b"job-")
    worker = world.worker(slots=COUNT)
    client.link.full = True
    answer(worker, worker.given())
    assert worker.conversation.holding
    assert worker.conversation.unread() > (COUNT // 2) * SIZE
    assert world.service.results.kept_bytes <= world.limits.kept_result_bytes // 4
    assert take_slowly(client) == asked
    assert results(other) == (asked if later else [])
    assert (worker.conversation.holding, world.service.results.dropped) == (False, 0)


def test_results_as_large_as_all_that_may_be_kept_for_a_client_pass_one_by_one() -> None:
    world = World(limits=Limits(kept_result_bytes=SIZE))
    worker, client = world.worker(slots=5), world.peer(identity=b"me")
    asked = ask(client, 5)
    client.link.full = True
    answer(worker, worker.given())
    assert take_slowly(client) == asked


def test_many_clients_that_take_theirs_do_not_drive_out_each_others_results() -> None:
    world = World(limits=Limits(kept_result_bytes=4 * SIZE))
    worker = world.worker(slots=10)
    clients = [world.peer(identity=b"%d" % number) for number in range(10)]
    for client in clients:
        ask(client, 1)
        client.link.full = True
    answer(worker, worker.given(), SIZE // 2)
    assert worker.conversation.holding
    assert world.service.results.kept_bytes <= 4 * SIZE
    for client in clients:
        client.link.full = False
    world.pass_time(100)
    assert [len(results(client)) for client in clients] == [1] * 10
    assert world.service.results.dropped == 0


def test_what_is_kept_for_those_who_are_gone_makes_room_before_anybody_waits() -> None:
    world = World(limits=Limits(kept_result_bytes=4 * SIZE))
    worker = world.worker(slots=20)
    for number in range(10):
        gone = world.peer(identity=b"%d" % number)
        ask(gone, 1)
        gone.hang_up()
    client = world.peer(identity=b"me")
    asked = ask(client, 1)
    client.link.full = True
    answer(worker, worker.given(), SIZE // 2)
    assert not worker.conversation.holding
    client.link.full = False
    world.pass_time(50)
    assert results(client) == asked


# -- those who do not ------------------------------------------------------------------------------


def test_a_client_that_takes_nothing_is_waited_for_once_and_then_briefly(world: World) -> None:
    worker = world.worker(slots=2 * COUNT)
    on_its_way = world.limits.output_soft_bytes // PACE_BYTES_PER_MS
    for number, patience in enumerate((PATIENCE_MS, SHORT_PATIENCE_MS)):
        client = world.peer(identity=b"%d" % number)
        ask(client)
        client.link.full = True
        answer(worker, worker.given())
        world.pass_time(on_its_way + patience - 50)
        assert worker.conversation.holding
        assert world.service.workers_here.all  # it is we who do not listen
        world.pass_time(100)
        assert (worker.conversation.holding, world.jobs()) == (False, [])
    assert world.service.results.dropped > 0
    assert world.service.results.kept_bytes <= world.limits.kept_result_bytes


def test_nobody_else_waits_with_the_worker(world: World, client: Puppet) -> None:
    kept_waiting(world, world.peer())
    other = world.worker(slots=1)
    asked = ask(client, 1)
    other.done(other.take())
    assert results(client) == asked


def test_when_a_client_leaves_its_worker_goes_on(world: World, client: Puppet) -> None:
    worker = kept_waiting(world, client)
    client.hang_up()
    world.pass_time(100)
    assert not worker.conversation.holding
    assert (world.jobs(), world.service.results.kept_bytes) == ([], 0)


def test_a_worker_that_leaves_while_it_waits_has_said_what_it_said(world: World) -> None:
    client = world.peer(identity=b"me")
    worker = kept_waiting(world, client)
    worker.ready()
    worker.hang_up()
    assert (world.jobs(), world.service.workers_here.all) == ([], {})
    assert client.request(b"next")
    assert world.job().attempts == 0
