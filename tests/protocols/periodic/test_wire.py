"""Frames: whole, byte by byte, with others behind them; and what is none."""

import struct

import pytest

from franca.core.errors import WireError
from franca.protocols.periodic import wire
from franca.protocols.periodic.messages import Message, Opening
from tests.support.periodic import CRC, framed

MAX = 1 << 20
CRC_CLIENT = bytes.fromhex("00524551 00000001 A505DF1B 01")
CRC_WORKER = bytes.fromhex("00524551 00000001 3C0C8EA1 02")
PLAIN_CLIENT = bytes.fromhex("00524551 00000001 01")
PLAIN_WORKER = bytes.fromhex("00524551 00000001 02")


def named(kind: int, name: bytes, token: bytes) -> bytes:
    lengths = (struct.pack(">q", len(word)) + word for word in (name, token))
    return framed(CRC, bytes([kind]) + b"".join(lengths))


OPENINGS = [
    ("today's client", CRC_CLIENT, Opening(1, True, 13)),
    ("today's worker", CRC_WORKER, Opening(2, True, 13)),
    ("a client with a name", named(3, b"anna", b"t"), Opening(3, True, 34, b"anna", b"t")),
    ("a worker with a name", named(4, b"b", b"secret"), Opening(4, True, 36, b"b", b"secret")),
    ("neither name nor token", named(3, b"", b""), Opening(3, True, 29)),
    ("an old client", PLAIN_CLIENT, Opening(1, False, 9)),
    ("an old worker", PLAIN_WORKER, Opening(2, False, 9)),
]


@pytest.mark.parametrize(
    ("data", "opening"), [o[1:] for o in OPENINGS], ids=[o[0] for o in OPENINGS]
)
def test_the_first_frame_tells_the_dialect_however_it_is_cut(data: bytes, opening: Opening) -> None:
    for end in range(len(data)):
        assert wire.read_opening(data[:end]) is None, f"{end} bytes"
    assert wire.read_opening(data) == wire.read_opening(data + b"\0REQ and more") == opening


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"GET / HTTP/1.1\r\n", 1),
        (b"POST /", 1),
        (b"\0RES" + CRC_CLIENT[4:], 4),
        (b"\0SP\0\0\x50\0\0", 2),
        (b"\xff\0\0\0\0\0\0\0\x01\x7f", 1),
        (b"\0\0\0\x01\x01", 2),
        (bytes.fromhex("00524551 00000001 A505DF1B 02"), 13),
        (bytes.fromhex("00524551 00000001 A505DF1C 01"), 13),
        (bytes.fromhex("00524551 00000001 03"), 13),
        (bytes.fromhex("00524551 00000000 00000000"), 8),
        (bytes.fromhex("00524551 00000002 00000000 0101"), 8),
        (bytes.fromhex("00524551 00000007 00000004 66 6f6f6f"), 8),
        (bytes.fromhex("00524551 7fffffff 00000000 03"), 8),
        (bytes.fromhex("00524551 00000012 00000000 01"), 13),
    ],
)
def test_what_begins_with_something_else_is_refused_at_once(data: bytes, at: int) -> None:
    data += bytes(16)
    for end in range(at):
        assert wire.read_opening(data[:end]) is None, f"{end} bytes"
    with pytest.raises(WireError):
        wire.read_opening(data[:at])


def test_names_that_do_not_fit_into_their_frame_are_refused() -> None:
    for name_size, token_size in ((100, 1), (-1, 1), (4, 100), (4, -1), (4, 0), (1 << 62, 1)):
        payload = b"\x03" + struct.pack(">q", name_size) + b"anna"
        payload += struct.pack(">q", token_size) + b"t"
        with pytest.raises(WireError):
            wire.read_opening(framed(CRC, payload))


# -- messages -----------------------------------------------------------------------------------

PING = framed(CRC, b"abcd\x09")
SUBMIT = bytes.fromhex(
    "00524551 00000021 0243a5eb 00000001 0d 04 6563686f 02 6e31 00000003 616263 000000006553f100"
    "02 0000000a"
)
SUBMIT_ARGS = bytes.fromhex("04 6563686f 02 6e31 00000003 616263 000000006553f100 02 0000000a")
OLD_SUBMIT = b'\0REQ\0\0\0\x371\0\1\r\0\1{"name":"n1","func":"echo","sched_at":1700000000}'

