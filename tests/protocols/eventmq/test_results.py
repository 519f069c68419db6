"""Results: to whom, when, in which form, and what becomes of those that nobody reads."""

import json
from collections.abc import Callable

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.bodies import as_bytes, as_json_args
from franca.protocols.eventmq import results
from franca.protocols.eventmq.jobs import kind_of
from franca.protocols.eventmq.results import bare_value, failure_in
from tests.protocols.eventmq.puppet import Puppet, World
from tests.support.eventmq import call
from tests.support.memory import traced

# -- results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "heard"),
    [
        ('{"value": "b"}', '{"value": "b"}'),
        ("bytes of any kind", "bytes of any kind"),
        ('{"value": "an exception\'s text"}', '{"value": "an exception\'s text"}'),
        ('{"value": null}', "true"),
        ("", "true"),
        ("null", "true"),
    ],
)
def test_who_asks_for_a_reply_hears_of_the_hand_over_and_then_the_result(
    worker: Puppet, client: Puppet, result: str, heard: str
) -> None:
    msgid = client.request(call(), headers="reply-requested").decode()
    assert client.words() == [("REPLY", msgid)]
    worker.done(worker.take(), result)
    assert client.words() == [("REPLY", heard, msgid)]


def test_who_does_not_ask_hears_no_result(worker: Puppet, client: Puppet) -> None:
    client.request(call())
    client.heard()
    worker.done(worker.take())
    assert client.words() == []


def test_a_req_socket_hears_one_answer_the_result_if_it_asked_for_it(world: World) -> None:
    worker, client = world.worker(slots=2), world.peer("REQ")
    msgid = client.request(call(), headers="reply-requested").decode()
    assert client.words() == []
    worker.done(worker.take())
    assert client.words() == [("REPLY", '{"value": 1}', msgid)]
    msgid = client.request(call()).decode()
    assert client.words() == [("REPLY", msgid)]


def test_a_job_that_is_given_up_is_an_error_to_who_waits_for_it(world: World) -> None:
    worker, client = world.worker(slots=1), world.peer()
    msgid = client.request(call(), headers="reply-requested").decode()
    client.heard()
    worker.done(worker.take(), '{"error": "boom"}')
    assert client.words() == [("REPLY", '{"error":"boom"}', msgid)]
    assert world.job().state is State.DEAD


def test_a_result_of_another_protocols_worker_is_a_value(world: World, client: Puppet) -> None:
    for result, heard in ((b"", "true"), (b"text", '{"value":"text"}'), (b"\xff", "base64")):
        client.request(call(), headers="reply-requested", msgid=b"id")
        stranger = world.stranger_on("default")
        world.broker.finish(world.job(), stranger.holder, result, world.now)
        world.run()
        assert heard in client.replies()[-1][0]


def test_a_request_whose_result_is_wanted_does_not_overtake_those_in_the_tail() -> None:
    """A job that is watched cannot leave memory, so it is not watched before it is run."""
    world = World(limits=Limits(window_jobs=4, supply_jobs=2))
    client, waiter = world.peer(), world.peer()
    for number in range(20):
        peer, headers = (waiter, "reply-requested") if number % 5 == 4 else (client, "")
        peer.request(b"%d" % number, headers=headers)
    worker = world.worker()
    order = []
    for _ in range(20):
        worker.ready()
        given = worker.take()
        order.append(int(given.body))
        worker.done(given, ready=False)
    assert order == list(range(20))
    assert len(waiter.replies()) == 8


def test_a_request_cancelled_before_it_ran_is_an_error_to_who_waits(world: World) -> None:
    waiter, other = world.peer(), world.peer()
    waiter.request(headers="reply-requested")
    other.request()
    world.cancel(*world.broker.jobs.values())
    ((error, _),) = waiter.replies()
    assert "cancelled" in error
    assert other.replies() == []


# -- peers that do not read -----------------------------------------------------------------------------


def test_what_a_client_does_not_read_is_dropped_and_its_requests_are_taken(world: World) -> None:
    worker, client = world.worker(slots=3), world.peer()
    assert client.conversation.drops
    client.link.full = True
    for body in ("1", "2", "3", "4"):
        client.request(body)
    assert len(worker.given()) == 3
    assert client.words() == []
    worker.ready()
    assert client.words() == []
    client.link.full = False
    client.request("5")
    worker.ready()
    assert len(client.words()) == 1


