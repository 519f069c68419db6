"""Workers: how they come, which is next, how they leave, and what becomes of their jobs."""

import pytest

from franca.core.limits import Limits
from franca.core.model import Job
from franca.protocols.eventmq.conversation import EventmqConversation
from franca.protocols.eventmq.workers import BEAT_EVERY_MS, SILENCE_MS
from tests.protocols.eventmq.puppet import Puppet, World
from tests.support.eventmq import message

# -- coming ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        ('[[10, "default"]]', "worker"),
        ("", "worker"),
        ("default", "worker"),
        ("[10, 'default']", "WORKER"),
        ("default",),
        (),
    ],
)
def test_an_inform_is_answered_by_ack_and_heartbeat(world: World, parts: tuple[str, ...]) -> None:
    worker = world.peer()
    msgid = worker.say("INFORM", *parts)
    ack, heartbeat = worker.heard()
    assert ack[2:3] + ack[4:] == [b"ACK", msgid]
    assert (heartbeat[2], heartbeat[4]) == (b"HEARTBEAT", b"1790000000.000")
    worker.ready()
    world.peer().request(b"1")
    assert worker.take().body == b"1"


@pytest.mark.parametrize("parts", [("[[10]]", "worker"), ("", "dancer")])
def test_a_senseless_inform_is_not_acknowledged(world: World, parts: tuple[str, str]) -> None:
    worker = world.peer()
    worker.say("INFORM", *parts)
    assert (worker.heard(), world.service.refused) == ([], 1)


def test_who_never_informed_is_given_nothing(world: World) -> None:
    world.peer().request()
    worker = world.peer()
    worker.ready()
    assert worker.heard() == []


def test_everybody_is_sent_heartbeats(world: World) -> None:
    worker, scheduler, client = world.worker(), world.worker(role="scheduler"), world.peer()
    client.request()
    world.pass_time(4 * BEAT_EVERY_MS, worker, scheduler)
    assert [m[2] for m in worker.heard()] == [b"HEARTBEAT"] * 4
    assert [m[2] for m in scheduler.heard()] == [b"HEARTBEAT"] * 4
    assert client.heard() == []


def test_commands_in_small_letters_are_understood(world: World) -> None:
    worker = world.peer()
    worker.say("inform", "", "worker")
    assert worker.heard()[0][2] == b"ACK"


# -- who is next -------------------------------------------------------------------------------------


def bodies(*workers: Puppet) -> list[list[str]]:
    return [[given.body.decode() for given in worker.given()] for worker in workers]


def test_the_least_recently_used_worker_is_next_whatever_slots(world: World) -> None:
    client, a, b = world.peer(), world.worker(slots=3), world.worker(slots=1)
    for body in "1234":
        client.request(body)
    assert bodies(a, b) == [["1", "3", "4"], ["2"]]


def test_so_it_is_for_requests_that_come_at_once(world: World, client: Puppet) -> None:

    a, b = world.worker(slots=2), world.worker(slots=2)
    client.send(
        b"".join(
            message(b"REQUEST", b"id" + n, b"default", b"", n) for n in (b"1", b"2", b"3", b"4")
        )
    )
    assert bodies(a, b) == [["1", "3"], ["2", "4"]]


def test_the_heavier_worker_of_a_queue_is_next_while_it_can(client: Puppet, world: World) -> None:
    light = world.worker((10, "default"), slots=4)
    heavy = world.worker((20, "default"), slots=2)
    for body in "1234":
        client.request(body)
    assert bodies(light, heavy) == [["3", "4"], ["1", "2"]]
    heavy.ready()
    client.request("5")
    assert bodies(light, heavy) == [[], ["5"]]


def test_the_lightest_comes_after_those_of_other_protocols(client: Puppet, world: World) -> None:
    light, usual = world.worker((5, "default"), slots=1), world.worker((10, "default"), slots=1)
    client.request("1")
    client.request("2")
    assert bodies(light, usual) == [["2"], ["1"]]


def test_a_free_slot_takes_from_its_queues_in_their_order(world: World, client: Puppet) -> None:
    worker = world.worker((10, "a"), (90, "b"))
    client.request("1", "b")
    client.request("2", "a")
    client.request("3", "b")
    for _ in range(3):
        worker.ready()
    assert bodies(worker) == [["2", "1", "3"]]


