"""Large results, long listings, dumps: nothing is copied for each peer, and no turn does it all."""

import os
import sys
import time
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.limits import Limits
from franca.core.model import NewJob, Policy, State
from franca.protocols.bodies import JSON_ARGS, as_bytes
from franca.protocols.periodic import jobs
from franca.protocols.periodic.binary import BinaryDialect, CrcDialect
from franca.protocols.periodic.crc import BULK_BYTES, MANY, Shared
from franca.protocols.periodic.jobs import Dialect
from franca.protocols.periodic.messages import Assignment
from franca.protocols.periodic.text import DocDialect, TextDialect
from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.protocols.periodic.test_between import binary_pair, old_job
from tests.support import periodic as p
from tests.support.periodic import CRC, DOC, listed, packed, str8, unpacked

FUNCS = 5_000


@given(st.binary(max_size=40), st.binary(max_size=3_000))
def test_a_crc_of_two_parts_follows_from_theirs(front: bytes, data: bytes) -> None:
    assert Shared(data).crc_behind(front) == crc32(front + data)
    assert Shared(b"", len(data), crc32(data)).crc_behind(front) == crc32(front + data)


def test_a_crc_for_very_many_is_the_same() -> None:
    shared = Shared(os.urandom(1_000))
    for number in range(3 * MANY):
        front = number.to_bytes(4) + os.urandom(number % 9)
        assert shared.crc_behind(front) == crc32(front + shared.data)


# -- results -------------------------------------------------------------------------------------


def large_pieces(peers: list[Puppet]) -> list[bytes]:
    """Those that have been written to all of them since the last turn."""
    return [piece for peer in peers for piece in peer.link.out if len(piece) >= BULK_BYTES]


def test_all_who_wait_for_a_large_result_get_the_same_bytes(worker: Puppet, world: World) -> None:
    clients = [world.peer() for _ in range(5)]
    for client in clients:
        client.run_job("f", "n", timeout=60)
    job = worker.grab()
    result = os.urandom(1 << 20)
    world.turn((worker, worker.message(p.WORK_DONE, job.handle + result, b"done")))
    large = large_pieces(clients)
    assert (len(large), len({id(piece) for piece in large})) == (5, 1), "one copy for all"
    assert all(client.link.after_commit for client in clients)
    world.run()
    for client in clients:
        (answer,) = client.heard()
        assert (answer.command, answer.data) == (p.DATA, result)


def test_a_large_piece_of_a_stream_is_shared_too(world: World) -> None:
    worker, clients = world.worker("f"), [world.peer(), world.peer()]
    for client in clients:
        assert client.word(p.RECV_DATA, packed("f", "n")) == p.SUCCESS
    world.peer().submit("f", "n")
    job = worker.grab()
    piece = os.urandom(BULK_BYTES)
    world.turn((worker, worker.message(p.WORK_DATA, job.handle + piece, b"data")))
    first, second = large_pieces(clients)
    assert first is second
    assert not any(client.link.after_commit for client in clients)
    world.run()
    assert [client.heard()[0].data for client in clients] == [piece, piece]


def test_a_large_result_in_the_dialect_of_2018() -> None:
    world = World(dialect="bin")
    client, worker = binary_pair(world)
    worker.say(p.CAN_DO, str8("f"))
    client.send(client.message(p.RUN_JOB, old_job("f", "n", bytes(BULK_BYTES)), b"runs"))
    worker.say(p.GRAB_JOB)
    (given_job,) = worker.heard()
    assert len(given_job.data) > BULK_BYTES
    result = os.urandom(BULK_BYTES)
    worker.say(p.WORK_DONE, str8("f::n") + result)
    assert client.take_payload() == b"runs" + result


@pytest.mark.parametrize("dialect", [CRC, DOC])
@pytest.mark.parametrize("size", [BULK_BYTES - 1, BULK_BYTES, BULK_BYTES + 1])
def test_a_large_workload_arrives_whole(world: World, dialect: str, size: int) -> None:
    workload = b"w" * size
    world.peer(dialect).submit("f", "n", workload, count=2, timeout=9)
    worker = world.worker("f", dialect=dialect)
    job = worker.grab()
    assert (job.workload, job.count, job.timeout) == (workload, 2, 9)
    assert worker.waited_for_commit


