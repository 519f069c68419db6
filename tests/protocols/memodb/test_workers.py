"""Workers: who they are, what they are doing, and what becomes of their jobs when they are gone."""

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from tests.protocols.memodb.puppet import SECOND, Puppet, World
from tests.support import memodb as m
from tests.support.memodb import stack


def test_every_ready_is_a_new_worker_with_an_id_of_its_own(world: World, peer: Puppet) -> None:
    for _ in range(3):
        peer.ready()
    client = world.peer()
    for _ in range(3):
        client.job(b"")
    assert len({peer.given().worker for _ in range(3)}) == 3


def test_a_worker_of_another_run_of_the_server_is_a_stranger() -> None:
    old = World(seed=1)
    worker, client = old.worker(), old.peer()
    client.job()
    task = worker.given()
    new = World(seed=2)
    worker, client = new.worker(), new.peer()
    client.job()
    worker.given()
    for message in (m.result(task.worker, b"r"), m.heartbeat(task.worker)):
        back = new.peer()
        back.ask(message)
        assert back.disconnected().worker == task.worker
    assert client.hear() is None


@pytest.mark.parametrize("worker_id", [b"x", b"12345678", b"i" * 1_024])
def test_who_is_not_known_is_told_to_begin_anew(world: World, worker_id: bytes) -> None:
    for message in (
        m.result(worker_id, b""),
        m.result(worker_id, b"x" * 100_000, leaving=False),
        m.heartbeat(worker_id),
        b"\x83\x66memo01\x05" + m.heartbeat(worker_id)[9:],
    ):
        peer = world.peer()
        peer.ask(message)
        assert (peer.disconnected().worker, peer.is_hung_up) == (worker_id, False)


@pytest.mark.parametrize(
    "message",
    [
        m.result(b"", b""),
        m.heartbeat(b""),
        m.ready("s") + b"payload",
        b"\x84\x66memo01\x01\x41x\x81\x61s",  # READY with an id
        b"rubbish",
        b"",
    ],
)
def test_what_is_no_message_is_not_answered(world: World, peer: Puppet, message: bytes) -> None:
    peer.ask(message)
    assert (peer.hear(), peer.is_hung_up, list(world.service.workers())) == (None, False, [])


def test_a_worker_without_services_is_kept_and_gets_nothing(world: World, peer: Puppet) -> None:
    peer.ask(m.ready())
    world.peer().job()
    assert peer.hear() is None
    world.pass_time(10_100)
    peer.asked_to_beat()


# -- heartbeats -----------------------------------------------------------------------------------


def test_a_worker_that_waits_10_s_is_asked_for_a_heartbeat(worker: Puppet, world: World) -> None:
    for _ in range(3):
        world.pass_time(9_900)
        assert worker.hear() is None
        world.pass_time(200)
        worker.heartbeat(worker.asked_to_beat())
    client = world.peer()
    client.job(b"work")
    assert worker.given().payload == b"work"


def test_a_worker_that_gives_no_sign_of_life_is_forgotten(world: World, worker: Puppet) -> None:
    world.pass_time(10_100)
    beat = worker.asked_to_beat()
    world.pass_time(9_800)
    assert len(list(world.service.workers())) == 1
    world.pass_time(1_300)
    assert (list(world.service.workers()), world.broker.serves("s")) == ([], False)
    worker.heartbeat(beat)
    worker.disconnected()


def test_no_job_goes_to_a_worker_that_owes_a_sign_of_life(world: World, worker: Puppet) -> None:
    world.pass_time(10_100)
    beat = worker.asked_to_beat()
    world.peer().job(b"work")
    assert worker.hear() is None
    worker.heartbeat(beat)
    assert worker.given().payload == b"work"


def test_spans_can_be_chosen() -> None:
    world = World(heartbeat_ms=2_000, heartbeat_due_ms=500)
    worker = world.worker()
    world.pass_time(2_100)
    worker.asked_to_beat()
    world.pass_time(1_600)
    assert not list(world.service.workers())


def test_a_worker_that_beats_unasked_waits_with_its_newest_id(worker: Puppet, world: World) -> None:
    world.pass_time(10_100)
    beat = worker.asked_to_beat()
    worker.heartbeat(beat)
    newest = worker.heartbeat(beat)
    world.peer().job()
    assert worker.given().request == newest
    assert worker.hear() is None