def test_results_wait_for_a_client_that_does_not_read_only_so_far() -> None:
    world = World(limits=Limits(kept_result_bytes=20_000))
    worker, client, other = world.worker(slots=12), world.peer(), world.peer()
    client.link.full = other.link.full = True
    for peer, count in ((other, 1), (client, 10)):
        for _ in range(count):
            peer.request(call(), headers="reply-requested")
            worker.done(worker.take(), b"x" * 50)
            world.pass_time(3_000, worker)  # nobody waits for it any more
    assert client.replies() == []
    assert world.service.results.kept_bytes <= 20_000
    assert world.service.results.dropped > 0
    client.link.full = other.link.full = False
    world.pass_time(100)
    assert 0 < len(client.replies()) < 10
    assert len(other.replies()) == 1  # it loses nothing because of somebody else
    assert world.service.results.kept_bytes == 0


def test_and_not_for_ever(world: World, worker: Puppet, client: Puppet) -> None:
    client.link.full = True
    client.request(call(), headers="reply-requested")
    worker.done(worker.take())
    world.pass_time(world.limits.kept_result_ms + 100, worker)
    assert world.service.results.kept_bytes == 0
    client.link.full = False
    world.pass_time(100)
    assert client.replies() == []


def test_a_worker_that_does_not_read_is_held_back_like_anybody(worker: Puppet) -> None:
    assert not worker.conversation.drops


@pytest.mark.parametrize(
    "read",
    [
        lambda data: bare_value(b'{"value":' + data + b"}"),
        lambda data: failure_in(b'{"error":' + data + b"}", 1_000),
        lambda data: as_json_args("bytes", data),
        lambda data: as_bytes("json-args", data),
        lambda data: as_json_args("json-call", b'["run",{"class_args":' + data + b"}]"),
        lambda data: kind_of(b'["run",{"path":"a","callable":"b","args":' + data + b"}]", 1_024),
    ],
)
def test_nobody_takes_a_strangers_value_apart(read: Callable[[bytes], object]) -> None:
    """A few megabytes of `{}` are many times as much as objects."""
    data = b"[" + b"{}," * 700_000 + b"{}]"
    with traced() as memory:
        read(data)
    assert memory.peak < 5 * len(data)


@pytest.mark.parametrize("raw", [b"\xff" * 600_000, "ü\n".encode() * 200_000, b"x" * 600_000])
def test_long_bytes_are_written_as_json_in_pieces(raw: bytes) -> None:
    (value,) = json.loads(as_json_args("bytes", raw))
    assert as_bytes("json-args", as_json_args("bytes", raw)) == raw
    assert isinstance(value, str) or value.keys() == {"base64"}


# -- long results --------------------------------------------------------------------------------------

LONG = 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (b'{"value": [' + b"1," * LONG + b"1]}", b"[" + b"1," * LONG + b"1]"),
        (b'{"value":"' + b"x" * LONG + b'"}', b"x" * LONG),
        (b'{"value": "' + b"\\n" * LONG + b'"}', None),
        (b'{"value": "' + b"x" * LONG + b'", "a": "b"}', None),
        (b'{"other": "' + b"x" * LONG + b'"}', None),
        (b'{"value": ' + b"x" * LONG, None),
        (b"x" * (LONG + 1), None),
    ],
)
def test_a_long_result_is_cut_out_without_being_read(
    result: bytes, shown: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_decode", None)
    assert bare_value(result) == (result if shown is None else shown)
    assert failure_in(result, 10) is None


def test_a_long_failure_is_known_by_how_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_decode", None)
    failure = failure_in(b'{ "error" : "it broke, ' + b"x" * LONG + b'"}', 10)
    assert failure is not None
    assert failure.text == "it broke, "
    assert failure_in(b'{"value": 1, "error": "' + b"x" * LONG + b'"}', 10) is None


def test_a_large_result_of_another_protocol_is_written_once_for_all_who_wait_for_it() -> None:
    world = World(limits=Limits(begins_awaited=0))  # so that all of them watch the job
    first, *others = [world.peer() for _ in range(5)]
    msgid = first.request(headers="reply-requested")
    for other in others:
        other.request(headers="reply-requested", msgid=msgid)
    stranger = world.stranger_on("default")
    world.broker.finish(world.job(), stranger.holder, b"w" * 100_000, world.now)
    world.engine.deliver(world.now)
    large = [piece for other in others for piece in other.link.out if len(piece) > 100_000]
    assert (len(large), len({id(piece) for piece in large})) == (4, 1)
