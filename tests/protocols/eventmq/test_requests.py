"""Requests: handed to a worker, answered when that happens, and again with their result if asked."""

import json

import pytest

from franca.core.limits import Limits
from franca.core.model import Policy
from franca.core.names import text_of
from franca.protocols.bodies import BYTES
from franca.protocols.eventmq import jobs as intake
from tests.protocols.eventmq.puppet import Puppet, World, written
from tests.support.eventmq import VERSION, Given, call, message

# -- the usual way ---------------------------------------------------------------------------------


def test_a_free_worker_gets_a_request_with_the_wish_for_a_reply(world: World) -> None:
    worker, client = world.worker(slots=1), world.peer()
    msgid = client.request(call(), "default", "timeout:5")
    assert worker.take() == Given(msgid, b"default", b"timeout:5,reply-requested", call())
    assert client.words() == [("REPLY", msgid.decode())]


def test_both_answers_wait_for_the_disk(worker: Puppet, client: Puppet) -> None:
    assert not worker.waited_for_commit
    client.request()
    assert (worker.waited_for_commit, client.waited_for_commit) == (True, True)


def test_of_three_requests_on_two_slots_the_third_waits_for_a_free_slot(world: World) -> None:
    worker, client = world.worker(slots=2), world.peer()
    first, second, third = (client.request(body) for body in ("1", "2", "3"))
    assert client.replies() == [(first.decode(),), (second.decode(),)]
    status = client.ask("STATUS")
    assert status["inflight_messages_by_queue"] == {"default": 3}
    assert status["waiting_messages_by_queue"] == {"default": 1}
    assert status["processed_messages_by_queue"] == {"default": 2}
    one, two = worker.given()
    worker.done(one)
    assert client.replies() == [(third.decode(),)]
    worker.done(worker.take())
    worker.done(two)
    status = client.ask("STATUS")
    assert (status["inflight_messages_by_queue"], status["waiting_messages_by_queue"]) == ({}, {})
    assert status["processed_messages_by_queue"] == {"default": 3}


def test_a_buffered_request_outlives_the_server(world: World) -> None:
    msgid = world.peer().request(call())
    world = world.restarted()
    worker = world.worker(slots=1)
    assert worker.take() == Given(msgid, b"default", b"reply-requested", call())


def test_a_request_from_a_client_that_is_gone_is_still_run(client: Puppet, world: World) -> None:
    client.request(b"1")
    client.hang_up()
    assert world.worker(slots=1).take().body == b"1"


def test_one_request_in_two_deliveries_is_one_job_while_nobody_has_run_it(world: World) -> None:
    msgid = world.peer().request(call())
    again = world.peer()
    again.request(call(), msgid=msgid)
    assert len(world.jobs()) == 1
    world.worker(slots=1)
    assert again.replies() == [(msgid.decode(),)]


def test_the_same_id_with_another_message_is_another_job(world: World, client: Puppet) -> None:
    msgid = client.request(b"1")
    client.request(b"2", msgid=msgid)
    worker = world.worker(slots=2)
    first, second = worker.given()
    assert (first.msgid, second.msgid) == (msgid, msgid)
    worker.done(second, ready=False)
    worker.done(first, ready=False)
    assert world.jobs() == []


def test_a_requests_kind_is_what_it_calls(world: World) -> None:
    world.peer().request(call("package.module:Class.method", 1))
    job = world.job()
    assert (job.kind, job.media) == ("package.module:Class.method", "json-call")


@pytest.mark.parametrize(
    "body",
    [b"", b"plain", b"\xff\xfe", b'["run"]', b'["run", {"path": 1}]', b"[" * 100_000, b"NaN"],
)
def test_any_message_is_kept_and_handed_on_to_the_byte(world: World, body: bytes) -> None:
    world.peer().request(body)
    assert world.job().kind == ""
    assert world.worker(slots=1).take().body == body


@pytest.mark.parametrize(
    ("msgid", "shown"),
    [
        ("ü".encode(), "ü".encode()),
        (b"\xff\x00\xfe", b"hex:ff00fe"),
        (b"a\0b", b"hex:610062"),
        (b"hex:00", b"hex:6865783a3030"),
        (b"job:1", b"hex:6a6f623a31"),
    ],
)
def test_ids_of_any_bytes_come_back_as_they_were(world: World, msgid: bytes, shown: bytes) -> None:
    worker, client = world.worker(slots=9), world.peer()
    for _ in range(2):
        client.request(msgid=msgid, headers="reply-requested")
        given = worker.take()
        assert given.msgid == shown
        worker.done(given)
        begun, ended = client.heard()
        assert (begun[4], ended[5]) == (msgid, msgid)
    assert world.jobs() == []