# -- results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", [True, False])
def test_a_worker_that_is_leaving_is_let_go_and_its_result_counts(
    world: World, client: Puppet, worker: Puppet, leaving: bool
) -> None:
    client.job(b"1")
    task = worker.given()
    client.job(b"2")
    worker.result(task, b"last", leaving=leaving)
    assert client.answer().payload == b"last"
    if leaving:
        assert worker.disconnected().worker == task.worker
        assert ([job.state for job in world.all_jobs], list(world.service.workers())) == (
            [State.READY],
            [],
        )
    else:
        assert worker.given().payload == b"2"


def test_a_worker_that_leaves_without_a_result_leaves_its_job_to_another(world: World) -> None:
    client, worker, other = world.peer(), world.worker(), world.worker()
    client.job(b"work")
    task = worker.given()
    worker.ask(b"\x83\x66memo01\x05\x48" + task.worker)
    worker.disconnected()
    again = other.given()
    assert again.payload == b"work"
    other.result(again, b"done")
    assert client.answer().payload == b"done"


@pytest.mark.parametrize("state", ["parked", "beating"])
def test_a_result_from_a_worker_without_a_job_is_out_of_step(world: World, state: str) -> None:
    worker, client = world.worker(), world.peer()
    client.job()
    task = worker.given()
    worker.result(task)
    if state == "beating":
        world.pass_time(10_100)
        worker.asked_to_beat()
    client.heard()
    worker.result(task, b"again?")
    worker.disconnected()
    assert (client.hear(), list(world.service.workers())) == (None, [])


def test_a_worker_that_beats_at_work_is_out_of_step_and_its_job_goes_on(world: World) -> None:
    client, worker, other = world.peer(), world.worker(), world.worker()
    client.job(b"work")
    worker.heartbeat(worker.given())
    worker.disconnected()
    assert other.given().payload == b"work"


def test_a_late_result_changes_nothing_and_its_worker_begins_anew(world: World) -> None:
    client, worker = world.peer(), world.worker()
    asked = client.job(b"slow", timeout_ms=1_000)
    task = worker.given()
    world.pass_time(3 * SECOND)
    assert client.is_hung_up
    worker.result(task, b"too late")
    worker.disconnected()
    back = world.peer()
    back.job(b"slow", timeout_ms=1_000, request=asked)
    assert back.hear() is None
    worker.ready()
    worker.result(worker.given(), b"in time")
    assert back.answer().payload == b"in time"


def test_a_result_for_a_cancelled_job_is_dropped_and_its_worker_goes_on(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"1")
    task = worker.given()
    world.cancel(*world.all_jobs)
    other = world.peer()
    other.job(b"2")
    worker.result(task, b"for nobody")
    assert other.hear() is None
    worker.result(worker.given(), b"r")
    assert other.answer().payload == b"r"


# -- the same request again -------------------------------------------------------------------------


def test_a_ready_sent_again_is_the_same_worker(world: World, peer: Puppet) -> None:
    asked = peer.ready("s")
    peer.ask(m.ready("s"), asked)
    assert len(list(world.service.workers())) == 1
    client = world.peer()
    client.job(b"work")
    task = peer.given()
    # NNG's patience may end while the answer is on its way: it ignores the second one.
    peer.ask(m.ready("s"), asked)
    assert (peer.given(), len(list(world.service.workers()))) == (task, 1)
    peer.result(task, b"done")
    assert client.answer().payload == b"done"
    # After it has gone on, the id may be another's.
    peer.ask(m.ready("s"), asked)
    assert len(list(world.service.workers())) == 2


def test_a_ready_sent_again_with_the_job_is_answered_again(peer: Puppet, world: World) -> None:
    """However its bytes are cut, a request is acted on when everybody has heard of the last one."""
    again = peer.asking(1, m.ready("s"))
    peer.send(again + peer.asking(2, m.job("s", b"for itself", 5_000)) + again)
    assert peer.given() == peer.given()
    assert len(list(world.service.workers())) == 1


def test_two_connections_that_say_the_same_ready_are_two_workers(world: World) -> None:
    first, second = world.peer(), world.peer()
    first.ask(m.ready("s"), 1)
    second.ask(m.ready("s"), 1)
    assert len(list(world.service.workers())) == 2


@pytest.mark.parametrize("result", [b"of 1", b"x" * 200_000], ids=["short", "large"])
def test_a_result_sent_again_never_ends_the_next_job(
    client: Puppet, worker: Puppet, result: bytes
) -> None:
    client.job(b"1")
    client.job(b"2")
    first = worker.given()
    asked = worker.result(first, result)
    second = worker.given()
    worker.ask(m.result(first.worker, result), asked)
    assert worker.given() == second
    assert [answer.payload for answer in client.heard()] == [result]
    worker.result(second, b"of 2")
    assert client.answer().payload == b"of 2"


