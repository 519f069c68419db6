"""Whatever comes in: nothing is raised, nothing hangs, and nobody else notices."""

import struct
import tracemalloc
from itertools import accumulate, cycle, pairwise
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.gearman import wire
from franca.protocols.gearman.wire import PacketReader
from tests.protocols.gearman.puppet import Puppet, World, res
from tests.protocols.gearman.test_golden import sorted_by_message
from tests.support.gearman import Type, request, said

HANDLES = st.sampled_from([b"H:box:719629470698%d" % n for n in range(1, 5)])
SMALL = st.sampled_from([b"", b"f", b"g", b"u", b"-", b"5", b"x" * 70, b"\xff\xfe", b"exceptions"])
NUMBERS = st.sampled_from(
    [b"9" * 4_301, b"-" + b"9" * 40, b"1" * 19, b"1e999999999", b"0x1", b"1_000", b" 7", "\u0665".encode(), b"0" * 50,
     b"-0", b"18446744073709551616", b"253402300800", b"nan", b"inf", b"1.5", b"*", b"\xb2", b"59", b"23", b"29", b"2"]
)  # fmt: skip
ODD_NAMES = st.sampled_from(
    [b"\xed\xa0\x80", b"\xef\xbf\xbe", b"\xf4\x90\x80\x80", b"\xee\xbe\x80", b"n" * 1_025, b"\r\n"]
)
ARGUMENTS = st.lists(SMALL | HANDLES | NUMBERS | ODD_NAMES | st.binary(max_size=12), max_size=9)
PACKETS = st.builds(lambda n, a: request(n, *a), st.integers(0, 45), ARGUMENTS)
USUAL = st.sampled_from(
    [request(1, "f"), request(9), request(30), request(39), request(4), request(7, "f", "", "x"),
     request(18, "f", "u", "x"), request(32, "g", "-", "x"), request(3), request(2, "f"), request(22, "id")]
)  # fmt: skip
ENDS = st.builds(
    lambda n, h: request(n, h, "r"), st.sampled_from([12, 13, 14, 25, 28, 29]), HANDLES
)
LINES = st.sampled_from(
    [b"status\n", b"workers\r\n", b"show jobs\n", b"show unique jobs\n", b"prioritystatus\n", b"jobs\n", b"clients\n",
     b"cancel job H:box:7196294706981\n", b"create function g\n", b"drop function g\n", b"maxqueue f 2\n", b"\n", b"a b c d e f\n"]
)  # fmt: skip
WORDS = st.sampled_from(
    [b"status", b"prioritystatus", b"workers", b"show", b"jobs", b"unique", b"clients", b"cancel", b"job", b"create",
     b"function", b"drop", b"maxqueue", b"version", b"getpid", b"verbose", b"shutdown", b"graceful"]
)  # fmt: skip
ODD_LINES = st.lists(WORDS | NUMBERS | ODD_NAMES | HANDLES | SMALL, max_size=5).map(
    lambda words: b" ".join(words) + b"\n"
)
JUNK = st.binary(max_size=30) | st.builds(
    lambda magic, number, size: magic + struct.pack(">II", number, size),
    st.sampled_from([b"\0REQ", b"\0RES", b"\0XXX"]),
    st.integers(0, 50),
    st.sampled_from([0, 1, 100, 1 << 20, (1 << 32) - 1]),
)
STREAMS = st.lists(USUAL | USUAL | ENDS | PACKETS | LINES | ODD_LINES | JUNK, max_size=14)


def check(world: World) -> None:
    """Nothing was raised, the counts of the broker add up, and who comes now is served."""
    assert world.engine.unhandled == 0, world.engine.notices
    leased = [job for job in world.broker.jobs.values() if job.state is State.LEASED]
    served = world.service.conversations.values()
    for queue in world.broker.queues.values():
        assert queue.leased == sum(job.queue == queue.name for job in leased)
        assert queue.servers == sum(queue.name in each.session.serves for each in served)
        assert 0 <= queue.woken <= len(served)
    held = [job.id for each in served for job in each.held.values()]
    assert sorted(held) == sorted(job.id for job in leased)
    client, worker, handle = world.running("sane")
    worker.complete(handle, "r")
    assert client.take() == res(Type.WORK_COMPLETE, handle, "r")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), STREAMS), max_size=6), st.data())
def test_any_stream_from_two_peers_leaves_a_server_that_works(
    turns: list[tuple[bool, list[bytes]]], data: st.DataObject
) -> None:
    limits = Limits(turn_messages=4, frame_bytes_max=5_000, window_jobs=3, supply_jobs=2)
    world = World(limits=limits)
    both = [world.connect(), world.connect()]
    for which, messages in turns:
        peer, stream = both[which], b"".join(messages)
        cut = data.draw(st.integers(0, len(stream)))
        peer.send(stream[:cut])
        world.pass_time(data.draw(st.sampled_from([0, 50, 400, 2_000])), step=200)
        peer.send(stream[cut:])
        assert peer.conversation.unread() < 8_192
        if data.draw(st.integers(0, 3)) == 0:
            peer.hang_up(undelivered=data.draw(st.booleans()))
            both[which] = world.connect()
    check(world)


