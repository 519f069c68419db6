"""Clients: a request is answered once, whatever happens to its connection in between."""

from typing import Any

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from tests.protocols.memodb.puppet import SECOND, Puppet, World
from tests.support import memodb as m
from tests.support.memodb import stack

EMPTY_RESULT = bytes.fromhex("83666d656d6f30310340")


def test_a_job_is_handed_to_a_worker_with_its_id_and_comes_back_without(world: World) -> None:
    client, worker = world.peer(), world.peer()
    worker.ready("alive.tv", "smout.x")
    asked = client.job(b"\0\xffraw", "alive.tv", 70_000)
    task = worker.given()
    assert (task.service, task.timeout_ms, task.payload) == ("alive.tv", 70_000, b"\0\xffraw")
    assert len(task.worker) == 8
    worker.result(task, b"done")
    answer = client.answer()
    assert (answer.request, answer.worker, answer.payload) == (asked, b"", b"done")
    assert not world.all_jobs


@pytest.mark.parametrize("unix", [False, True])
def test_the_bytes_of_a_whole_exchange(world: World, unix: bool) -> None:
    lead = "01" if unix else ""
    client, worker = world.peer(unix=unix), world.peer(unix=unix)
    worker.send(
        bytes.fromhex(lead + "00000000000000208000000184666d656d6f30310140")
        + bytes.fromhex("8267736d6f75742e7868616c6976652e7476")
    )
    client.send(
        bytes.fromhex(lead + "000000000000001dcb27560b85666d656d6f30310240")
        + bytes.fromhex("68616c6976652e7476191388")
        + b"abc"
    )
    worker_id = next(iter(world.service.registry.by_id))
    assert worker.unread == (
        bytes.fromhex(lead + "00000000000000258000000185666d656d6f30310248")
        + worker_id
        + bytes.fromhex("68616c6976652e7476191388")
        + b"abc"
    )
    worker.unread.clear()
    worker.send(
        bytes.fromhex(lead + "00000000000000198000000283666d656d6f30310348") + worker_id + b"xyz"
    )
    assert client.unread == bytes.fromhex(lead + "0000000000000011cb27560b") + EMPTY_RESULT + b"xyz"


def test_a_header_written_at_length_is_handed_on_in_its_shortest_form(world: World) -> None:
    worker, client = world.worker(), world.peer()
    loose = bytes.fromhex("9f7f666d656d6f3031ff180258007801731b0000000000001388ff")
    client.ask(loose + b"payload")
    task = worker.given()
    assert (task.service, task.timeout_ms, task.payload) == ("s", 5_000, b"payload")


def test_jobs_of_other_services_and_timeouts_are_not_confused(world: World, client: Puppet) -> None:
    """What is remembered of one client's bytes must not be found by another's."""
    kinds = [("s", 1), ("s", 24), ("s", 256), ("t", 1), ("s", 0)]
    kinds += [("n" * 24, 300), ("x" * 300, 2**40)]
    for _ in range(3):
        for service, timeout_ms in kinds:
            client.job(b"\x18p", service, timeout_ms)
    worker = world.peer()
    worker.ready(*dict.fromkeys(service for service, _ in kinds))
    tasks = worker.work_off(3 * len(kinds))
    assert sorted((task.service, task.timeout_ms) for task in tasks) == sorted(kinds * 3)
    assert {task.payload for task in tasks} == {b"\x18p"}


def test_a_clients_id_cannot_pass_for_a_services_name(client: Puppet, world: World) -> None:
    # What follows the tenth byte reads as the service `abcas`, if the id is taken for empty.
    trick = bytes.fromhex("85666d656d6f303102") + b"\x44" + b"\x65abc" + b"\x61s" + b"\x01"
    client.ask(trick)
    client.ask(m.job("abcas", b"", 1))
    assert [job.queue for job in world.all_jobs] == ["s", "abcas"]


def test_many_contexts_share_a_connection_and_are_answered_in_any_order(world: World) -> None:
    client, worker = world.peer(), world.peer()
    for _ in range(300):
        worker.ready()
    asked = {client.job(b"%d" % n): b"%d" % n for n in range(300)}
    tasks = worker.heard()
    assert len({task.worker for task in tasks}) == 300
    for task in reversed(tasks):
        worker.result(task, task.payload)
    answers = client.heard()
    assert {answer.request: answer.payload for answer in answers} == asked
    assert [answer.payload for answer in answers[:2]] == [b"299", b"298"]