def test_a_heartbeat_or_result_sent_again_while_it_waits_changes_nothing(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"1")
    task = worker.given()
    asked = worker.result(task)
    worker.ask(m.result(task.worker, b"y"), asked)
    assert worker.hear() is None
    world.pass_time(10_100)
    beat = worker.asked_to_beat()
    worker.ask(m.result(task.worker, b"y"), asked)
    assert worker.asked_to_beat() == beat
    asked = worker.heartbeat(beat)
    worker.ask(m.heartbeat(task.worker), asked)
    assert worker.hear() is None
    client.job(b"2")
    assert worker.given().payload == b"2"


# -- connections that break -------------------------------------------------------------------------


def test_a_job_whose_worker_is_lost_goes_to_another_at_once(world: World) -> None:
    client, worker, other = world.peer(), world.worker(), world.worker()
    client.job(b"work")
    worker.given()
    worker.hang_up()
    task = other.given()
    assert task.payload == b"work"
    other.result(task, b"done")
    assert client.answer().payload == b"done"


def test_after_three_other_workers_a_client_is_dropped(client: Puppet, world: World) -> None:
    client.job(b"poison")
    for _ in range(4):
        assert not client.is_hung_up
        worker = world.worker()
        worker.given()
        worker.hang_up()
    world.run()
    assert (client.is_hung_up, world.all_jobs) == (True, [])


def test_all_workers_of_a_connection_are_lost_with_it(world: World) -> None:
    client, worker, other = world.peer(), world.peer(), world.peer()
    for _ in range(5):
        worker.ready()
    for n in range(3):
        client.job(b"%d" % n)
    worker.hang_up()
    assert (list(world.service.workers()), world.broker.serves("s")) == ([], False)
    for _ in range(3):
        other.ready()
    assert sorted(task.payload for task in other.heard()) == [b"0", b"1", b"2"]


def test_a_job_whose_delivery_was_never_heard_counts_as_never_given(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"work")
    worker.hang_up(undelivered=True)
    (job,) = world.all_jobs
    assert (job.state, job.attempts, job.losses) == (State.READY, 0, 0)


@pytest.mark.parametrize("moves", ["with its result", "with a result that it said before"])
def test_the_end_of_an_old_connection_costs_a_moved_worker_nothing(
    world: World, moves: str
) -> None:
    client, old, new = world.peer(), world.worker(), world.peer()
    client.job(b"one")
    first = old.given()
    if moves == "with its result":
        new.result(first, b"done")
        client.job(b"two")
    else:
        asked = old.result(first, b"done")
        client.job(b"two")
        old.given()
        new.ask(m.result(first.worker, b"done"), asked)
    task = new.given()
    other = world.worker()
    old.hang_up(undelivered=True)
    assert other.hear() is None
    new.result(task, b"done too")
    assert [answer.payload for answer in client.heard()] == [b"done", b"done too"]


def test_a_worker_comes_back_with_its_result_while_nobody_else_has_the_job(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"work")
    task = worker.given()
    worker.hang_up()
    back = world.peer()
    back.result(task, b"done")
    assert client.answer().payload == b"done"
    # It is known, and goes on.
    client.job(b"more")
    assert back.given().worker == task.worker


def test_a_worker_comes_back_with_its_result_too_late(world: World) -> None:
    client, worker, other = world.peer(), world.worker(), world.worker()
    client.job(b"work")
    task = worker.given()
    worker.hang_up()
    second = other.given()
    back = world.peer()
    back.result(task, b"from the first")
    assert client.hear() is None
    other.result(second, b"from the second")
    assert client.answer().payload == b"from the second"
    client.job(b"more")
    assert {peer.given().payload for peer in (back, other) if peer.unread} == {b"more"}


def test_a_request_of_a_lost_worker_sent_again_asks_for_work_and_nothing_else(world: World) -> None:
    """The answer, a JOB, was lost with the connection; the result belongs to the job before."""
    client, worker = world.peer(), world.worker()
    client.job(b"1")
    first = worker.given()
    client.job(b"2")
    asked = worker.result(first, b"of 1")
    assert client.answer().payload == b"of 1"
    worker.hang_up()
    back = world.peer()
    back.ask(m.result(first.worker, b"of 1"), asked)
    second = back.given()
    assert second.payload == b"2"
    assert client.hear() is None
    back.result(second, b"of 2")
    assert client.answer().payload == b"of 2"