def test_a_slot_counts_for_all_queues_of_its_worker(world: World, client: Puppet) -> None:
    worker = world.worker((10, "a"), (10, "b"), slots=1)
    client.request("1", "a")
    client.request("2", "b")
    assert bodies(worker) == [["1"]]


# -- leaving -----------------------------------------------------------------------------------------


def test_a_worker_that_hangs_up_leaves_its_jobs_to_others(world: World) -> None:
    lost, other, client = world.worker(slots=2), world.worker(), world.peer()
    client.request("1")
    client.request("2")
    lost.hang_up()
    other.ready()
    other.ready()
    assert bodies(other) == [["1", "2"]]
    assert len(client.replies()) == 2  # each was handed over once, as far as clients care


def test_a_job_that_never_left_the_server_is_not_counted_as_lost(world: World) -> None:
    lost = world.worker(slots=1)
    world.peer().request()
    lost.hang_up(undelivered=True)
    assert (world.job().losses, world.job().attempts) == (0, 0)


def test_what_is_given_back_goes_to_another_even_if_the_lost_one_wanted_more(world: World) -> None:
    lost, other = world.worker(slots=2), world.worker()
    world.peer().request("1")
    other.ready()
    lost.hang_up(undelivered=True)
    assert bodies(other) == [["1"]]
    assert world.job().attempts == 1


def test_a_silent_worker_is_taken_for_gone(world: World) -> None:
    silent, other = world.worker(slots=1), world.worker()
    world.peer().request()
    world.pass_time(SILENCE_MS - 500, other)
    other.ready()
    assert other.given() == []
    world.pass_time(2_000, other)
    assert (len(other.given()), len(list(world.service.workers())), silent.is_hung_up) == (
        1,
        1,
        False,
    )