MESSAGES: list[tuple[type[wire.Frames], bytes, tuple[bytes, int, bytes]]] = [
    (wire.CrcFrames, PING, (b"abcd", 9, b"")),
    (wire.CrcFrames, SUBMIT, (b"\0\0\0\1", 13, SUBMIT_ARGS)),
    (wire.TextFrames, b"\0REQ\0\0\0\x041\0\1\x09", (b"1", 9, b"")),
    (wire.TextFrames, OLD_SUBMIT, (b"1", 13, OLD_SUBMIT[14:])),
    (wire.TextFrames, b"\0REQ\0\0\0\x06a\0\0\1\1x", (b"a\0", wire.NO_COMMAND, b"\1x")),
    (wire.TextFrames, b"\0REQ\x80\0\0\x041\0\1\x09", (b"1", 9, b"")),
    (wire.TextFrames, b"\0REQ\0\0\0\x031\0\1", (b"1", wire.NO_COMMAND, b"")),
    (wire.BinaryFrames, b"\0REQ\0\0\0\x06abcd\x0e!", (b"abcd", 14, b"!")),
    (wire.UndecidedFrames, b"\0REQ\0\0\0\x041\0\1\x09", (b"1", 9, b"")),
    (wire.UndecidedFrames, b"\0REQ\0\0\0\x06abcd\x0e!", (b"abcd", 14, b"!")),
    (wire.UndecidedFrames, b"\0REQ\0\0\0\5\0\0\0\1\x09", (b"\0\0\0\1", 9, b"")),
    (wire.UndecidedFrames, b"\0REQ\0\0\0\5A\0\0\1\x09", (b"A\0\0\1", 9, b"")),
    (wire.UndecidedFrames, b"\0REQ\0\0\0\7\2\3\0\xff\0\1\x09", (b"\2\3\0\xff", 9, b"")),
]


@pytest.mark.parametrize(("kind", "data", "message"), MESSAGES)
def test_a_message_is_the_same_wherever_it_is_cut(
    kind: type[wire.Frames], data: bytes, message: tuple[bytes, int, bytes]
) -> None:
    for end in range(len(data)):
        frames = kind(MAX)
        assert frames.cut(data[:end], 0) is None, f"{end} bytes"
        assert end < frames.need <= len(data), f"{end} bytes"
    frames = kind(MAX)
    assert frames.cut(data, 0) == Message(*message, len(data))
    assert frames.cut(b"front" + data + data, 5) == Message(*message, 5 + len(data))


def test_several_messages_in_one_piece() -> None:
    data, at, found = PING + SUBMIT + PING, 0, []
    while (message := wire.CrcFrames(MAX).cut(data, at)) is not None:
        found.append((message.id, message.command))
        at = message.end
    assert found == [(b"abcd", 9), (b"\0\0\0\1", 13), (b"abcd", 9)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (wire.CrcFrames, b"\0REX"),
        (wire.CrcFrames, b"REQ"),
        (wire.CrcFrames, b"\0RES" + PING[4:]),
        (wire.CrcFrames, PING[:-1] + b"\x0a"),
        (wire.CrcFrames, PING[:8] + b"\0\0\0\0" + PING[12:]),
        (wire.CrcFrames, framed(CRC, b"abcd")),
        (wire.CrcFrames, b"\0REQ\0\0\0\0\0\0\0\0"),
        (wire.CrcFrames, b"\0REQ" + struct.pack(">II", MAX + 1, 0)),
        (wire.TextFrames, b"\0RE\0"),
        (wire.TextFrames, b"\0REQ" + struct.pack(">I", MAX + 1)),
        (wire.TextFrames, b"\0REQ\0\0\0\x03abc"),
        (wire.TextFrames, b"\0REQ\0\0\0\x64" + b"a" * 96 + b"\0\1\x09\0"),
        (wire.BinaryFrames, b"\0REQ\0\0\0\x04abcd"),
        (wire.UndecidedFrames, b"\0REQ\0\0\0\x04abcd"),
    ],
)
def test_what_is_no_frame_is_an_error(kind: type[wire.Frames], data: bytes) -> None:
    with pytest.raises(WireError):
        kind(MAX).cut(data, 0)


