"""Results find their clients by identity: after a reconnect, after a restart, and not for ever."""

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.eventmq import conversation, zmtp
from tests.protocols.eventmq.puppet import Puppet, World, written
from tests.support.eventmq import VERSION, call, message


def test_a_result_reaches_a_new_connection_with_the_same_identity(world: World) -> None:
    worker, client = world.worker(slots=1), world.peer(identity=b"me")
    msgid = client.request(call(), headers="reply-requested").decode()
    client.hang_up()
    other, again = world.peer(identity=b"you"), world.peer(identity=b"me")
    worker.done(worker.take())
    assert (again.replies(), other.replies()) == ([('{"value": 1}', msgid)], [])


def test_also_if_that_is_made_after_the_job_has_ended(world: World) -> None:
    worker, client = world.worker(slots=2), world.peer(identity=b"me")
    asked = [client.request(call(), headers="reply-requested").decode() for _ in range(2)]
    client.hang_up()
    for given in worker.given():
        worker.done(given)
    world.pass_time(60_000, worker)
    puppet = world.stranger()
    puppet.send(zmtp.GREETING + zmtp.ready(b"DEALER", b"me"))
    puppet.read_handshake()
    heard = [frames[5].decode() for frames in puppet.heard()]
    assert (heard, puppet.waited_for_commit) == (asked, True)
    assert world.service.results.kept_bytes == 0


def test_and_after_a_restart_whoever_ran_it(world: World) -> None:
    worker, client = world.worker(slots=1), world.peer(identity=b"me")
    ran = client.request(call(), headers="reply-requested").decode()
    waits = client.request(call("a.b"), headers="reply-requested").decode()
    given = worker.take()
    world = world.restarted(world.now + 1)
    client, back = world.peer(identity=b"me"), world.worker()
    back.done(given, '{"value": "late"}')
    assert client.replies() == [('{"value": "late"}', ran)]
    back.done(back.take())
    assert client.replies()[-1] == ('{"value": 1}', waits)


def test_the_connection_that_asked_is_preferred_to_its_equals(worker: Puppet, world: World) -> None:
    one, two = world.peer(identity=b"me"), world.peer(identity=b"me")
    one.request(call(), headers="reply-requested")
    worker.done(worker.take())
    assert len(one.replies()) == 2
    assert two.replies() == []


def test_what_is_for_a_client_without_an_identity_ends_with_its_connection(world: World) -> None:
    worker, client = world.worker(slots=2), world.peer()
    for _ in range(2):
        client.request(call(), headers="reply-requested")
    client.link.full = True
    one, two = worker.given()
    worker.done(one)
    assert world.service.results.kept_bytes > 0
    client.hang_up()
    assert world.service.results.kept_bytes == 0
    worker.done(two)
    assert world.service.results.kept_bytes == 0


def test_an_envelope_comes_back_after_a_restart_too(world: World) -> None:
    client = world.peer(identity=b"router")
    request = [b"inner", b"", VERSION, b"REQUEST", b"id", b"default", b"reply-requested", b"x"]
    client.send(written(request))
    world = world.restarted(world.now + 1)
    client, worker = world.peer(identity=b"router"), world.worker(slots=1)
    worker.done(worker.take())
    (ended,) = client.heard()
    assert (ended[0], ended[-1]) == (b"inner", b"id")


def test_who_asks_again_on_another_connection_hears_it_as_well() -> None:
    world = World(limits=Limits(window_jobs=1, supply_jobs=1))
    world.peer().request(b"before")
    first, second = world.peer(), world.peer()
    for peer in (first, second, second):
        peer.request(call(), headers="reply-requested", msgid=b"id")
    worker = world.worker(slots=2)
    for given in worker.given():
        worker.done(given)
    results = [[said for said in peer.replies() if len(said) == 2] for peer in (first, second)]
    assert results == [[('{"value": 1}', "id")], [('{"value": 1}', "id")]]


def test_kept_results_are_bounded_and_one_of_any_size_is_kept() -> None:
    world = World(limits=Limits(kept_result_bytes=10_000))
    worker = world.worker(slots=20)
    for number in range(10):
        client = world.peer(identity=b"%d" % number)
        client.request(call(), headers="reply-requested")
        client.hang_up()
        worker.done(worker.take(), b"x" * (5_000 if number == 9 else 10))
        assert world.service.results.kept_bytes <= 10_000
    assert world.service.results.dropped > 0
    assert len(world.peer(identity=b"9").conversation.service.results._backlogs) > 0


@pytest.mark.parametrize(("headers", "state"), [("reply-requested", State.DEAD), ("", None)])
def test_a_result_too_large_ends_its_job_and_no_more(headers: str, state: State | None) -> None:
    world = World(limits=Limits(frame_bytes_max=2_000, body_bytes_max=1_000))
    worker, client = world.worker(slots=1), world.peer()
    for size in (1_001, 2_001, 100_000):
        client.request(call(), headers=headers and f"{headers},retry-count:3")
        given = worker.take()
        client.heard()
        worker.done(given, b"x" * size)
        assert not worker.is_hung_up
        assert [job.state for job in world.jobs()] == ([state] if state else [])
        if state:
            ((error, _),) = client.replies()
            assert str(size) in error
            world.broker.cancel(world.job(), world.now)
            client.heard()
            world.run()
            client.heard()
        assert str(size) in world.engine.notices[-1].reason
    assert world.service.workers_here.all


def test_the_documents_reply_that_is_too_large_is_to_the_only_job() -> None:
    world = World(limits=Limits(frame_bytes_max=2_000, body_bytes_max=1_000))
    worker, client = world.worker(slots=1), world.peer()
    client.request(call())
    worker.say("REPLY", b"x" * 3_000)
    assert world.jobs() == []


def test_a_worker_is_heard_while_a_large_result_comes(world: World) -> None:
    worker, client = world.worker(slots=1), world.peer()
    client.request(call())
    given = worker.take()
    result = b"x" * 1_000_000
    data = message(b"REPLY", b"i", result, given.msgid)
    for at in range(0, len(data), 100_000):
        worker.send(data[at : at + 100_000])
        world.pass_time(2_000, step=1_000)
    assert world.jobs() == []


def test_requests_said_again_are_waited_for_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "JOINED_BYTES_MAX", 3 * 400)
    world = World()
    first, *others = [world.peer() for _ in range(5)]
    msgid = first.request(headers="reply-requested")
    for other in (*others, others[0]):
        other.request(headers="reply-requested", msgid=msgid)
    assert world.service.joined_bytes == 3 * 400
    others[0].hang_up()
    assert world.service.joined_bytes == 2 * 400
    worker = world.worker(slots=1)
    worker.done(worker.take())
    assert len(first.replies()) == 1  # the result, whoever heard of the beginning
    for other in others:
        other.hang_up()
    assert world.service.joined_bytes == 0
