"""Large jobs: bounded memory, one at a time through each connection, and small ones in between."""

from dataclasses import fields

import pytest

from franca.core.limits import Limits
from franca.core.model import Job, State
from tests.protocols.memodb.puppet import SECOND, Puppet, World
from tests.support import memodb as m
from tests.support.memory import traced

MIB = 1024 * 1024
CHUNK = 256 * 1024
LARGE = 100_000


def pour(peer: Puppet, message: bytes, request: int, chunk: int = CHUNK) -> None:
    """Send a message as a socket would deliver it."""
    raw = peer.asking(request, message)
    for at in range(0, len(raw), chunk):
        peer.send(raw[at : at + chunk])


def test_a_large_job_and_its_result_arrive_whole(client: Puppet, worker: Puppet) -> None:
    body = bytes(n * 7 % 256 for n in range(3 * MIB))
    pour(client, m.job("s", body, 5_000), 1)
    task = worker.given()
    assert task.payload == body
    pour(worker, m.result(task.worker, body[::-1]), 2)
    assert client.answer().payload == body[::-1]


def test_a_large_job_sent_again_in_other_pieces_is_the_same(client: Puppet, world: World) -> None:
    message = m.job("s", b"z" * MIB, 5_000)
    pour(client, message, 1)
    client.ask(message, 1)
    assert len(world.all_jobs) == 1


def test_large_jobs_that_differ_only_in_the_middle_are_not_the_same(world: World) -> None:
    client, worker = world.peer(), world.worker()
    bodies = [b"a" * LARGE + bytes([n]) + b"z" * LARGE for n in range(3)]
    for body in bodies:
        client.job(body, request=7)
    assert [job.body for job in world.all_jobs] == bodies
    for _ in bodies:
        task = worker.given()
        worker.result(task, task.payload[LARGE : LARGE + 1])
    assert [answer.payload for answer in client.heard()] == [b"\0", b"\1", b"\2"]
    # Only the newest of them is remembered.
    client.job(bodies[2], request=7)
    assert client.answer().payload == b"\2"
    client.job(bodies[0], request=7)
    assert len(world.all_jobs) == 1
    world.pass_time(10_000, step=1_000)
    client.hang_up()
    world.pass_time(62_000, step=1_000)
    assert (world.service.requests.by_key, world.service.requests.remembered_bytes) == ({}, 0)


def test_a_worker_that_moves_hears_its_large_job_after_what_was_said(world: World) -> None:
    client, old, new = world.peer(), world.worker(), world.peer()
    client.job(b"first")
    task = old.given()
    client.job(b"x" * LARGE)
    done = m.result(task.worker, b"done")
    asked = old.ask(done)
    old.given()
    stranger = new.asking(1, m.result(b"nobody", b""))
    new.send(stranger + new.asking(asked, done))
    new.disconnected()
    assert new.given().payload == b"x" * LARGE


def test_a_payload_is_copied_once_on_its_way_in(client: Puppet) -> None:
    raw = client.asking(1, m.job("s", b"x" * (8 * MIB), 5_000))
    chunks = [raw[at : at + CHUNK] for at in range(0, len(raw), CHUNK)]
    del raw
    with traced() as memory:
        for chunk in chunks:
            client.send(chunk)
    # The chunks themselves were there before.
    assert memory.held < 8.2 * MIB
    assert memory.peak < 9.3 * MIB


@pytest.mark.parametrize("size", [LARGE, 65_000])
def test_a_header_may_be_unusual_before_a_large_payload(size: int) -> None:
    # Its bytes are counted once, although more than the usual part of it is looked at.
    world = World(Limits(name_bytes_max=6_000), share_bytes=size + 6_000)
    name = "s" * 5_000
    pieces = b"".join(b"\x79\0\x7d" + b"s" * 125 for _ in range(40))
    client = world.peer()
    for n, begin in enumerate((b"\x85\x66memo01\x02\x40", b"\x85\x66memo01\x02\x58\0")):
        message = begin + b"\x7f" + pieces + b"\xff\x19\x13\x88" + b"p" * size
        pour(client, message, n, 10_000)
        (job,) = world.all_jobs
        assert (job.queue, job.body) == (name, b"p" * size)
        world.broker.cancel(job, world.now)
        world.engine.deliver(world.now)
        client = world.peer()


def test_rubbish_that_is_large_is_let_go_and_its_room_with_it() -> None:
    world = World(large_bytes=2 * LARGE)
    client = world.peer()
    for n in range(5):
        pour(client, b"\x85\x66memo01\x02\x40\xff" + b"x" * LARGE, n)
    assert (world.service.room.bytes, world.all_jobs, client.conversation.holding) == (0, [], False)


# -- several at once ------------------------------------------------------------------------------


def test_several_large_results_for_one_connection_leave_one_by_one(world: World) -> None:
    client, worker = world.peer(), world.peer()
    for n in range(6):
        worker.ready()
        client.job(b"%d" % n)
    tasks = worker.heard()
    client.sent.clear()
    raw = b"".join(
        worker.asking(90 + n, m.result(task.worker, b"%d" % n * MIB))
        for n, task in enumerate(tasks)
    )
    worker.send(raw)
    assert [answer.payload[:1] for answer in client.heard()] == [b"%d" % n for n in range(6)]
    assert len(client.sent) == 6
    assert max(client.sent) < 1.1 * MIB


