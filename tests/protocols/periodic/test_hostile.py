"""What no client would send: it costs its sender the connection, and nobody else anything."""

import random
import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.errors import WireError
from franca.core.limits import Limits
from franca.protocols.periodic.messages import Message
from franca.protocols.periodic.wire import CrcFrames
from tests.protocols.periodic.puppet import Puppet, World
from tests.protocols.world import START
from tests.support import periodic as p
from tests.support.periodic import BIN, CRC, DOC, packed, str8

JUNK = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /f HTTP/1.1\r\n\r\n\0REQ\0\0\0\1\xa5\x05\xdf\x1b\x01",
    b"\0SP\0\0\x30\0\0",
    b"\xff\0\0\0\0\0\0\0\1\x7f",
    b"\0REQ\0\0\0\x07\0\0\0\4echo",
    b"\0REQ\xff\xff\xff\xff",
    b"\n\n\n\n",
    b"HELLO {}\r\n",
]


@pytest.mark.parametrize("data", JUNK)
def test_whoever_begins_with_something_else_is_hung_up_on(world: World, data: bytes) -> None:
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        peer = world.connect()
        for piece in pieces:
            peer.send(piece)
        assert peer.is_hung_up
        assert peer.bytes_heard() == b""
    assert (world.service.unreadable, world.jobs()) == (2, [])


