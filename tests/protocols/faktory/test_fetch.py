"""Getting a job: order, waiting, hanging up in between, and a server that stops."""

import pytest

from franca.core.errors import TooMuch
from franca.core.limits import Limits
from franca.core.model import NewJob, Policy, State
from franca.core.names import text_of
from franca.protocols.faktory.messages import Beat
from tests.protocols.faktory.puppet import NULL, OK, Puppet, World, err
from tests.support.faktory import job, push_line

PUSH = push_line(job("jid-0001"))


def test_queues_are_asked_in_the_order_in_which_they_are_listed(client: Puppet) -> None:
    for jid, queue in (("jid-0001", "low"), ("jid-0002", "high"), ("jid-0003", "low")):
        client.push(jid, queue=queue)
    got = [client.fetch_job("high", "low")["jid"] for _ in range(3)]
    assert got == ["jid-0002", "jid-0001", "jid-0003"]


def test_a_waiting_fetch_is_answered_when_a_job_comes_to_any_of_its_queues(
    world: World, producer: Puppet, worker: Puppet
) -> None:
    worker.say("FETCH a b")
    world.pass_time(700)
    assert worker.cut() is None
    producer.push("jid-0001", queue="b")
    (reply,) = worker.heard()
    assert reply.json["jid"] == "jid-0001"


def test_those_who_wait_are_served_in_the_order_they_came(producer: Puppet, world: World) -> None:
    workers = [world.peer(f"w{i}") for i in range(3)]
    for worker in workers:
        worker.say("FETCH")
    for i in range(3):
        producer.push(f"jid-000{i}")
    for i, worker in enumerate(workers):
        (reply,) = worker.heard()
        assert reply.json["jid"] == f"jid-000{i}"


def test_a_fetch_in_vain_ends_before_two_seconds_are_over(world: World, client: Puppet) -> None:
    client.say("FETCH nothing")
    world.pass_time(1_800)
    assert client.cut() is None
    world.pass_time(190)
    assert client.cut() == NULL


def test_what_lies_behind_a_fetch_waits_for_its_answer(world: World) -> None:
    client, other = world.peer(), world.peer()
    client.say("FETCH", PUSH)
    assert not world.jobs()
    assert client.conversation.unread() > 0
    other.push("jid-0002")
    first, second = client.heard()
    assert (first.json["jid"], second) == ("jid-0002", OK)


def test_what_comes_while_a_fetch_waits_is_acted_on_after_it(world: World) -> None:
    client, other = world.peer(), world.peer()
    client.say("FETCH")
    client.send(b"TRACK x\r\nTRACK")
    client.send(b" y\r\n")
    assert client.cut() is None
    other.push("jid-0001")
    assert [reply.kind for reply in client.heard()] == ["$", "-", "-"]


def test_a_granted_job_waits_for_the_disk_and_an_empty_answer_does_not(
    producer: Puppet, worker: Puppet
) -> None:
    worker.waited_for_commit = False
    assert (worker.fetch(), worker.waited_for_commit) == (None, False)
    producer.push("jid-0001")
    assert (worker.fetch_job()["jid"], worker.waited_for_commit) == ("jid-0001", True)


def test_a_client_that_vanishes_inside_fetch_gets_no_job(world: World) -> None:
    producer, gone, worker = world.peer(), world.peer("w1"), world.peer("w2")
    gone.say("FETCH")
    gone.hang_up()
    producer.push("jid-0001")
    assert [job.state for job in world.jobs()] == [State.READY]
    assert worker.fetch_job()["jid"] == "jid-0001"


@pytest.mark.parametrize("wid", ["", "w1"])
def test_a_job_whose_delivery_was_never_heard_goes_to_the_next(world: World, wid: str) -> None:
    producer, gone, worker = world.peer(), world.peer(wid), world.peer("w2")
    producer.push("jid-0001")
    producer.push("jid-0002")
    gone.begin("FETCH")
    world.engine.close_link(gone.link, world.now, undelivered=True)
    first, second = worker.fetch_job(), worker.fetch_job()
    assert (first["jid"], second["jid"]) == ("jid-0001", "jid-0002")
    assert "failure" not in first
    assert worker.ack("jid-0001") == OK