def test_a_broadcast_of_a_large_job_is_one_copy(world: World) -> None:
    workers = [world.broadcaster() for _ in range(3)]
    client = world.peer()
    job = packed("f", "n", bytes(BULK_BYTES))
    world.turn((client, client.message(p.SUBMIT_JOB, job, b"subm")))
    large = large_pieces(workers)
    assert (len(large), len({id(piece) for piece in large})) == (3, 1)


def test_a_job_of_another_protocol_for_all_workers_is_written_once(world: World) -> None:
    workers = [world.broadcaster() for _ in range(3)]
    text = b"w" * BULK_BYTES
    world.broker.submit(NewJob("f", "f", b'["%b"]' % text, Policy(), media=JSON_ARGS), world.now)
    world.engine.deliver(world.now)
    large = large_pieces(workers)
    assert (len(large), len({id(piece) for piece in large}), large[0]) == (3, 1, text)


def test_a_worker_keeps_nothing_of_a_large_job_that_has_ended_elsewhere(world: World) -> None:
    worker, client = world.worker("f"), world.peer()
    client.submit("f", "n", b"w" * BULK_BYTES)
    assert worker.grab().name == "n"
    [job] = world.jobs(State.LEASED)
    client.remove()
    world.pass_time(200)
    referred_to = sys.getrefcount(job)
    worker.hang_up()
    assert sys.getrefcount(job) == referred_to, "it was not the worker's connection that kept it"


# -- large messages ------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [CRC, DOC])
def test_a_large_message_is_all_that_one_gets_of_a_turn(world: World, dialect: str) -> None:
    client = world.peer(dialect)
    body = b"w" * (2 << 20)
    job = packed("f", "n", body)
    if dialect == DOC:
        job = b'{"func":"f","name":"n","workload":"%b"}' % body
    large = client.message(p.SUBMIT_JOB, job, b"7777")
    said = client.message(p.PING, b"", b"8888") + large + client.message(p.PING, b"", b"9999") * 3
    cut = len(said) - 100
    world.turn((client, said[:cut]))
    before = world.service.commands
    world.turn((client, said[cut:]))
    assert world.service.commands - before == 1
    world.run()
    assert client.words() == [p.PONG, p.SUCCESS, p.PONG, p.PONG, p.PONG]
    assert world.worker("f").grab().workload == body


@pytest.mark.parametrize("at", [0, 9, 1 << 20])
def test_a_large_message_with_a_wrong_crc_is_the_end(client: Puppet, world: World, at: int) -> None:
    frame = bytearray(client.message(p.SUBMIT_JOB, packed("f", "n", bytes(2 << 20)), b"7777"))
    frame[at] ^= 1
    for start in range(0, len(frame), 1 << 20):
        client.send(bytes(frame[start : start + (1 << 20)]))
    assert (client.is_hung_up, world.jobs()) == (True, [])


# -- listings ------------------------------------------------------------------------------------


def full_world() -> World:
    world = World()
    client = world.peer()
    for start in range(0, FUNCS, 500):
        jobs = [packed(f"f{number:05}", "n") for number in range(start, start + 500)]
        args = listed(jobs)
        assert client.word(p.LOAD, args) == p.SUCCESS
    return world


def test_a_long_listing_is_made_in_slices_and_others_are_served_in_between() -> None:
    world = full_world()
    client, other = world.peer(), world.peer()
    engine = world.engine
    engine.inputs.append((client.link, client.message(p.STATUS, b"", b"stat")))
    engine.inputs.append((client.link, client.message(p.PING, b"", b"ping")))
    spans: list[float] = []
    while not client.link.out and len(spans) < 100:
        world.listen()
        engine.inputs.append((other.link, other.message(p.PING, b"", b"mine")))
        began = time.thread_time()
        engine.turn(world.now)
        spans.append(time.thread_time() - began)
        assert other.link.out, "another was not served in the turn"
    assert len(spans) > FUNCS / 1_000
    assert max(spans) < 0.1
    world.run()
    status, ping = client.heard()
    assert (status.msgid, ping.msgid) == (b"stat", b"ping")
    lines = status.data.split(b"\n")
    assert (len(lines), lines[0].startswith(b"f00000,0,1,0,0,")) == (FUNCS, True)
    assert lines == sorted(lines)