@pytest.mark.parametrize(
    "data",
    [
        b"junk",
        b"\0REQ\0\0\0\5\0\0\0\0abcd\x09",
        b"\0REQ\0\0\0\4" + struct.pack(">I", crc32(b"abcd")) + b"abcd",
        b"\0REQ\x7f\xff\xff\xff\0\0\0\0",
        b"\0RES\0\0\0\5" + struct.pack(">I", crc32(b"abcd\x09")) + b"abcd\x09",
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_what_came_before_a_wrong_frame_counts(
    world: World, peer: Puppet, data: bytes, alone: bool
) -> None:
    good = peer.message(p.SUBMIT_JOB, packed("f", "n"), b"good")
    for piece in (good, data) if alone else (good + data,):
        peer.send(piece)
    assert peer.is_hung_up
    assert (peer.words(), len(world.jobs())) == ([p.SUCCESS], 1)


def test_a_frame_that_came_alone_may_be_too_large(peer: Puppet) -> None:
    frames, data = CrcFrames(8), peer.message(p.PING, bytes(20), b"ping")
    assert frames.sole(data) is None
    with pytest.raises(WireError, match="at most 8"):
        frames.cut(data, 0)


def test_a_worker_that_goes_wrong_loses_its_jobs_to_others(world: World) -> None:
    world.peer().submit("f", "n")
    worker = world.worker("f")
    worker.grab()
    worker.send(b"junk")
    assert worker.is_hung_up
    world.pass_time(1_100)
    assert world.worker("f").grab().name == "n"


def test_a_worker_may_submit_for_itself_and_go_wrong_at_once(worker: Puppet, world: World) -> None:
    worker.say(p.GRAB_JOB)
    worker.send(worker.message(p.SUBMIT_JOB, packed("f", "n"), b"good") + b"junk")
    assert worker.is_hung_up
    world.pass_time(1_100)
    assert world.worker("f").grab().name == "n"


@pytest.mark.parametrize("dialect", [CRC, DOC])
def test_arguments_of_every_command_may_be_anything(world: World, dialect: str) -> None:
    rng = random.Random(5)
    good = packed("f", "n", b"abc")
    for command in range(36):
        for length in (0, 1, 2, 7, 16, 40):
            for data in (bytes(length), b"\xff" * length, rng.randbytes(length), good[:length]):
                peer = world.worker("f", dialect=dialect)
                peer.say(command, data)
                assert not peer.is_hung_up or command == p.SHUTDOWN
                peer.hang_up()
    assert world.peer().word(p.PING) == p.PONG


def test_random_frames_never_raise() -> None:
    rng = random.Random(7)
    world = World()
    for _ in range(400):
        peer = world.connect()
        peer.send(bytes.fromhex("00524551 00000001") + rng.choice([b"\xa5\x05\xdf\x1b\1", b"\x3c\x0c\x8e\xa1\2", b"\1", b"\2"]))  # fmt: skip
        for _ in range(rng.randrange(1, 6)):
            payload = rng.randbytes(rng.randrange(40))
            if rng.random() < 0.7:
                payload = b"1\0\1" + payload
            crc = struct.pack(">I", crc32(payload)) if rng.random() < 0.9 else b""
            peer.send(b"\0REQ" + struct.pack(">I", len(payload)) + crc + payload)
        peer.hang_up()
    assert world.peer().word(p.PING) == p.PONG


def test_half_a_frame_is_not_read_again_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = 0
    cut = CrcFrames.cut

    def counted(frames: CrcFrames, data: bytes, start: int) -> Message | None:
        nonlocal cuts
        cuts += 1
        return cut(frames, data, start)

    world = World()
    peer = world.peer()
    frame = peer.message(p.SUBMIT_JOB, packed("f", "n", b"x" * 1_000_000), b"long")
    monkeypatch.setattr(CrcFrames, "cut", counted)
    for start in range(0, len(frame), 1_000):
        peer.send(frame[start : start + 1_000])
    assert len(world.jobs()) == 1
    assert cuts <= 3


@pytest.mark.parametrize(("command", "times", "at_once"), [(p.PING, 95, 10), (p.STATUS, 20, 1)])
def test_a_flood_takes_its_share_of_a_turn_and_a_list_a_turn_of_its_own(
    command: int, times: int, at_once: int
) -> None:
    world = World(Limits(turn_messages=10))
    peer = world.peer()
    world.turn((peer, peer.message(command, b"", b"many") * times))
    assert world.service.commands == at_once
    world.run()
    assert len(peer.heard()) == times


def test_functions_and_names_are_bounded(world: World) -> None:
    worker = world.worker()
    for number in range(1_024):
        worker.say(p.CAN_DO, str8(f"f{number}"))
    assert set(worker.words()) == {p.SUCCESS}
    assert worker.word(p.CAN_DO, str8("one more")) == p.UNKNOWN
    old = world.worker(dialect=DOC)
    old.say(p.CAN_DO, b"f" * 1_025)
    assert old.words() == [p.UNKNOWN]
    for number in range(12_000):
        world.service.note_func(f"g{number}", worker.conversation.worker, False)
    assert len(world.service.funcs) == 10_000


def test_a_stranger_that_says_nothing_is_hung_up_on(world: World) -> None:
    silent, half = world.connect(), world.connect()
    half.send(b"\0REQ\0\0")
    world.pass_time(7_000)
    assert (silent.is_hung_up, half.is_hung_up) == (True, True)
    assert world.now > START


def test_a_frame_that_is_never_finished_is_not_waited_for(world: World, peer: Puppet) -> None:
    peer.send(b"\0REQ\0\1")
    world.pass_time(40_000, step=500)
    assert peer.is_hung_up


@pytest.mark.parametrize(("functions", "is_old"), [(900, False), (1_100, True)])
def test_a_long_list_may_be_a_second_old_and_no_older(functions: int, is_old: bool) -> None:
    world = World()
    client = world.peer()
    for number in range(functions):
        world.broker.queue(f"f{number:05}")
    world.now += 5_000
    assert client.status()["f00000"][1] == 0
    client.submit("f00000", "n")
    assert client.status()["f00000"][1] == (0 if is_old else 1)
    world.now += 1_000
    assert client.status()["f00000"][1] == 1


# -- whatever anybody says -------------------------------------------------------------------------

ODD_NUMBERS = [b"", b"-1", b"1_0", b"9" * 5_000, b"1e400", b"-1e400", b"1e-400", b"0x10", b" 7 ", b"\xd9\xa1", b"NaN"]  # fmt: skip
ODD_TEXTS = [b"n", b"\xff\xfe", b"\\ud800", b"\\", b'"', b"\0\1", b"\xef\xbf\xbd", b"\xee\xbe\x80", b"::", b"x" * 300]  # fmt: skip
NUMBER, TEXT = st.sampled_from(ODD_NUMBERS), st.sampled_from(ODD_TEXTS) | st.binary(max_size=9)
IN_FIELDS = st.lists(TEXT | NUMBER, max_size=6).map(p.SEPARATOR.join)
IN_JSON = st.builds(
    b'{"func":"%b","name":"%b","workload":%b,"timeout":%b,"sched_at":%b,"counter":%b}'.__mod__,
    st.tuples(TEXT, TEXT, st.sampled_from([b'"w"', b"[" * 2_000, b"null", b"{}"]), NUMBER, NUMBER, NUMBER),
)  # fmt: skip
IN_LISTS = st.lists(IN_JSON, max_size=3).map(lambda jobs: b'{"jobs":[%b]}' % b",".join(jobs))
IN_LENGTHS = st.builds(
    lambda func, name, body, more: str8(func[:255]) + str8(name[:255]) + struct.pack(">I", len(body)) + body + more,
    TEXT, TEXT, TEXT, st.binary(max_size=20),
)  # fmt: skip
MANY = st.builds(
    lambda count, jobs: struct.pack(">q", count) + b"".join(jobs),
    st.sampled_from([0, 1, 2, -1, 1 << 62]),
    st.lists(IN_LENGTHS, max_size=3),
)
ARGS = st.binary(max_size=40) | IN_FIELDS | IN_JSON | IN_LISTS | IN_LENGTHS | MANY | TEXT
IDS = st.sampled_from([b"abcd", b"\0\0\0\1", b"7", b"6c84fb90-12c4-11e1-840d-7b25c5ee775a"])
SAID = st.tuples(
    st.integers(0, 5),
    IDS | st.binary(max_size=5),
    st.integers(0, 36) | st.integers(0, 255),
    ARGS,
    st.booleans(),
)


@given(st.lists(SAID, max_size=25), st.sampled_from(["auto", "doc", "text", "bin"]))
def test_nothing_that_is_said_in_any_dialect_raises(
    script: list[tuple[int, bytes, int, bytes, bool]], dialect: str
) -> None:
    world = World(dialect=dialect)
    peers = [world.connect(kind) for kind in (CRC, CRC, DOC, DOC, BIN, BIN)]
    for number, peer in enumerate(peers):
        peer.send(peer.framed(bytes([1 + number % 2])))
        peer.send(peer.message(p.CAN_DO, peer.func("n"), b"init"))
    for number, msgid, command, args, in_time in script:
        peers[number].send(peers[number].message(command, args, msgid))
        if in_time:
            world.pass_time(1_000, step=500)
    for peer in peers:
        peer.hang_up()
    world.pass_time(3_000, step=1_000)
    assert world.engine.unhandled == 0
    assert world.peer().word(p.PING) == p.PONG