def test_services_are_served_in_the_order_of_the_workers_list(world: World, client: Puppet) -> None:
    for payload, service in ((b"1", "b"), (b"2", "a"), (b"3", "b"), (b"4", "a")):
        client.job(payload, service)
    worker = world.worker("a", "b")
    assert [task.payload for task in worker.work_off(4)] == [b"2", b"4", b"1", b"3"]


# -- the same request again -------------------------------------------------------------------


def test_a_request_sent_again_before_its_answer_is_one_job(client: Puppet, world: World) -> None:
    asked = client.job(b"once")
    client.job(b"once", request=asked)
    assert len(world.all_jobs) == 1
    worker = world.worker()
    task = worker.given()
    client.job(b"once", request=asked)
    assert worker.hear() is None
    worker.result(task, b"result")
    assert [answer.payload for answer in client.heard()] == [b"result"]


def test_a_request_sent_again_after_its_answer_gets_it_again(world: World) -> None:
    client, worker = world.peer(), world.worker()
    asked = client.job(b"once")
    worker.result(worker.given(), b"result")
    client.answer()
    for peer in (client, world.peer()):
        peer.job(b"once", request=asked)
        assert peer.answer().payload == b"result"
    assert worker.hear() is None


@pytest.mark.parametrize("back_in_time", [True, False])
def test_who_asks_again_after_a_reconnect_finds_its_job_or_its_result(
    world: World, client: Puppet, worker: Puppet, back_in_time: bool
) -> None:
    asked = client.job(b"once")
    task = worker.given()
    client.hang_up()
    if not back_in_time:
        worker.result(task, b"result")
    back = world.peer()
    back.job(b"once", request=asked)
    assert worker.hear() is None
    if back_in_time:
        worker.result(task, b"result")
    assert back.answer() == (asked, 3, b"", b"result", "", 0)
    assert not world.service.requests._orphans


def test_a_result_of_anybody_is_there_when_the_client_is_back(world: World, client: Puppet) -> None:
    asked = client.job(b"once")
    (job,) = world.all_jobs
    stranger = world.stranger_on("s")
    client.hang_up()
    world.broker.finish(job, stranger.holder, b"theirs", world.now)
    back = world.peer()
    back.job(b"once", request=asked)
    assert back.answer().payload == b"theirs"


def test_whoever_asks_the_same_on_two_open_connections_is_answered_on_both(world: World) -> None:
    """The server may not have noticed yet that the first is dead."""
    first, second, worker = world.peer(), world.peer(), world.worker()
    asked = first.job(b"once")
    second.job(b"once", request=asked)
    task = worker.given()
    assert worker.hear() is None
    first.hang_up()
    worker.result(task, b"result")
    assert second.answer().payload == b"result"


def test_through_a_device_the_newest_way_back_counts(world: World) -> None:
    device, worker = world.peer(), world.peer()
    device.ask(m.job("s", b"", 5_000), 9, 0x01010101)
    device.ask(m.job("s", b"", 5_000), 9, 0x02020202)
    worker.ready()
    worker.result(worker.given(), b"r")
    assert device.unread == device.frame(stack(9, 0x02020202) + EMPTY_RESULT + b"r")


@pytest.mark.parametrize(
    ("message", "again"),
    [
        (m.job("s", b"other"), 0),
        (m.job("t", b"once"), 0),
        (m.job("s", b"once", 5_001), 0),
        (m.job("s", b"once"), 1),
    ],
)
def test_another_request_is_another_job(
    world: World, client: Puppet, message: bytes, again: int
) -> None:
    asked = client.job(b"once")
    client.ask(message, asked + again)
    assert len(world.all_jobs) == 2


def test_replies_are_remembered_for_a_minute(world: World, client: Puppet, worker: Puppet) -> None:
    asked = client.job(b"once")
    worker.result(worker.given(), b"result")
    client.answer()
    world.pass_time(59 * SECOND)
    client.job(b"once", request=asked)
    assert client.answer().payload == b"result"
    world.pass_time(2 * SECOND)
    client.job(b"once", request=asked)
    assert (client.hear(), len(world.all_jobs)) == (None, 1)