def test_further_frames_have_a_bound_of_their_own(world: World, client: Puppet) -> None:
    frames = ("default", "reply-requested", "x")
    client.say("REQUEST", *frames, b"m" * 32_768, b"m" * 32_768)
    assert len(world.jobs()) == 1
    client.say("REQUEST", *frames, b"m" * 32_768, b"m" * 32_769)
    assert len(world.jobs()) == 1
    assert "65537 bytes in further frames" in world.engine.notices[-1].reason
    ((_, error, _),) = client.words()
    assert "at most 65536" in json.loads(error)["error"]


def test_further_frames_are_handed_on(worker: Puppet, client: Puppet) -> None:
    client.say("REQUEST", "default", "guarantee", "body", "more", b"\xff", msgid=b"id")
    (message,) = (m for m in worker.heard() if m[2] == b"REQUEST")
    assert message[3:] == [
        b"id", b"default", b"guarantee,reply-requested", b"body", b"more", b"\xff",
    ]  # fmt: skip


# -- queues ----------------------------------------------------------------------------------------


def test_a_request_for_an_unknown_queue_goes_to_default_under_its_own_name(world: World) -> None:
    worker, client = world.worker((10, "default"), slots=2), world.peer()
    for queue, shown in ((b"nowhere", b"nowhere"), (b"\xff\xfe", b"default")):
        client.request(queue=queue)
        given = worker.take()
        assert given.queue == shown
    assert {job.queue for job in world.jobs()} == {"default"}


def test_a_queue_is_known_once_a_worker_spoke_of_it_over_restarts_too(world: World) -> None:
    world.worker((10, "email")).hang_up()
    world.peer().request(queue="email")
    world = world.restarted()
    world.peer().request(queue="email")
    assert [job.queue for job in world.jobs()] == ["email", "email"]
    assert world.worker((10, "default"), slots=2).given() == []
    assert len(world.worker((10, "email"), slots=2).given()) == 2


def test_an_empty_queue_name_is_default(world: World) -> None:
    world.peer().request(queue="")
    assert world.worker(slots=1).take().queue == b""


def test_jobs_go_out_as_they_came_even_in_one_piece(world: World) -> None:
    """A worker that is given a job asks for the next: it must hear of one before the next is read."""
    worker, client = world.worker((10, "q"), (5, "default"), slots=2), world.peer()
    requests = [(b"m1", b"q"), (b"m2", b"default"), (b"m3", b"q")]
    client.send(b"".join(message(b"REQUEST", msgid, queue, b"", b"x") for msgid, queue in requests))
    assert [given.msgid for given in worker.given()] == [b"m1", b"m2"]


# -- envelopes --------------------------------------------------------------------------------------


def test_an_envelope_of_sockets_in_between_is_on_every_answer(world: World) -> None:
    worker, client = world.worker(slots=1), world.peer()
    request = [b"", VERSION, b"REQUEST", b"id", b"default", b"reply-requested", b"x"]
    client.send(written([b"\x00route", b"r2", *request]))
    worker.done(worker.take())
    begun, ended = client.heard()
    assert begun[:3] == ended[:3] == [b"\x00route", b"r2", b""]
    assert (begun[4], begun[6], ended[6:]) == (b"REPLY", b"id", [b'{"value": 1}', b"id"])


def test_a_delimiter_too_many_is_an_envelope_too(world: World) -> None:
    world.worker(slots=1)
    client = world.peer("REQ")
    client.send(written([b"", b"", VERSION, b"REQUEST", b"id", b"default", b"", b"x"]))
    (reply,) = client.heard()
    assert reply[:3] == [b"", b"", VERSION]


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"", b""],
        [b"", VERSION],
        [b"", VERSION, b"REQUEST"],
        [b"", VERSION, b"REQUEST", b"id"],
        [b"", VERSION, b"REQUEST", b"id", b"default", b""],
        [VERSION, b"REQUEST", b"id", b"default", b"", b"x"],
        [b"", b"HTTP/1.0", b"REQUEST", b"id", b"default", b"", b"x"],
        [b"", VERSION, b"\xff\xfe", b"id"],
        [b"", VERSION, b"DANCE", b"id"],
        [b"", VERSION, b"REQUEST", b"i" * 513, b"default", b"", b"x"],
        [b"", VERSION, b"REQUEST", b"id", b"q" * 1_025, b"", b"x"],
        [b"", VERSION, b"REQUEST", b"id", b"default", b"h" * 4_097, b"x"],
        [b"", VERSION, b"REQUEST", b"id", b"default", b"", b"x" * 101],
        [b"", VERSION, b"REQUEST", b"id", b"default", b"", b"x", b"x" * 101],
        [b"", VERSION, b"REPLY", b"id"],
        [b"", VERSION, b"PUBLISH", b"id", b"topic"],
        [b"", VERSION, b"SCHEDULE", b"id", b"default", b""],
        [b"", VERSION, b"UNSCHEDULE", b"id", b"default", b""],
    ],
)
def test_what_cannot_be_taken_is_counted_and_the_dialogue_goes_on(frames: list[bytes]) -> None:
    world = World(limits=Limits(body_bytes_max=100))
    client = world.peer()
    client.send(written(frames))
    assert (world.service.refused, len(world.engine.notices), world.jobs()) == (1, 1, [])
    client.request(b"good")
    assert len(world.jobs()) == 1