def test_a_peer_that_takes_nothing_is_sent_nothing_more_and_then_all_in_order(world: World) -> None:
    client, worker = world.peer(), world.peer()
    client.chokes_at = LARGE
    for n in range(4):
        worker.ready()
        client.job(b"%d" % n)
    for n, task in enumerate(worker.heard()):
        worker.result(task, b"%d" % n * (LARGE if n < 3 else 5))
    assert [answer.payload[:1] for answer in client.heard()] == [b"0"]
    for n in range(1, 3):
        client.drain()
        assert client.answer().payload == b"%d" % n * LARGE
        assert client.hear() is None
    client.drain()
    assert client.answer().payload == b"33333"


def test_a_peer_that_lets_too_much_pile_up_is_cut_off() -> None:
    world = World(limits=Limits(frame_bytes_max=MIB, body_bytes_max=MIB // 2))
    client, worker = world.peer(), world.peer()
    client.chokes_at = 1
    for n in range(5):
        worker.ready()
        client.job(b"%d" % n)
    for task in worker.heard():
        worker.result(task, b"r" * (MIB // 2))
    assert client.is_hung_up


def test_large_jobs_go_to_other_connections_while_one_is_full() -> None:
    world = World(large_bytes=100 * MIB)
    client, crowd, other = world.peer(), world.peer(), world.peer()
    for _ in range(4):
        crowd.ready()
    other.ready()
    crowd.chokes_at = LARGE
    for n in range(3):
        client.job(b"%d" % n * LARGE)
    assert [task.payload[:1] for task in crowd.heard()] == [b"0"]
    assert [task.payload[:1] for task in other.heard()] == [b"1"]
    # The third has not been given to anybody, so its time does not run.
    waiting = [job for job in world.all_jobs if job.state is State.READY]
    assert [(job.body[:1], job.attempts) for job in waiting] == [(b"2", 0)]
    crowd.drain()
    assert [task.payload[:1] for task in crowd.heard()] == [b"2"]


def test_several_large_jobs_for_one_connection_leave_one_by_one(world: World) -> None:
    client, worker = world.peer(), world.peer()
    for n in range(4):
        client.job(b"%d" % n * LARGE)
    worker.sent.clear()
    worker.send(b"".join(worker.asking(n, b"\x84\x66memo01\x01\x40\x81\x61s") for n in range(4)))
    assert sorted(task.payload[:1] for task in worker.heard()) == [b"0", b"1", b"2", b"3"]
    assert max(worker.sent) < 1.1 * LARGE


# -- room -----------------------------------------------------------------------------------------


def test_bytes_under_way_are_bounded_for_each_connection() -> None:
    world = World(share_bytes=250_000)
    client, worker = world.peer(), world.worker()
    for n in range(5):
        client.job(b"%d" % n * LARGE)
    assert (len(world.all_jobs), client.conversation.holding) == (2, True)
    seen = []
    for _ in range(5):
        task = worker.given()
        seen.append(task.payload[:1])
        worker.result(task)
        assert len(world.all_jobs) <= 2
    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert len(client.heard()) == 5


def test_one_job_may_always_be_however_large() -> None:
    world = World(share_bytes=1_000, large_bytes=1_000)
    client, worker = world.peer(), world.worker()
    client.job(b"x" * LARGE)
    assert len(worker.given().payload) == LARGE


def test_bytes_of_large_jobs_are_bounded_over_all_connections() -> None:
    world = World(large_bytes=250_000)
    clients = [world.peer() for _ in range(5)]
    for n, client in enumerate(clients):
        client.job(b"%d" % n * LARGE)
    assert (len(world.all_jobs), world.service.room.bytes) == (2, 2 * LARGE)
    assert [client.conversation.holding for client in clients] == [False] * 2 + [True] * 3
    # Small ones pass.
    small = world.peer()
    small.job(b"small")
    assert len(world.all_jobs) == 3
    worker = world.worker()
    for _ in range(6):
        worker.result(worker.given(), b"r")
        assert world.service.room.bytes <= 2 * LARGE
    assert all(client.answer().payload == b"r" for client in [*clients, small])
    assert (world.service.room.bytes, world.service.room.waiting) == (0, {})


def test_a_large_job_for_which_there_is_no_room_is_not_even_read() -> None:
    world = World(large_bytes=250_000)
    first, second = world.peer(), world.peer()
    first.job(b"x" * 200_000)
    raw = second.asking(7, m.job("s", b"y" * MIB, 5_000))
    second.send(raw[:1_000])
    assert second.conversation.holding
    assert 0 < second.conversation.unread() <= 1_000
    worker = world.worker()
    worker.result(worker.given())
    assert not second.conversation.holding
    # Its room is taken when an eighth of it is there.
    assert world.service.room.bytes == 0
    second.send(raw[1_000 : MIB // 8 + 100])
    assert world.service.room.bytes > MIB
    third = world.peer()
    third.job(b"z" * LARGE)
    assert third.conversation.holding
    second.send(raw[MIB // 8 + 100 :])
    task = worker.given()
    assert task.payload == b"y" * MIB
    worker.result(task)
    assert worker.given().payload == b"z" * LARGE


def test_what_came_before_the_room_was_free_is_not_lost() -> None:
    world = World(large_bytes=250_000)
    first, second, worker = world.peer(), world.peer(), world.worker()
    first.job(b"x" * 200_000)
    pour(second, m.job("s", b"y" * MIB, 5_000), 1)
    second.job(b"behind")
    assert len(world.all_jobs) == 1
    seen = [(task.payload[:1], len(task.payload)) for task in worker.work_off(3)]
    assert seen == [(b"x", 200_000), (b"y", MIB), (b"b", 6)]


@pytest.mark.parametrize("begun", [True, False])
def test_whoever_goes_leaves_its_room_to_others(begun: bool) -> None:
    world = World(large_bytes=250_000)
    first, second = world.peer(), world.peer()
    raw = first.asking(7, m.job("s", b"x" * 200_000, 5_000))
    first.send(raw[:50_000] if begun else raw)
    second.job(b"y" * 200_000)
    assert second.conversation.holding
    first.hang_up()
    assert [job.body[:1] for job in world.all_jobs] == [b"y"]
    second.hang_up()
    assert world.service.room.bytes == 0


def test_large_jobs_that_nobody_serves_do_not_keep_others_out_for_ever() -> None:
    world = World(large_bytes=250_000)
    hoarder, client, worker = world.peer(), world.peer(), world.worker()
    for n in range(2):
        hoarder.job(b"%d" % n * LARGE, "undelivered.of")
    client.job(b"x" * LARGE)
    assert client.conversation.holding
    assert worker.hear() is None
    for _ in range(12):
        world.pass_time(SECOND)
        for beat in worker.heard():
            if beat.op == 4:
                worker.heartbeat(beat)
            else:
                assert beat.payload == b"x" * LARGE
    assert (hoarder.is_hung_up, [job.body[:1] for job in world.all_jobs]) == (True, [b"x"])


def test_a_large_job_that_is_only_promised_keeps_nobody_out() -> None:
    world = World(large_bytes=250_000)
    slow, client, worker = world.peer(), world.peer(), world.worker()
    raw = slow.asking(7, m.job("s", b"x" * MIB, 5_000))
    slow.send(raw[:100_000])
    client.job(b"y" * LARGE)
    assert worker.given().payload == b"y" * LARGE


@pytest.mark.parametrize("paused", [False, True])
def test_a_large_job_that_comes_slowly_makes_way_for_others(paused: bool) -> None:
    world = World(large_bytes=250_000)
    slow, client, worker = world.peer(), world.peer(), world.worker("t")
    raw = slow.asking(7, m.job("s", b"x" * MIB, 5_000))
    at = 200_000
    slow.send(raw[:at])
    slow.link.paused = paused
    client.job(b"y" * LARGE, "t")
    assert client.conversation.holding
    for _ in range(4):
        slow.send(raw[at : at + 20_000])
        at += 20_000
        world.pass_time(SECOND)
    assert client.conversation.holding is paused
    if not paused:
        worker.result(worker.given())
    # It has lost nothing, and is counted like any other when it is there.
    slow.send(raw[at:])
    assert [len(job.body) for job in world.all_jobs if job.queue == "s"] == [MIB]
    slow.hang_up()
    client.hang_up()
    assert (world.service.room.bytes, world.service.room.coming) == (0, {})


def test_a_large_job_that_comes_fast_keeps_its_room() -> None:
    world = World(large_bytes=250_000)
    fast, client = world.peer(), world.peer()
    raw = fast.asking(7, m.job("s", b"x" * MIB, 5_000))
    at = 200_000
    fast.send(raw[:at])
    client.job(b"y" * LARGE)
    for _ in range(9):
        fast.send(raw[at : at + 50_000])
        at += 50_000
        world.pass_time(SECOND)
        assert client.conversation.holding


def test_small_jobs_pass_while_a_large_one_comes(world: World) -> None:
    large, small, worker = world.peer(), world.peer(), world.worker()
    raw = large.asking(1, m.job("s", b"L" * (2 * MIB), 5_000))
    for n, at in enumerate(range(0, len(raw) - CHUNK, CHUNK)):
        large.send(raw[at : at + CHUNK])
        small.job(b"%d" % n)
        worker.result(worker.given(), b"r")
        assert small.answer().payload == b"r"


def test_a_lost_worker_keeps_nothing_of_its_job_which_may_end_elsewhere(world: World) -> None:
    worker, client = world.worker(), world.peer()
    client.job(b"p" * LARGE)
    worker.given()
    worker.hang_up()
    client.hang_up()
    [lost] = world.service.registry.by_id.values()
    kept = [getattr(lost, field.name) for field in fields(lost)]
    assert not any(isinstance(value, Job) for value in kept)