def test_a_worker_may_move_before_its_old_connection_is_known_to_be_dead(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"1")
    task = worker.given()
    back = world.peer()
    back.result(task, b"done")
    assert client.answer().payload == b"done"
    worker.hang_up()
    client.job(b"2")
    assert (back.given().payload, len(list(world.service.workers()))) == (b"2", 1)


def test_a_request_sent_again_on_a_new_connection_is_answered_there(world: World) -> None:
    client, worker = world.peer(), world.worker()
    client.job(b"1")
    client.job(b"2")
    first = worker.given()
    asked = worker.result(first, b"r")
    second = worker.given()
    back = world.peer()
    back.ask(m.result(first.worker, b"r"), asked)
    assert back.given() == second
    world.pass_time(SECOND)
    worker.hang_up()
    back.result(second, b"s")
    assert [answer.payload for answer in client.heard()] == [b"r", b"s"]


@pytest.mark.parametrize(("timeout_ms", "kept_s"), [(30_000, 29), (2**62, 599)])
def test_a_lost_worker_is_forgotten_when_its_jobs_time_is_over_or_ten_minutes_are(
    worker: Puppet, client: Puppet, world: World, timeout_ms: int, kept_s: int
) -> None:
    client.job(b"1", timeout_ms=timeout_ms)
    task = worker.given()
    worker.hang_up()
    world.pass_time(kept_s * SECOND, step=SECOND)
    assert len(world.service.registry.by_id) == 1
    world.pass_time(2 * SECOND)
    assert not world.service.registry.by_id
    back = world.peer()
    back.result(task)
    back.disconnected()


def test_lost_workers_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.memodb.workers.LOST_MAX", 10)
    world = World()
    for _ in range(30):
        world.worker().hang_up()
    assert len(world.service.registry.by_id) == 10


# -- operators ------------------------------------------------------------------------------------


def test_operators_see_workers_and_what_they_offer(world: World) -> None:
    world.worker("a", "b")
    (view,) = world.service.workers()
    assert (view.protocol, view.queues, view.state) == ("memodb", ("a", "b"), "idle")
    assert view.host == "127.0.0.1:9"


def test_a_quiet_worker_beats_and_gets_no_job(world: World, worker: Puppet, client: Puppet) -> None:
    (view,) = world.service.workers()
    assert world.service.ask_worker(view.name, "quiet")
    client.job()
    assert worker.hear() is None
    world.pass_time(10_100)
    worker.heartbeat(worker.asked_to_beat())
    assert (worker.hear(), next(world.service.workers()).state) == (None, "quiet")


def test_a_worker_that_asks_is_told_to_stop(worker: Puppet, client: Puppet, world: World) -> None:
    client.job()
    task = worker.given()
    assert world.service.ask_worker(task.worker.hex(), "stop")
    worker.result(task, b"r")
    worker.disconnected()
    assert client.answer().payload == b"r"


@pytest.mark.parametrize(("name", "what"), [("nonsense", "stop"), ("00" * 8, "stop"), ("", "fly")])
def test_nobody_else_can_be_asked(world: World, name: str, what: str) -> None:
    world.worker()
    assert not world.service.ask_worker(name, what)
    (view,) = world.service.workers()
    assert not world.service.ask_worker(view.name, "dance")


def test_the_services_of_all_workers_are_bounded_and_freed_when_workers_leave() -> None:
    world = World(limits=Limits(offered_bytes=5_000))
    peers = [world.worker("a", "b") for _ in range(5)]
    assert len(world.service.registry.by_id) == 3
    assert world.service.registry.bytes <= 5_000
    leaving = next(iter(world.service.registry.by_id))
    peers[0].send(peers[0].asking(9, m.leaving(leaving)))
    assert len(world.service.registry.by_id) == 2
    peers[4].ready("a", "b")
    assert len(world.service.registry.by_id) == 3


def test_one_connection_cannot_offer_all_that_may_be_offered() -> None:
    world = World(limits=Limits(offered_bytes=100_000))
    greedy, client = world.peer(), world.peer()
    for n in range(200):
        greedy.ready(f"x{n}")
    assert greedy.conversation.connection_workers.bytes == world.service.registry.bytes <= 25_000
    other = world.worker()
    client.job()
    other.given()


def test_workers_whose_connection_broke_make_room_for_others() -> None:
    world = World(limits=Limits(offered_bytes=100_000))
    for _ in range(4):
        greedy = world.peer()
        for n in range(200):
            greedy.ready(f"x{n}")
    assert world.service.registry.bytes > 90_000
    greedy.hang_up()
    late, client = world.worker("s", *(f"y{n}" for n in range(40))), world.peer()
    client.job()
    late.given()
    assert world.service.registry.bytes <= 100_000