def test_a_long_listing_is_kept_for_a_moment() -> None:
    world = full_world()
    client = world.peer()
    first = client.ask(p.STATUS).data
    client.submit("f99999", "n")
    assert client.ask(p.STATUS).data == first
    world.pass_time(1_100)
    assert len(client.ask(p.STATUS).data.split(b"\n")) == FUNCS + 1


def test_who_leaves_during_a_listing_harms_nobody() -> None:
    world = full_world()
    client = world.peer()
    world.turn((client, client.message(p.STATUS, b"", b"stat")))
    client.hang_up()
    assert world.peer().word(p.PING) == p.PONG


# -- dumps ---------------------------------------------------------------------------------------


def test_a_function_whose_name_has_no_room_in_the_dump_refuses_the_dump(world: World) -> None:
    old = world.peer(DOC)
    old.submit("f" * 300, "n")
    client = world.peer()
    assert (client.word(p.DUMP), client.is_hung_up) == (p.UNKNOWN, False)
    old.say(p.DUMP)
    assert b"f" * 300 in old.heard()[0].data


def test_a_dump_in_the_dialect_of_2018_is_what_a_load_takes() -> None:
    world = World(dialect="bin")
    client, _ = binary_pair(world)
    for name in ("a", "b"):
        assert client.word(p.SUBMIT_JOB, old_job("f", name, b"w", count=3)) == p.SUCCESS
    client.send(client.message(p.DUMP, b"", b"dump"))
    payload = client.take_payload()
    assert payload is not None
    dump = payload[4:]
    assert dump[:8] == (2).to_bytes(8)
    first, at = unpacked(dump, 8)
    assert (first.func, first.name, first.workload, first.count) == ("f", "a", b"w", 3)
    assert unpacked(dump, at)[0].name == "b"
    other = World(dialect="bin")
    assert binary_pair(other)[0].word(p.LOAD, dump) == p.SUCCESS
    assert sorted(job.name for job in other.jobs()) == ["a", "b"]


def test_all_dumps_under_way_together_hold_no_more_than_one_frame() -> None:
    world = World(limits=Limits(frame_bytes_max=100_000))
    client = world.peer()
    client.submit_many(8, bytes(8_000))
    world.service.dump_bytes = 50_000  # what another has gathered
    assert (client.word(p.DUMP), world.service.dump_bytes) == (p.UNKNOWN, 50_000)
    world.service.dump_bytes = 0
    assert client.word(p.DUMP) == p.DATA
    leaver = world.peer()
    world.turn((leaver, leaver.message(p.DUMP, b"", b"dump")))
    leaver.hang_up()
    assert world.service.dump_bytes == 0


def test_a_load_of_large_jobs_is_taken_in_by_bytes_too(world: World, client: Puppet) -> None:
    jobs = [packed("f", f"n{number}", bytes(300_000)) for number in range(20)]
    args = listed(jobs)
    world.engine.inputs.append((client.link, client.message(p.LOAD, args, b"load")))
    turns = 0
    while not client.link.out and turns < 100:
        world.engine.turn(world.now)
        turns += 1
    assert turns >= 5
    world.run()
    assert (client.words(), len(world.jobs())) == ([p.SUCCESS], 20)


# -- workers that are given large jobs -----------------------------------------------------------


def grabs(worker: Puppet) -> bytes:
    """As many GRAB_JOBs as a share of a turn has room for."""
    return b"".join(worker.message(p.GRAB_JOB, b"", worker.next_id()) for _ in range(64))