@pytest.mark.parametrize("word", ["HEARTBEAT", "READY", "HELLO", "DANCE"])
def test_any_message_is_a_heartbeat(world: World, word: str) -> None:
    worker = world.worker()
    for _ in range(10):
        world.pass_time(SILENCE_MS // 2)
        worker.say(word)
    assert len(list(world.service.workers())) == 1


def test_a_worker_that_was_taken_for_gone_may_inform_again(world: World, worker: Puppet) -> None:
    world.pass_time(2 * SILENCE_MS)
    worker.heard()
    worker.ready()
    world.peer().request()
    assert worker.given() == []
    worker.say("INFORM", "", "worker")
    worker.ready()
    assert len(worker.given()) == 1


@pytest.mark.parametrize("goodbye", ["KBYE", "KBAI", "DISCONNECT"])
def test_who_says_goodbye_gets_no_more_and_finishes_in_silence(world: World, goodbye: str) -> None:
    worker, client = world.worker(slots=2), world.peer()
    client.request("1", headers="reply-requested")
    given = worker.take()
    worker.say(goodbye)
    other = world.worker(slots=2, identity=b"other")
    client.request("2")
    world.pass_time(300_000, other, step=1_000)
    assert bodies(worker, other) == [[], ["2"]]
    shown = world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"]
    assert list(shown) == ["other"]
    worker.done(given, ready=False)
    assert ("REPLY", '{"value": 1}', given.msgid.decode()) in client.words()
    assert [job.body for job in world.jobs()] == [b"2"]
    assert [view.name for view in world.service.workers()] == ["other"]


def test_a_job_of_a_worker_that_said_goodbye_goes_to_another_when_it_hangs_up(world: World) -> None:
    worker, other = world.worker(slots=1), world.worker()
    world.peer().request("1")
    worker.say("KBYE")
    other.ready()
    assert bodies(other) == [[]]
    worker.hang_up()
    assert bodies(other) == [["1"]]


def test_a_disconnect_is_answered_with_the_word_that_real_peers_know(world: World) -> None:
    worker = world.worker()
    worker.say("DISCONNECT")
    assert (worker.words(), world.stops) == ([("KBYE",)], 0)


def test_a_client_that_says_goodbye_hears_no_more(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.request(headers="reply-requested")
    client.say("KBYE")
    worker.ready()
    worker.done(worker.take())
    assert client.words() == []


def test_a_worker_may_inform_again_and_keeps_what_it_holds(world: World) -> None:
    worker, client = world.worker((10, "a"), slots=2), world.peer()
    client.request("1", "a")
    given = worker.take()
    worker.say("INFORM", '[[10, "b"]]', "worker")
    worker.heard()
    client.request("2", "a")
    client.request("3", "b")
    assert bodies(worker) == [[]]  # its slots are those it says READY for from now on
    worker.ready()
    assert bodies(worker) == [["3"]]
    worker.done(given, ready=False)
    assert sorted(job.body for job in world.jobs()) == [b"2", b"3"]


# -- what operators see and do ----------------------------------------------------------------------


def test_operators_see_workers_by_their_names(world: World) -> None:
    world.worker((10, "a"), (5, "b"), identity=b"manager-1")
    auto, nameless = world.worker(identity=b"\x00\x01\x02\x03\x04"), world.worker()
    names = [(view.name, tuple(view.queues)) for view in world.service.workers()]
    assert names == [
        ("manager-1", ("a", "b")),
        (f"0001020304@{auto.link.id}", ("default",)),
        (nameless.link.id, ("default",)),
    ]


@pytest.mark.parametrize(("what", "heard"), [("quiet", []), ("stop", [("KBYE",)])])
def test_operators_may_ask_a_worker_to_take_no_more(what: str, heard: list[tuple[str]]) -> None:
    world = World()
    worker = world.worker(slots=1, identity=b"w")
    assert world.service.ask_worker("w", what)
    world.run()
    assert worker.words() == heard
    world.peer().request()
    assert worker.given() == []
    assert not world.service.ask_worker("nobody", what)
    assert not world.service.ask_worker("w", "dance")


# -- the end ---------------------------------------------------------------------------------------------


def test_when_the_server_stops_workers_hear_goodbye_and_may_finish(world: World) -> None:
    worker, idle, scheduler = world.worker(slots=2), world.worker(), world.worker(role="scheduler")
    client, single, silent = world.peer(), world.peer("REQ"), world.peer()
    client.request("1", headers="reply-requested")
    given = worker.take()
    single.request("0")
    worker.done(worker.take(), ready=False)
    assert world.engine.consumers() == 1
    world.stop()
    for peer in (worker, idle, scheduler):
        assert peer.words() == [("KBYE",)]
    assert client.words()[-1] == ("KBYE",)
    client.request("2")
    idle.ready()
    assert (idle.given(), world.engine.consumers()) == ([], 1)
    worker.done(given)
    assert world.engine.consumers() == 0
    assert client.replies()[-1][0] == '{"value": 1}'
    assert silent.words() == []
    assert [word for word, *_ in single.words()] == ["REPLY"]
    late = world.peer()
    late.say("INFORM", "", "worker")
    assert [word for word, *_ in late.words()] == ["ACK", "KBYE"]


def test_the_queues_of_all_workers_are_bounded_and_freed() -> None:
    world = World(limits=Limits(offered_bytes=1_000))
    first, late = world.worker((10, "a"), (10, "b")), world.peer()
    late.say("INFORM", '[[10, "c"], [10, "d"]]', "worker")
    assert late.words() == []
    assert "more queues" in world.engine.notices[-1].reason
    first.hang_up()
    assert world.service.workers_here.bytes == 0
    late.say("INFORM", '[[10, "c"], [10, "d"]]', "worker")
    assert [words[0] for words in late.words()] == ["ACK"]


def test_an_inform_of_a_queue_too_many_is_refused_whole() -> None:
    world = World(limits=Limits(queues_bytes=1))
    world.broker.queue("a")
    late = world.peer()
    late.say("INFORM", '[[10, "a"], [10, "b"]]', "worker")
    assert (late.words(), set(world.broker.queues)) == ([], {"a"})
    late.say("INFORM", '[[10, "a"]]', "worker")
    assert [words[0] for words in late.words()] == ["ACK"]


def test_a_worker_keeps_no_job_that_may_end_elsewhere(world: World, worker: Puppet) -> None:
    world.peer().request()
    conversation = worker.link.conversation
    assert isinstance(conversation, EventmqConversation)
    assert not any(isinstance(one, Job) for one in vars(conversation.worker).values())