@pytest.mark.parametrize("limits", [{}, {"frame_bytes_max": 150}])
@pytest.mark.parametrize("size", [101, 151, 100_000])
def test_what_is_too_large_is_noted_and_who_wants_a_result_hears_so(
    size: int, limits: dict[str, int]
) -> None:
    world = World(Limits(body_bytes_max=100, **limits))
    client = world.peer()
    msgid = client.request(b"x" * size, headers="reply-requested").decode()
    ((word, error, of),) = client.words()
    assert (word, of) == ("REPLY", msgid)
    assert "at most 100" in json.loads(error)["error"]
    assert str(size) in "".join(notice.reason for notice in world.engine.notices)


# -- without room ---------------------------------------------------------------------------------------


def test_without_room_on_the_disk_requests_wait_and_none_is_lost(world: World) -> None:
    client, other = world.peer(), world.worker(slots=1)
    world.broker.refusing_new = True
    client.request(b"1")
    client.request(b"2")
    assert world.jobs() == []
    other.ready()
    world.pass_time(1_000, other)
    assert world.jobs() == []
    world.broker.refusing_new = False
    world.pass_time(100)
    assert [given.body for given in other.given()] == [b"1", b"2"]


def test_a_client_that_leaves_while_it_waits_leaves_nothing(client: Puppet, world: World) -> None:
    world.broker.refusing_new = True
    client.request(b"1")
    client.hang_up()
    world.broker.refusing_new = False
    world.pass_time(100)
    assert world.jobs() == []


# -- crossing -----------------------------------------------------------------------------------------------


def test_a_job_of_another_protocol_is_shown_as_a_call(world: World, worker: Puppet) -> None:
    policy = Policy(lease_ms=60_000)
    world.foreign_job("default", b'["/a/b"]', "json-args", kind="os.path.basename", policy=policy)
    given = worker.take()
    assert (given.msgid, given.queue) == (b"their-job", b"default")
    assert given.headers == b"timeout:60,reply-requested"
    assert json.loads(given.body) == json.loads(call("os.path.basename", "/a/b"))
    worker.done(given, '{"value": "b"}')
    assert world.jobs() == []


def test_a_job_without_a_name_is_known_by_its_number(world: World, worker: Puppet) -> None:
    world.foreign_job("default", b"x", name="")
    given = worker.take()
    assert given.msgid == b"job:1"
    worker.done(given)
    assert world.jobs() == []


def test_a_queue_whose_name_is_not_utf8_is_one_queue(world: World) -> None:
    worker, client = world.peer(), world.peer()
    worker.say("INFORM", b"[[10, '\xff\xfe']]", "worker")
    worker.ready()
    client.request(call(), queue=b"\xff\xfe")
    assert world.job().queue == text_of(b"\xff\xfe")
    assert worker.take().queue == b"\xff\xfe"


def test_a_request_for_an_unknown_queue_of_that_kind_is_shown_text(world: World) -> None:
    """A job manager dies of anything else."""
    worker, client = world.worker(slots=1), world.peer()
    client.request(call(), queue=b"\xff\xfe")
    assert worker.take().queue == b"default"


def test_a_very_long_message_is_handed_on_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    client, worker = world.peer(), world.worker(slots=2)
    client.request(call("a.b", "x" * 1_000_000))
    assert worker.take().body[:20] == call("a.b")[:20]
    assert world.job().kind == "a.b"
    monkeypatch.setattr(intake, "_decode_call", None)
    for name, body in (("a.c", call("a.c", "x" * 1_048_576)), ("", b'["run",' + b"x" * 1_048_576)):
        client.request(body)
        (found,) = [job for job in world.jobs() if job.body == body]
        assert (found.kind, found.media, found.policy.max_losses) == (name, BYTES, 2)
        assert worker.take().body == body
        worker.ready()