def test_a_job_that_was_heard_stays_with_its_worker_when_the_connection_ends(world: World) -> None:
    producer, gone, worker = world.peer(), world.peer("w1"), world.peer("w2")
    producer.push("jid-0001")
    gone.fetch_job()
    gone.hang_up()
    assert (worker.fetch(), [job.state for job in world.jobs()]) == (None, [State.LEASED])


def test_an_unheard_answer_to_something_else_gives_no_job_back(world: World) -> None:
    gone = world.peer("w1")
    gone.push("jid-0001")
    gone.fetch_job()
    for line in ("TRACK x", "INFO", "QUEUE PAUSE x", beat := 'BEAT {"wid":"w1"}'):
        gone.call(line)
        assert not gone.conversation.fetching.last_grant
    gone.begin(beat, turns=0)
    gone.hang_up(undelivered=True)
    assert [job.state for job in world.jobs()] == [State.LEASED]


def test_an_unheard_grant_that_was_settled_elsewhere_is_left_alone(world: World) -> None:
    one, two = world.peer("w1"), world.peer("w1")
    two.push("jid-0001")
    one.fetch_job()
    assert two.ack("jid-0001") == OK
    one.hang_up(undelivered=True)
    assert not world.jobs()


def test_a_grant_that_ran_out_and_was_given_again_is_not_given_back(world: World) -> None:
    stuck = world.peer("w1")
    stuck.push("jid-0001", reserve_for=60)
    stuck.fetch_job()
    for _ in range(10):
        world.pass_time(10_000, step=1_000)
        stuck.conversation.service.registry.beat(Beat("w1"), world.now)
    other = world.peer("w1")
    world.pass_time(40_000, step=1_000)
    assert other.fetch_job()["failure"]["errtype"] == "ReservationExpired"
    stuck.hang_up(undelivered=True)
    assert [job.state for job in world.jobs()] == [State.LEASED]


def test_a_job_that_comes_to_a_link_that_is_being_closed_goes_to_another(world: World) -> None:
    producer, closing, worker = world.peer(), world.peer("w1"), world.peer("w2")
    closing.say("FETCH")
    closing.link.close()
    producer.begin(PUSH)
    assert worker.fetch() is not None


def test_a_paused_queue_gives_nothing_even_to_those_who_waited_before(
    producer: Puppet, worker: Puppet
) -> None:
    producer.push("jid-0001", queue="a")
    worker.fetch("a")
    worker.say("FETCH a")
    assert producer.call("QUEUE PAUSE a") == OK
    producer.push("jid-0002", queue="a")
    assert worker.cut() is None
    assert producer.call("QUEUE RESUME a") == OK
    (reply,) = worker.heard()
    assert reply.json["jid"] == "jid-0002"


def test_a_name_may_be_asked_for_that_no_job_could_have(world: World) -> None:
    client, waiting = world.peer(), world.peer()
    assert client.fetch("ä!", "b") is None
    waiting.say("FETCH ä!")
    assert client.push("jid-0001", queue="ä!").kind == "-"


@pytest.mark.parametrize("queues", ["q" * 1_025, " ".join(map(str, range(1_025)))])
def test_impossible_queues_are_refused_at_once(client: Puppet, queues: str) -> None:
    assert client.call(f"FETCH {queues}").kind == "-"
    assert client.push("jid-0001") == OK
    assert client.fetch() is not None


def test_a_name_that_is_no_utf8_is_the_queue_that_it_is_in_every_protocol(world: World) -> None:
    client, waiting = world.peer(), world.peer()
    waiting.say(b"FETCH a\xff")
    new = NewJob(text_of(b"a\xff"), "kind", b"[]", Policy(), "H:1", media="json-args")
    world.broker.submit(new, world.now)
    assert client.call(b"QUEUE PAUSE a\xfe") == OK
    (reply,) = waiting.heard()
    assert reply.json["queue"] == text_of(b"a\xff")
    assert client.call(b"QUEUE LATENCY a\xff").json == {text_of(b"a\xff"): 0}