def test_a_reply_is_remembered_from_when_it_was_given_not_asked_for(world: World) -> None:
    client, worker = world.peer(), world.worker("s")
    asked = client.job(b"slow", timeout_ms=300_000)
    task = worker.given()
    world.pass_time(100 * SECOND)
    worker.result(task, b"result")
    client.answer()
    world.pass_time(50 * SECOND)
    client.job(b"slow", timeout_ms=300_000, request=asked)
    assert client.answer().payload == b"result"


@pytest.mark.parametrize(
    ("chosen", "left"), [({"remember_replies": 3}, 3), ({"remember_bytes": 1_000}, 2)]
)
def test_memory_is_bounded_and_the_oldest_goes_first(chosen: dict[str, Any], left: int) -> None:
    world = World(**chosen)
    client, worker = world.peer(), world.worker()
    asked = []
    for n in range(10):
        asked.append(client.job(b"%d" % n))
        worker.result(worker.given(), b"r" * 400)
        client.answer()
    requests = world.service.requests
    assert len(requests.by_key) == len(requests._answered) == left
    assert requests.remembered_bytes == 400 * left
    client.job(b"9", request=asked[9])
    assert client.answer().payload == b"r" * 400
    client.job(b"0", request=asked[0])
    assert client.hear() is None


# -- clients that are gone ----------------------------------------------------------------------


def test_a_job_that_nobody_waits_for_is_not_begun(world: World, client: Puppet) -> None:
    client.job()
    client.hang_up()
    assert (world.all_jobs, world.service.requests.by_key) == ([], {})
    worker = world.worker()
    assert worker.hear() is None