@pytest.mark.parametrize(
    "kind", [wire.CrcFrames, wire.TextFrames, wire.BinaryFrames, wire.UndecidedFrames]
)
@pytest.mark.parametrize("data", [b"\0RE\xc2\0\0\0\xc2\x80", b"\x0001\x07\0\1f", b"\0\0", b"G"])
def test_what_is_no_frame_is_refused_at_the_same_byte(kind: type[wire.Frames], data: bytes) -> None:
    wrong = next(at for at in range(len(data)) if data[at] != b"\0REQ"[at]) + 1
    for end in range(wrong):
        frames = kind(MAX)
        assert (frames.cut(data[:end], 0), frames.need) == (None, end + 1)
    for end in range(wrong, len(data) + 1):
        with pytest.raises(WireError):
            kind(MAX).cut(data[:end], 0)


def test_the_size_is_judged_before_the_rest_is_there() -> None:
    with pytest.raises(WireError):
        wire.CrcFrames(10).cut(b"\0REQ\0\0\0\x0b\0\0\0\0", 0)
    assert wire.CrcFrames(11).cut(b"\0REQ\0\0\0\x0b\0\0\0\0", 0) is None


# -- the old client that writes its sizes as text ---------------------------------------------------


def mangled(payload: bytes) -> bytes:
    """A frame as that client makes it."""
    size = "".join(chr(byte) for byte in struct.pack(">I", len(payload)))
    return b"\0REQ" + size.encode() + payload


@pytest.mark.parametrize("size", [127, 128, 129, 191, 192, 255, 256, 383, 384, 511, 32_896, 65_500])
@pytest.mark.parametrize("kind", [wire.TextFrames, wire.UndecidedFrames])
def test_a_size_written_as_text_is_understood(kind: type[wire.Frames], size: int) -> None:
    head = b"12\0\1\r\0\1"
    data = mangled(head + b"x" * (size - len(head)))
    message = (b"12", 13, b"x" * (size - len(head)))
    assert kind(MAX).cut(data, 0) == Message(*message, len(data))
    for end in range(min(len(data), 300)):
        frames = kind(MAX)
        assert frames.cut(data[:end], 0) is None, f"{end} bytes"
        assert end < frames.need <= len(data), f"{end} bytes"


@pytest.mark.parametrize("size", [194, 195, 0xC280, 0xC3BF])
def test_a_size_that_only_looks_like_it_is_taken_as_it_is(size: int) -> None:
    msgid = b"\x80\x81" + b"9" * 14
    payload = msgid + b"\0\1\r\0\1"
    payload += b"x" * (size - len(payload))
    data = b"\0REQ" + struct.pack(">I", size) + payload
    message = wire.TextFrames(MAX).cut(data, 0)
    assert message is not None
    assert (message.id, message.command, message.end) == (msgid, 13, len(data))


@pytest.mark.parametrize("frames", [wire.TextFrames, wire.BinaryFrames, wire.UndecidedFrames])
@pytest.mark.parametrize(
    "payload",
    [
        b"17\0\1\x0d\0\1f\0\1n\0\1",
        b"1" * 64 + b"\0\1\x0d\0\1",
        b"abcd\x0d\1f\0\1n",
        b"17\0\1no command",
        b"\xc2\x80\x80\0\1\x0d\0\1",
    ],
)
@pytest.mark.parametrize("extra", [0, 100, 5_000, 0xC280 - 20])
def test_a_large_message_is_cut_as_a_small_one_is(
    frames: type[wire.PlainFrames], payload: bytes, extra: int
) -> None:
    payload += b"w" * extra
    data = b"\0REQ" + len(payload).to_bytes(4) + payload + b"\0REQ"
    assert frames(1 << 20).cut(memoryview(data), 0) == frames(1 << 20).cut(data, 0)