def test_as_many_queues_as_anybody_needs(world: World, client: Puppet) -> None:
    names = [f"q{i}" for i in range(1_024)]
    client.push("jid-0001", queue="q1023")
    assert client.fetch(*names) is not None
    assert (client.fetch(*names), list(world.broker.queues)) == (None, ["q1023"])


def test_jobs_of_other_protocols_are_shown_as_work_units(world: World, worker: Puppet) -> None:
    policy = Policy(max_failures=2, lease_ms=5_000)
    bodies = [(b"plain text", "bytes"), (b"[1, \r\n2]", "json-args"), (b"\xff\0", "bytes")]
    for body, media in bodies:
        world.broker.submit(NewJob("q", "fn", body, policy, "H:x:1", media, "other"), world.now)
    assert worker.fetch("q") == {
        "enqueued_at": "2026-09-21T14:13:20.000Z",
        "retry": 2,
        "jid": "H:x:1",
        "queue": "q",
        "jobtype": "fn",
        "created_at": "2026-09-21T14:13:20.000Z",
        "args": ["plain text"],
        "reserve_for": 5,
    }
    assert '"args":[1,   2]' in worker.call("FETCH q").text
    assert '"args":[{"base64":"/wA="}]' in worker.call("FETCH q").text
    for _ in range(3):
        assert worker.ack("H:x:1") == OK
    assert not world.jobs()


def test_a_job_without_a_lease_of_its_own_tells_the_one_it_is_given() -> None:
    world = World(limits=Limits(lease_ms=7_000))
    worker = world.peer("w1")
    world.broker.submit(NewJob("q", "fn", b"[]", Policy(), "H:x:1", "bytes", "other"), world.now)
    assert (worker.fetch_job("q")["reserve_for"], world.jobs()[0].until) == (7, world.now + 7_000)


def test_each_job_says_when_it_was_queued(world: World, client: Puppet) -> None:
    for i in range(3):
        client.push(f"jid-000{i}")
        world.pass_time(1_001)
    queued = [client.fetch_job()["enqueued_at"][17:] for _ in range(3)]
    assert queued == ["20.000Z", "21.001Z", "22.002Z"]


def test_times_are_those_on_the_wall(world: World, client: Puppet) -> None:
    world.broker.wall_ahead_ms = 3_600_000
    client.push("jid-0001")
    unit = client.fetch_job()
    assert unit["created_at"] == unit["enqueued_at"] == "2026-09-21T15:13:20.000Z"
    assert client.info()["server_utc_time"] == "15:13:20 UTC"


def test_a_job_that_comes_behind_the_word_to_be_quiet_goes_to_another(world: World) -> None:
    one, two, other = world.peer("w1"), world.peer("w1"), world.peer("w2")
    one.say("FETCH")
    two.say('BEAT {"wid":"w1","current_state":"quiet"}', PUSH)
    assert one.cut() is None
    assert "failure" not in other.fetch_job()
    world.pass_time(2_000)
    assert one.heard() == [NULL]


def test_a_job_that_comes_together_with_the_stop_stays(world: World) -> None:
    first, second = world.peer(), world.peer()
    first.say("FETCH x", PUSH)
    second.say("FETCH")
    world.stop()
    assert (first.heard(), second.heard()) == ([NULL, OK], [NULL])
    assert [job.state for job in world.jobs()] == [State.READY]


# -- the server stops ----------------------------------------------------------------------------


def test_a_server_that_stops_answers_who_waits_and_gives_out_nothing_more(
    world: World, producer: Puppet, worker: Puppet
) -> None:
    worker.say("FETCH other", *["TRACK x"] * 200)
    world.stop()
    replies = worker.heard()
    assert (replies[0], len(replies)) == (NULL, 201)
    producer.push("jid-0001")
    assert worker.fetch() is None
    assert (worker.beat("w1").body, world.engine.consumers()) == (b'{"state":"terminate"}', 1)
    worker.say("END")
    assert (world.engine.consumers(), producer.is_hung_up) == (0, False)
    assert [job.state for job in world.jobs()] == [State.READY]