def test_a_job_whose_client_and_worker_are_both_gone_is_not_run_again(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job()
    worker.given()
    client.hang_up()
    worker.hang_up()
    world.pass_time(2 * SECOND)
    assert (world.all_jobs, world.service.requests.by_key) == ([], {})
    assert world.worker().hear() is None


def test_a_client_that_comes_back_finds_its_job_with_the_next_worker(world: World) -> None:
    client, worker, next_worker = world.peer(), world.worker(), world.worker()
    asked = client.job(b"once")
    worker.given()
    client.hang_up()
    worker.hang_up()
    task = next_worker.given()
    world.pass_time(3 * SECOND)
    back = world.peer()
    back.job(b"once", request=asked)
    next_worker.result(task, b"result")
    assert back.answer().payload == b"result"
    assert next_worker.hear() is None


def test_a_client_that_comes_back_before_that_is_noticed_keeps_its_job(world: World) -> None:
    client, worker = world.peer(), world.worker()
    asked = client.job(b"once")
    worker.given()
    client.hang_up()
    worker.hang_up()
    back = world.peer()
    back.job(b"once", request=asked)
    second = world.worker()
    second.result(second.given(), b"result")
    assert back.answer().payload == b"result"


def test_a_result_for_nobody_is_forgotten_with_the_others(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"", timeout_ms=500_000)
    task = worker.given()
    client.hang_up()
    world.pass_time(100 * SECOND)
    worker.result(task)
    assert len(world.service.requests.by_key) == 1
    world.pass_time(61 * SECOND)
    assert not world.service.requests.by_key


# -- what cannot be served --------------------------------------------------------------------


def test_a_lone_client_that_nobody_serves_is_dropped_in_10_s(world: World, client: Puppet) -> None:
    client.job(service="undelivered.of")
    world.pass_time(10 * SECOND - 50)
    assert not client.is_hung_up
    world.pass_time(1_100)
    assert client.is_hung_up
    assert not world.all_jobs
    assert not world.service.requests.by_key


def test_it_is_not_dropped_while_somebody_offers_the_service_and_is_busy(world: World) -> None:
    busy, client, worker = world.peer(), world.peer(), world.worker()
    busy.job(b"long", timeout_ms=600_000)
    task = worker.given()
    client.job(b"waits")
    world.pass_time(60 * SECOND)
    assert not client.is_hung_up
    worker.result(task)
    worker.result(worker.given(), b"at last")
    assert client.answer().payload == b"at last"


def test_it_is_dropped_once_the_last_who_offered_it_is_gone(world: World) -> None:
    busy, client, worker = world.peer(), world.peer(), world.worker()
    busy.job(b"long", timeout_ms=600_000)
    busy.ready("elsewhere")
    worker.given()
    client.job(b"waits")
    world.pass_time(15 * SECOND)
    worker.hang_up()
    world.pass_time(1_100)
    assert (client.is_hung_up, busy.is_hung_up) == (True, False)


def test_where_others_share_the_connection_a_request_waits(client: Puppet, world: World) -> None:
    asked = client.job(service="undelivered.of")
    client.job(service="undelivered.of either")
    world.pass_time(60 * SECOND)
    assert not client.is_hung_up
    worker = world.worker("undelivered.of")
    worker.result(worker.given(), b"at last")
    assert client.answer().request == asked
    # Now the other is alone, and has waited long enough.
    world.pass_time(1_100)
    assert client.is_hung_up


def test_a_connection_that_carries_a_worker_is_not_dropped_for_a_client() -> None:
    world = World(heartbeat_ms=10**7)
    mixed = world.peer()
    mixed.ready("served")
    mixed.job(service="undelivered.of")
    world.pass_time(60 * SECOND)
    assert not mixed.is_hung_up


def test_a_job_over_its_timeout_has_its_client_dropped_and_is_not_run_again(world: World) -> None:
    client, slow = world.peer(), world.worker()
    asked = client.job(b"once", timeout_ms=5_000)
    slow.given()
    other = world.worker()
    world.pass_time(4_900)
    assert not client.is_hung_up
    world.pass_time(1_200)
    assert client.is_hung_up
    assert other.hear() is None
    assert not world.all_jobs
    # Its own retry decides, and is a new job.
    back = world.peer()
    back.job(b"once", request=asked)
    assert other.given().payload == b"once"


def test_the_timeout_is_counted_from_when_the_job_is_handed_over(world: World) -> None:
    client, busy, worker = world.peer(), world.peer(), world.worker()
    busy.job(b"first", timeout_ms=60_000)
    first = worker.given()
    client.job(b"second", timeout_ms=5_000)
    world.pass_time(20 * SECOND)
    worker.result(first)
    second = worker.given()
    world.pass_time(4_900)
    worker.result(second, b"in time")
    assert client.answer().payload == b"in time"


def test_over_its_timeout_on_a_shared_connection_it_stays_unanswered(world: World) -> None:
    client, slow, quick = world.peer(), world.worker(), world.worker("t")
    asked = client.job(b"slow", timeout_ms=1_000)
    client.job(b"waits", "nobody", 60_000)
    slow.given()
    world.pass_time(3 * SECOND)
    assert not client.is_hung_up
    assert client.hear() is None
    client.job(b"quick", "t")
    quick.result(quick.given(), b"r")
    assert client.answer().payload == b"r"
    # When NNG's patience ends, it is a new job.
    client.job(b"slow", timeout_ms=1_000, request=asked)
    other = world.worker()
    assert other.given().payload == b"slow"


@pytest.mark.parametrize("asks_again", [False, True])
def test_who_was_left_unanswered_is_dropped_after_the_rest(world: World, asks_again: bool) -> None:
    client, slow, quick = world.peer(), world.worker(), world.worker("t")
    asked = client.job(b"slow", timeout_ms=1_000)
    client.job(b"quick", "t", 60_000)
    slow.given()
    world.pass_time(3 * SECOND)
    assert not client.is_hung_up
    if asks_again:
        client.job(b"slow", timeout_ms=60_000, request=asked)
        other = world.worker()
        other.result(other.given(), b"s")
        assert client.answer().payload == b"s"
    quick.result(quick.given(), b"r")
    assert client.answer().payload == b"r"
    assert client.is_hung_up is not asks_again


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(0, 1_100), (2**64 - 1, 100 * SECOND)])
def test_a_timeout_of_nothing_is_over_at_once_and_one_without_end_never(
    world: World, client: Puppet, worker: Puppet, timeout_ms: int, wait_ms: int
) -> None:
    client.job(timeout_ms=timeout_ms)
    assert worker.given().timeout_ms == timeout_ms
    world.pass_time(wait_ms)
    assert client.is_hung_up is (timeout_ms == 0)


def test_a_job_that_an_operator_ends_has_its_client_dropped(world: World, client: Puppet) -> None:
    client.job()
    world.cancel(*world.all_jobs)
    assert (client.is_hung_up, world.service.requests.by_key) == (True, {})


# -- the share ----------------------------------------------------------------------------------