def crowded(world: World) -> Puppet:
    """A connection whose workers serve all queues that there may be."""
    peer = world.peer()
    while world.broker.queue_list.bytes < world.limits.queues_bytes:
        peer.ready(f"q{len(world.broker.queues)}")
    return peer


def test_a_worker_for_whose_services_there_is_no_room_leaves_nothing_behind() -> None:
    world = World(limits=Limits(queues_bytes=30_000))
    others, peer = crowded(world), world.peer()
    registry = world.service.registry
    queues, workers, taken = list(world.broker.queues), len(registry.by_id), registry.bytes
    for _ in range(3):
        peer.ready(*queues, "one more")
    assert (peer.hear(), peer.is_hung_up) == (None, False)
    assert [notice.error for notice in world.engine.notices] == [None] * 3
    assert (len(registry.by_id), registry.bytes) == (workers, taken)
    assert peer.conversation.connection_workers.bytes == 0
    # It may ask again when others have left.
    others.hang_up()
    assert not world.broker.queues
    peer.ready(queues[0], "one more")
    world.peer().job(b"for it", "one more")
    assert peer.given().payload == b"for it"


def test_names_that_were_new_are_forgotten_with_the_worker_that_was_refused() -> None:
    world = World(limits=Limits(queues_bytes=30_000))
    peer = world.worker(*(f"new{n}" for n in range(20)))
    assert (world.broker.queues, world.broker.queue_list.bytes, peer.is_hung_up) == ({}, 0, False)


def test_a_lost_worker_whose_queues_are_gone_is_found_again_once_there_is_room() -> None:
    world = World(limits=Limits(queues_bytes=30_000))
    client, worker = world.peer(), world.worker("first", "second")
    client.job(b"1", "first")
    task = worker.given()
    asked = worker.result(task, b"done")
    assert client.answer().payload == b"done"
    worker.hang_up()
    others = crowded(world)
    back = world.peer()
    taken = world.service.registry.bytes
    for _ in range(2):
        back.ask(m.result(task.worker, b"done"), asked)
    assert (back.hear(), back.is_hung_up) == (None, False)
    assert not back.conversation.connection_workers.here
    assert (back.conversation.connection_workers.bytes, world.service.registry.bytes) == (0, taken)
    others.hang_up()
    back.ask(m.result(task.worker, b"done"), asked)
    assert len(back.conversation.connection_workers.here) == 1
    client.job(b"2", "second")
    assert back.given().payload == b"2"
    back.hang_up()
    world.pass_time(120 * SECOND, step=SECOND)
    assert world.service.registry.bytes == 0


def test_nobody_can_tell_the_id_of_another_worker_from_its_own() -> None:
    ids: list[bytes] = []
    for seed in (1, 2):
        world = World(seed=seed)
        for _ in range(50):
            world.worker()
        ids += world.service.registry.by_id
    assert (len(set(ids)), {len(worker) for worker in ids}) == (100, {8})
    for at in range(8):
        assert len({worker[at] for worker in ids}) > 50


@pytest.mark.parametrize("in_parts", [True, False])
@pytest.mark.parametrize("more", [0, 1])
def test_a_result_is_no_longer_than_a_body_may_be(more: int, in_parts: bool) -> None:
    world = World(limits=Limits(body_bytes_max=10_000))
    client, worker = world.peer(), world.worker()
    client.job()
    (job,) = world.all_jobs
    frame = worker.asking(77, m.result(worker.given().worker, b"x" * (10_000 + more)))
    cut = 5_000 if in_parts else len(frame)
    worker.send(frame[:cut])
    worker.send(frame[cut:])
    assert (client.hear() is None) is bool(more)
    assert (job.state is State.DONE) is not bool(more)


def test_a_result_that_is_too_large_fails_its_job_and_its_worker_goes_on() -> None:
    world = World(limits=Limits(body_bytes_max=100_000))
    client, worker = world.peer(), world.worker()
    client.job()
    given = worker.given()
    data = stack(77) + m.result(given.worker, b"x" * 300_000)
    frame = worker.frame(data)
    for at in range(0, len(frame), 10_000):
        worker.send(frame[at : at + 10_000])
        assert worker.link.conversation.unread() < 20_000
    assert not worker.is_hung_up
    assert not client.is_hung_up  # it would only ask for the same again
    assert world.broker.jobs == {}
    assert "300" in world.engine.notices[-1].reason
    other = world.peer()
    other.job(b"next")
    assert worker.given().payload == b"next"