@pytest.mark.parametrize("wid", ["", "w1"])
def test_who_fetched_before_gets_no_more_when_the_server_stops(world: World, wid: str) -> None:
    worker = world.peer(wid)
    assert worker.fetch() is None
    worker.push("jid-0001")
    world.stop()
    assert worker.fetch() is None


def test_a_worker_that_comes_when_the_server_stops_is_sent_away(world: World) -> None:
    world.stop()
    worker = world.peer("w1")
    assert worker.beat("w1").body == b'{"state":"terminate"}'


def test_a_client_that_only_pushes_is_no_consumer_even_with_a_name(world: World) -> None:
    producer = world.peer("w1")
    producer.push("jid-0001")
    world.stop()
    assert world.engine.consumers() == 0


# -- what connections remember ---------------------------------------------------------------------


def many(number: int) -> str:
    return " ".join(["FETCH", *(f"{number}.{i}" for i in range(1_000))])


def test_connections_that_ask_for_the_same_share_what_they_remember(world: World) -> None:
    clients = [world.peer(f"w{number}") for number in range(100)]
    for client in clients:
        client.say("FETCH high low")
    world.pass_time(2_000)
    assert {client.cut() for client in clients} == {NULL}
    assert len({id(client.conversation.fetching.queues()) for client in clients}) == 1
    assert 0 < world.service.queue_lists.bytes < 1_000
    for client in clients:
        client.hang_up()
    assert world.service.queue_lists.bytes == 0


def test_what_all_connections_remember_is_bounded() -> None:
    world = World(limits=Limits(offered_bytes=200_000))
    clients = [world.peer(f"w{number}") for number in range(10)]
    for number, client in enumerate(clients):
        client.say(many(number))
        assert world.service.queue_lists.bytes <= 200_000
        assert len(client.conversation.fetching.queues()) == 1_000
    world.pass_time(2_000)
    assert {client.cut() for client in clients} == {NULL}
    remembered = [client for client in clients if client.conversation.fetching.queues()]
    assert 0 < len(remembered) < 5
    assert world.service.queue_lists.names_waiting == 0
    clients[0].push("jid-0001", queue="9.7")
    assert clients[9].call(many(9)).body is not None
    assert not clients[9].conversation.fetching.queues()
    for client in clients:
        client.hang_up()
    assert world.service.queue_lists.bytes == 0


def test_only_so_many_names_may_wait_for_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.faktory.fetching.NAMES_WAITING_MAX", 2_500)
    world = World()
    first, second, third = (world.peer() for _ in range(3))
    first.say(many(1))
    second.say(many(2))
    assert third.call(many(3)).kind == "-"
    third.say("FETCH few")
    assert third.cut() is None
    first.hang_up()
    world.pass_time(2_000)
    assert (third.cut(), world.service.queue_lists.names_waiting) == (NULL, 0)
    third.say(many(3))
    assert (third.cut(), world.service.queue_lists.names_waiting) == (None, 1_000)
    world.stop()
    assert (third.cut(), world.service.queue_lists.names_waiting) == (NULL, 0)


def test_a_quiet_worker_is_counted_no_longer_than_it_waits(world: World, worker: Puppet) -> None:
    worker.say(many(1))
    assert world.service.ask_worker("w1", "quiet")
    world.pass_time(2_000)
    assert (worker.cut(), world.service.queue_lists.names_waiting) == (NULL, 0)
    assert worker.fetch("a") is None


def test_a_demand_that_the_broker_refuses_is_answered_with_an_error(
    world: World, client: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise TooMuch("too many queues")

    monkeypatch.setattr(world.broker, "demand", refuse)
    for line in (many(1), "FETCH"):
        assert client.call(line) == err("too many queues")
    monkeypatch.undo()
    assert world.service.queue_lists.names_waiting == 0
    client.push("jid-0001")
    assert client.fetch() is not None