def test_a_connection_may_have_its_share_under_way_and_the_rest_waits_in_its_socket() -> None:
    world = World(share_jobs=10)
    flood, other = world.peer(), world.peer()
    flood.send(b"".join(flood.asking(n, m.job("s", b"%d" % n, 1_000)) for n in range(50)))
    assert (len(world.all_jobs), flood.conversation.holding) == (10, True)
    assert flood.conversation.unread() > 0
    other.job(b"other")
    worker = world.worker()
    seen = []
    for _ in range(51):
        task = worker.given()
        seen.append(task.payload)
        assert len(world.all_jobs) <= 11
        worker.result(task, task.payload)
    # Whoever else asks is behind a share at most.
    assert seen.index(b"other") == 10
    assert [p for p in seen if p != b"other"] == [b"%d" % n for n in range(50)]
    assert [answer.payload for answer in flood.heard()] == [b"%d" % n for n in range(50)]
    assert (other.answer().payload, flood.conversation.holding) == (b"other", False)
    assert flood.conversation.unread() == 0


def test_what_comes_while_a_connection_waits_is_acted_on_afterwards_in_order() -> None:
    world = World(share_jobs=1)
    client, worker = world.peer(), world.worker()
    for n in range(4):
        client.job(b"%d" % n)
    assert [task.payload for task in worker.work_off(4)] == [b"0", b"1", b"2", b"3"]
    assert len(client.heard()) == 4


def test_a_job_that_comes_to_nothing_makes_room_too() -> None:
    world = World(share_jobs=2)
    client, slow = world.peer(), world.worker()
    client.job(b"a", timeout_ms=1_000)
    client.job(b"b")
    client.job(b"c")
    assert [job.body for job in world.all_jobs] == [b"a", b"b"]
    slow.given()
    world.pass_time(3 * SECOND)
    assert [job.body for job in world.all_jobs] == [b"b", b"c"]


def test_a_connection_that_carries_workers_is_always_read() -> None:
    """Or their results would never come; what is beyond its share NNG must send again."""
    world = World(share_jobs=2)
    mixed = world.peer()
    mixed.ready()
    asked = [mixed.job(b"%d" % n) for n in range(4)]
    assert not mixed.conversation.holding
    assert [job.body for job in world.all_jobs] == [b"0", b"1"]
    worker = mixed.given()
    mixed.result(worker, b"of 0")
    said = {reply.payload for reply in mixed.heard()}
    assert said == {b"of 0", b"1"}
    mixed.job(b"3", request=asked[3])
    assert [job.body for job in world.all_jobs] == [b"1", b"3"]


def test_a_worker_behind_a_flood_is_heard_when_one_of_its_jobs_is_done() -> None:
    world = World(share_jobs=2)
    mixed = world.peer()
    for n in range(3):
        mixed.job(b"%d" % n)
    mixed.ready("t")
    assert not list(world.service.workers())
    other = world.worker()
    other.result(other.given())
    assert len(list(world.service.workers())) == 2


def test_a_connection_at_its_share_with_jobs_that_nobody_serves_is_dropped() -> None:
    world = World(share_jobs=2)
    client = world.peer()
    for n in range(3):
        client.job(b"%d" % n)
    world.pass_time(11 * SECOND)
    assert client.is_hung_up


def test_a_client_for_whose_job_the_server_has_no_room_is_dropped_or_left_to_ask_again() -> None:
    world = World(limits=Limits(fleeting_bytes=6_000))
    crowd, alone = world.peer(), world.peer()
    for n in range(20):
        crowd.job(b"%d" % n)
    taken = len(world.all_jobs)
    assert 0 < taken < 20
    alone.job(b"alone")
    assert (alone.is_hung_up, crowd.is_hung_up) == (True, False)
    assert len(world.service.requests.by_key) == taken


# -- the end --------------------------------------------------------------------------------------


def test_a_server_that_stops_takes_no_new_jobs_and_delivers_what_runs(world: World) -> None:
    client, worker, idle = world.peer(), world.worker(), world.worker()
    client.job(b"runs")
    task = worker.given()
    client.job(b"waits", "nobody")
    world.stop()
    assert world.engine.consumers() == 1
    client.job(b"new")
    assert [job.state for job in world.all_jobs] == [State.LEASED, State.READY]
    worker.result(task, b"done")
    assert (client.answer().payload, world.engine.consumers()) == (b"done", 0)
    world.pass_time(30 * SECOND)
    # Nobody is sent away: who asks again should find the next server.
    assert (worker.hear(), idle.hear(), worker.is_hung_up) == (None, None, False)
