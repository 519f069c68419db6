"""The transport's bytes: greeting, frames, commands, and what is refused before it is gathered."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.errors import WireError
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.zmtp import Command, FrameReader, Message, Signature, Truncated
from tests.protocols.eventmq.puppet import written

MAX = 1 << 20


def cut(frames: FrameReader, data: bytes, step: int = 1 << 30) -> list[Message]:
    """The messages in these bytes, which come in pieces of that size."""
    found: list[Message] = []
    for at in range(0, len(data), step):
        frames.feed(data[at : at + step])
        found += iter(frames.next_message, None)
    return found


@pytest.fixture
def frames() -> FrameReader:
    return FrameReader(MAX)


# -- golden bytes --------------------------------------------------------------------------------


def test_the_greeting_is_the_one_of_the_specification() -> None:
    signature = "ff 0000000000000000 7f 03 01".replace(" ", "")
    assert zmtp.GREETING.hex() == signature + b"NULL".hex() + "00" * 16 + "00" + "00" * 31


def test_ready_names_the_socket_and_its_identity() -> None:
    assert zmtp.ready(b"ROUTER", b"me") == (
        b"\x04\x2b\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x02me"
    )


def test_short_and_long_frames() -> None:
    assert written([b"", b"a", b"bc"]) == b"\x01\x00\x01\x01a\x00\x02bc"
    assert zmtp.more(b"x" * 255)[:2] == b"\x01\xff"
    assert zmtp.more(b"x" * 256)[:9] == b"\x03\x00\x00\x00\x00\x00\x00\x01\x00"
    assert zmtp.last(b"x" * 256)[:9] == b"\x02\x00\x00\x00\x00\x00\x00\x01\x00"
    assert zmtp.command(b"C", b"x" * 300)[:9] == b"\x06\x00\x00\x00\x00\x00\x00\x01\x2e"


def test_a_pong_brings_the_context_back() -> None:
    assert zmtp.pong(b"\x00\x0acontext") == b"\x04\x0c\x04PONGcontext"


# -- frames ----------------------------------------------------------------------------------------


MESSAGES = [
    [b""],
    [b"", b"eMQP/1.0", b"READY", b"id"],
    [b"a" * 255, b"b" * 256, b"c" * 70_000, b""],
    [b"\x00\x01\x02\x03\xff" * 10],
]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 256, 65_536])
def test_bytes_in_pieces_of_any_size_are_the_same_messages(step: int) -> None:
    data = b"".join(map(written, MESSAGES))
    frames = FrameReader(MAX)
    assert (cut(frames, data, step), len(frames)) == (MESSAGES, 0)


def test_a_message_split_at_every_offset_is_one_message() -> None:
    message = [b"", b"eMQP/1.0", b"x" * 300, b"end"]
    data = written(message)
    for at in range(len(data) + 1):
        frames = FrameReader(MAX)
        assert cut(frames, data[:at]) + cut(frames, data[at:]) == [message]


@given(
    st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=5), max_size=5),
    st.lists(st.integers(1, 400), max_size=20),
)
def test_whatever_is_written_is_read(messages: list[list[bytes]], cuts: list[int]) -> None:
    data = b"".join(map(written, messages))
    frames = FrameReader(MAX)
    found: list[Message] = []
    for size in cuts:
        found += cut(frames, data[:size])
        data = data[size:]
    assert found + cut(frames, data) == messages


def test_commands_come_apart_from_messages_even_between_frames(frames: FrameReader) -> None:
    data = zmtp.more(b"a") + zmtp.command(b"PING", b"\0\0") + zmtp.last(b"b")
    assert cut(frames, data) == [Command(b"\x04PING\0\0"), [b"a", b"b"]]


def test_what_waits_is_counted_with_the_frames_that_came_before_it(frames: FrameReader) -> None:
    assert (cut(frames, zmtp.more(b"12345") + b"\x00"), len(frames)) == ([], 6)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x02" + (zmtp.SKIPPED_BYTES_MAX + 1).to_bytes(8, "big"), "frame-too-large"),
        (b"\x02" + b"\xff" * 8, "frame-too-large"),
        (b"\x06" + (zmtp.COMMAND_BYTES_MAX + 1).to_bytes(8, "big"), "frame-too-large"),
        (b"\x08\x00", "bad-flags"),
        (b"\xff" * 9, "bad-flags"),
        (b"\x05\x00", "bad-flags"),
    ],
)
def test_bad_frames_are_refused_at_their_heads(frames: FrameReader, data: bytes, code: str) -> None:
    with pytest.raises(WireError) as refusal:
        cut(frames, data)
    assert refusal.value.code == code


def test_a_message_of_many_frames_is_not_gathered_for_ever(frames: FrameReader) -> None:
    with pytest.raises(WireError) as refusal:
        for _ in range(zmtp.FRAMES_MAX + 1):
            cut(frames, zmtp.more(b"x"))
    assert refusal.value.code == "message-too-large"


def test_many_frames_together_may_be_no_larger_than_one() -> None:
    frames = FrameReader(1_000)
    cut(frames, zmtp.more(b"x" * 600))
    assert cut(frames, zmtp.more(b"y" * 401)[:10]) == []
    assert len(frames) <= 611
    truncated = Truncated([b"x" * 600, b"", b"z" * 400], {1: 401})
    assert cut(frames, b"y" * 400 + zmtp.last(b"z" * 400)) == [truncated]


@pytest.mark.parametrize("size", [36, 255, 256, 50_000, 100_000])
def test_what_is_heard_at_the_limit_is_the_same_however_the_bytes_are_cut(size: int) -> None:
    """A short frame behind those that make just as much as may be is taken, a long one left out."""
    most = 200_000
    large, end = b"x" * (most - 5), b"y" * size
    data = written([b"REPLY", large, end]) + written([b"next"])
    taken = [b"REPLY", large, end] if size <= 255 else Truncated([b"REPLY", large, b""], {2: size})
    behind = len(data) - size
    for cuts in ([], [10], [9 + most], [behind], [behind - 8], [len(data) - 10], [20, behind]):
        frames = FrameReader(most)
        found: list[Message] = []
        for begin, stop in pairwise([0, *cuts, len(data)]):
            found += cut(frames, data[begin:stop])
        assert found == [taken, [b"next"]]


def test_a_large_frame_in_small_pieces_costs_no_more_than_its_size() -> None:
    frames = FrameReader(1 << 24)
    body = b"x" * (1 << 23)
    data = written([body])
    assert cut(frames, data, 1_000) == [[body]]  # minutes if each piece copied the rest


@pytest.mark.parametrize("step", [1, 100, 1_000, 1 << 20])
@pytest.mark.parametrize("more", [True, False])
def test_a_frame_too_large_is_left_out_and_what_follows_is_read(step: int, more: bool) -> None:
    frames = FrameReader(1_000)
    large = zmtp.more(b"x" * 1_001) if more else zmtp.last(b"x" * 1_001)
    data = zmtp.more(b"a") + large + (zmtp.last(b"b") if more else b"") + written([b"next"])
    found: list[Message] = []
    for at in range(0, len(data), step):
        found += cut(frames, data[at : at + step])
        assert len(frames) <= step + 10
    left = [b"a", b"", b"b"] if more else [b"a", b""]
    assert found == [Truncated(left, {1: 1_001}), [b"next"]]


def test_a_frame_that_makes_its_message_too_large_is_left_out_too() -> None:
    frames = FrameReader(100_000)
    frame = b"x" * 70_000
    data = written([frame, frame, b"end"])
    assert cut(frames, data, 10_000) == [Truncated([frame, b"", b"end"], {1: 70_000})]


def test_nothing_of_a_message_is_kept_once_it_was_read(frames: FrameReader) -> None:
    assert (cut(frames, written([b"x" * 200_000])), frames._data) == ([[b"x" * 200_000]], b"")


# -- the greeting ------------------------------------------------------------------------------------


def test_a_greeting_is_read_in_pieces_and_what_follows_it_is_kept() -> None:
    reader = FrameReader(MAX, greeted=False)
    data = zmtp.GREETING + written([b"rest"])
    for at in range(9):
        assert cut(reader, data[at : at + 1]) == []
    assert (cut(reader, data[9:10]), cut(reader, data[10:40])) == ([Signature()], [])
    assert cut(reader, data[40:]) == [[b"rest"]]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x00",
        b"\xff" + bytes(8) + b"\x7e",
        b"\xff" + bytes(8) + b"\x7f\x01",
        b"\xff" + bytes(8) + b"\x7f\x02",
        zmtp.GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32),
        zmtp.GREETING[:12] + b"PLAIN".ljust(20, b"\0") + bytes(32),
    ],
)
def test_other_greetings_are_refused_as_soon_as_that_is_plain(data: bytes) -> None:
    with pytest.raises(WireError):
        cut(FrameReader(MAX, greeted=False), data)


# -- commands ------------------------------------------------------------------------------------------


def test_properties_are_found_whatever_the_case_of_their_names() -> None:
    data = b"\x0bSOCKET-type\x00\x00\x00\x03REQ\x08Identity\x00\x00\x00\x00\x01X\x00\x00\x00\x01y"
    assert zmtp.read_properties(data) == {b"socket-type": b"REQ", b"identity": b"", b"x": b"y"}


@pytest.mark.parametrize(
    "data", [b"\x05a", b"\x01a\x00\x00\x00\x05xy", b"\x01a\xff\xff\xff\xff", b"\x01a\x00\x00"]
)
def test_a_property_longer_than_its_command_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        zmtp.read_properties(data)


@pytest.mark.parametrize("body", [b"", b"\x05REA"])
def test_a_command_without_a_name_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        zmtp.split_command(body)