@settings(max_examples=100, deadline=None)
@given(STREAMS, st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_cuts_in_a_stream_change_no_answer(messages: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(messages)
    ends = [*accumulate(size for size, _ in zip(cycle(sizes), stream, strict=False))]
    pieces = [stream[begin:end] for begin, end in pairwise([0, *ends])]
    heard = []
    for parts in ([stream], pieces):
        world = World(limits=Limits(turn_messages=4, frame_bytes_max=5_000))
        peer = world.connect()
        for part in parts:
            peer.send(part)
        heard.append((sorted_by_message(peer.heard())[0], peer.is_hung_up))
        assert world.engine.unhandled == 0, world.engine.notices
    assert heard[0] == heard[1]


def test_four_gigabytes_that_are_announced_take_no_memory(world: World) -> None:
    for number in range(1, 43):
        peer = world.connect()
        peer.send(b"\0REQ" + struct.pack(">II", number, (1 << 32) - 1) + b"x" * 100)
        assert (peer.is_hung_up, peer.conversation.unread()) == (True, 0)


def test_a_large_packet_that_comes_in_drops_is_looked_at_once(world: World, peer: Puppet) -> None:
    data = request(Type.ECHO_REQ, b"x" * 300_000)
    for at in range(0, len(data), 100):
        world.engine.inputs.append((peer.link, data[at : at + 100]))
    with patch.object(PacketReader, "_wait", autospec=True, side_effect=PacketReader._wait) as wait:
        world.run()
    assert peer.take() == res(Type.ECHO_RES, b"x" * 300_000)
    assert wait.call_count == 1


def test_a_large_packet_is_acted_on_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = b"".join(
        [
            request(Type.ECHO_REQ, b"x" * 100),
            request(Type.SUBMIT_JOB_BG, "f", "-", b"y" * 100),
            request(Type.JOB_CREATED, b"z" * 100),
            b"\0RES" + request(Type.ECHO_REQ, b"x" * 100)[4:],
            request(Type.CAN_DO, "f"),
            request(Type.SUBMIT_JOB_BG, "f", "-", b"y" * 100),
            request(Type.GRAB_JOB_UNIQ, b"x" * 100),
            request(Type.CAN_DO, b"g" * 2_000),
            b"getpid\n",
            request(Type.ECHO_REQ, b"last"),
        ]
    )

    def answers(size: int) -> bytes:
        peer = World().connect()
        for at in range(0, len(stream), size):
            peer.send(stream[at : at + size])
            assert peer.conversation.unread() <= at + size
        assert peer.conversation.unread() == 0
        return peer.bytes_heard()

    whole = answers(len(stream))
    assert whole.endswith(b"last")
    monkeypatch.setattr(wire, "LARGE_BYTES", 64)
    for size in (1, 11, 12, 13, 76, 77, 100, 130, 131, 1_000, len(stream)):
        assert answers(size) == whole


def test_a_large_packet_that_is_under_way_counts_as_unread_and_is_forgotten(peer: Puppet) -> None:
    data = request(Type.ECHO_REQ, b"x" * 2_000_000)
    for at in range(0, 1_200_000, 300_000):
        peer.send(data[at : at + 300_000])
    assert peer.conversation.unread() == 1_200_000
    peer.conversation.forget_unread()
    assert peer.conversation.unread() == 0


def test_a_large_workload_is_copied_once_when_it_is_there(world: World, peer: Puppet) -> None:
    size = 8 * 1024 * 1024
    data = request(Type.SUBMIT_JOB_BG, "f", "", b"x" * size)
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    del data
    tracemalloc.start()
    try:
        for piece in pieces:
            peer.begin(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.2 * size  # the packet and the workload
    world.run()
    assert world.jobs()[0].body == b"x" * size


STATUS = b"".join(request(Type.GET_STATUS, f"H:box:719629470698{n}") for n in range(1, 21))
AT_ANY_TIME = request(Type.SUBMIT_JOB_SCHED, "f", "", "", "", "", "", "", "x")
GRABS = request(Type.GRAB_JOB) * 20
FORGET = request(Type.RESET_ABILITIES) + request(Type.ECHO_REQ, "x") * 40


@pytest.mark.parametrize(
    ("functions", "asked", "at_once", "answers"),
    [
        pytest.param(0, b"status\n" * 20, 1, [Type.TEXT] * 20, id="a list"),
        pytest.param(1, GRABS, 20, [Type.NO_JOB] * 20, id="a search"),
        pytest.param(64 * 20, GRABS, 4, [Type.NO_JOB] * 20, id="a search of many functions"),
        pytest.param(64 * 50, FORGET, 13, [Type.ECHO_RES] * 40, id="forgetting many functions"),
        pytest.param(0, AT_ANY_TIME * 20, 13, [Type.JOB_CREATED] * 20, id="a time of five fields"),
        pytest.param(0, STATUS, 0, [Type.STATUS_RES] * 20, id="what the store is asked for"),
    ],
)
def test_what_takes_long_is_more_than_one_message(
    functions: int, asked: bytes, at_once: int, answers: list[Type]
) -> None:
    world = World(limits=Limits(turn_messages=64))
    peer = world.worker(*(f"f{n}" for n in range(functions)))
    peer.begin(asked)
    assert len(list(said(b"".join(peer.link.out)))) == at_once
    world.run()
    assert [message.type for message in peer.take_all()] == answers