@pytest.mark.parametrize("dialect", [CRC, DOC])
@pytest.mark.parametrize("size", [20_000, 100_000, 700_000])
def test_a_worker_is_given_as_much_as_may_wait(world: World, dialect: str, size: int) -> None:
    worker, client = world.worker("f", dialect=dialect), world.peer()
    count = 4_000_000 // size
    client.submit_many(count, b"w" * size)
    world.turn((worker, grabs(worker)))
    said = sum(map(len, worker.link.out))
    assert size < said < world.limits.output_soft_bytes + 2 * size
    world.run()
    world.pass_time(500)
    assert len([m for m in worker.heard() if m.command == p.JOB_ASSIGN]) == min(count, 64)


def test_a_worker_that_waits_for_jobs_is_not_given_a_pile_of_them_at_once(world: World) -> None:
    worker, client = world.worker("f", dialect=CRC), world.peer()
    worker.send(grabs(worker))
    worker.heard()
    jobs = [packed("f", f"n{number}", bytes(300_000)) for number in range(30)]
    world.turn(*((client, client.message(p.SUBMIT_JOB, job, b"subm")) for job in jobs))
    assert sum(map(len, worker.link.out)) < world.limits.output_soft_bytes + 2 * 300_000
    world.run()
    assert len(worker.assigned()) == 30


def test_jobs_are_written_in_json_a_little_in_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.periodic.service.WRITTEN_A_TICK", 500_000)
    world = World()
    workers, client = [world.worker("f", dialect=DOC) for _ in range(6)], world.peer()
    waiting, exact = workers[0], workers[1]
    waiting.say(p.GRAB_JOB)
    exact.conversation.follows_document = True
    client.submit_many(20, b"\1" * 50_000)
    for worker in workers[1:]:
        world.engine.inputs.append((worker.link, grabs(worker)[:100]))
    before = world.broker.leases.count
    world.engine.turn(world.now)
    assert world.broker.leases.count - before <= 2, "a job takes six times its bytes"
    world.run()
    assert world.service.written <= 800_000
    assert not world.engine.has_input(), "nobody is asked again and again"
    world.pass_time(1_000)
    assert (world.broker.leases.count, world.service.postponed) == (20, {})
    heard = [message for worker in workers for message in worker.heard()]
    assert len([m for m in heard if m.command == p.JOB_ASSIGN]) == 20


def test_a_job_that_cannot_be_written_goes_to_who_takes_it_as_it_is(world: World) -> None:
    slow, client = world.worker("f", dialect=DOC), world.peer()
    slow.say(p.GRAB_JOB)
    quick = world.worker("f")
    quick.say(p.GRAB_JOB)
    quick.heard()
    world.service.written = 1 << 30
    client.submit("f", "n", b"w")
    assert [job.name for job in quick.assigned()] == ["n"]
    client.submit("f", "m", b"w")
    world.pass_time(200)
    assert [message.command for message in slow.heard()] == [p.JOB_ASSIGN]


@pytest.mark.parametrize("speech", [CrcDialect(), BinaryDialect(), TextDialect(), DocDialect()])
def test_a_job_in_pieces_is_the_same_as_in_one(speech: Dialect) -> None:
    workload = b"w" * BULK_BYTES
    shown = Assignment(b"f::n", b"f", b"n", workload, NOW_S, 3, 60, 7)
    pieces = speech.assign(b"0001", shown, Shared(workload))
    assert b"".join(pieces) == b"".join(speech.assign(b"0001", shown))
    assert any(piece is workload for piece in pieces) is not speech.writes_anew


def test_a_job_that_is_given_another_name_is_rendered_once(world: World, worker: Puppet) -> None:
    for _ in range(2):
        new = NewJob("f", "kind", b'["x"]', Policy(), "same", JSON_ARGS)
        world.broker.submit(new, world.now)
    with patch.object(jobs, "as_bytes", wraps=as_bytes) as rendered:
        assert [worker.grab().name for _ in range(2)] == ["same", "#2"]
    assert rendered.call_count == 2
