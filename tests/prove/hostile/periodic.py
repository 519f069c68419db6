"""Periodic: a frame that is none is the end of the connection; a command that makes no sense is answered, or ignored.

Behind every case of a known client comes a PING, which must be answered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from zlib import crc32

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, FRAME_BYTES, Case, Heavy, Silence
from tests.prove.hostile.raw import Probe, Raw, Silent, shuffled, without_end
from tests.prove.hostile.strangers import FIRST_WORDS, foreign, web_pages
from tests.support import periodic as p
from tests.support.periodic import packed, str8

_COMMANDS = range(40)
_FUNCTIONS = 1_000


def _frame(payload: bytes) -> bytes:
    return b"\0REQ" + struct.pack(">II", len(payload), crc32(payload)) + payload


def _say(command: int, args: bytes = b"", msgid: bytes = b"case") -> bytes:
    return _frame(msgid + bytes([command]) + args)


_CLIENT, _WORKER = _frame(b"\x01"), _frame(b"\x02")
_PING = _say(p.PING, msgid=b"last")
_PONG_BODY = b"last" + bytes([p.PONG])
_PONG = b"\0RES" + struct.pack(">II", len(_PONG_BODY), crc32(_PONG_BODY)) + _PONG_BODY
_PROBE = Probe(_WORKER, _PING, _PONG)
_SMUGGLED = _CLIENT + _say(p.SUBMIT_JOB, packed("smuggled", "job", b""))
_JOB = packed("hostile", "job", b"abc", at=1, count=2, timeout=3)


# -- small ones --------------------------------------------------------------------------------


def cases(seed: int) -> list[Case]:
    """All of them, in an order of chance."""
    rng = Random(seed)
    return shuffled(
        rng,
        web_pages(_SMUGGLED), foreign(_SMUGGLED, ("tls", CLOSED), *((n, CLOSED) for n in FIRST_WORDS)),
        _openings(), _frames(), _arguments(rng), _names(), _garbage(rng),
    )  # fmt: skip


def _openings() -> Iterator[Case]:
    for payload in (b"\x00", b"\x05", b"\xff", b"\x01\x01", b"", b"\x03", b"\x04" + b"\0" * 16):
        outcome = EITHER if payload[:1] in (b"\x03", b"\x04") else CLOSED
        if payload:
            yield Case(
                f"registration {payload!r}", _frame(payload) + _SMUGGLED, outcome, known=False
            )
    for size in (0, 2, 1 << 16, FRAME_BYTES, 1 << 30, (1 << 31) - 1, (1 << 32) - 1):
        head = b"\0REQ" + struct.pack(">I", size)
        yield Case(f"first frame of {size}", head + b"\x01" * 40, CLOSED, known=False)
    for length in ((1 << 63) - 1, -1, 1 << 40, 2_000):
        payload = b"\x03" + struct.pack(">q", length) + b"x" * 30
        yield Case(f"a name of {length}", _frame(payload), EITHER, known=False)


def _frames() -> Iterator[Case]:
    """Behind a good registration, so that the server's answer to it comes first."""
    good = _say(p.PING)
    for name, data in {
        "wrong CRC": good[:8] + b"\0\0\0\0" + good[12:], "RES": good.replace(b"REQ", b"RES"), "junk": b"junk" * 10,
        "no payload": b"\0REQ" + struct.pack(">II", 0, 0), "an id alone": _frame(b"abcd"), "half an id": _frame(b"ab"),
    }.items():  # fmt: skip
        yield Case(name, data + _SMUGGLED, CLOSED)
    for size in (FRAME_BYTES + 1, 1 << 30, (1 << 31) - 1):
        yield Case(f"frame of {size}", b"\0REQ" + struct.pack(">II", size, 0) + b"x" * 50, CLOSED)


def _arguments(rng: Random) -> Iterator[Case]:
    for command in _COMMANDS:
        if command == p.SHUTDOWN:
            continue
        for length in (0, 1, 2, 5, 8, 16, 40, 2_000):
            kinds = (bytes(length), b"\xff" * length, rng.randbytes(length), _JOB[:length])
            for number, args in enumerate(kinds):
                yield Case(
                    f"command {command}, {length} bytes {number}", _say(command, args), ANSWERED
                )


def _names() -> Iterator[Case]:
    for func, name in (
        (b"", b"n"),
        (b"hostile", b""),
        (b"\xff\xfe", b"\xff"),
        (b"a,b\nc", b"d\n"),
        (b"x" * 255, b"y" * 255),
    ):
        job = str8(func) + str8(name) + struct.pack(">I", 3) + b"abc" + struct.pack(">qB", 0, 0)
        for command in (p.SUBMIT_JOB, p.RUN_JOB, p.REMOVE_JOB, p.RECV_DATA):
            yield Case(f"{command} of {func[:9]!r} {name[:9]!r}", _say(command, job), ANSWERED)
    for at, version, numbers in (
        ((1 << 63) - 1, 0, b""), (-(1 << 63), 0, b""), (0, 3, b"\x7f\xff\xff\xff" * 2), (0, 3, b"\x80\0\0\0" * 2), (0, 4, b""), (0, 255, b"\0" * 8), (0, 1, b"\0"),
    ):  # fmt: skip
        job = (
            str8("hostile")
            + str8("n")
            + struct.pack(">I", 0)
            + struct.pack(">qB", at, version)
            + numbers
        )
        yield Case(f"job at {at}, version {version}", _say(p.SUBMIT_JOB, job), ANSWERED)
    for size in (4, 1 << 16, (1 << 31) - 1, (1 << 32) - 1):
        job = str8("hostile") + str8("n") + struct.pack(">I", size) + b"abc"
        yield Case(f"a workload of {size}", _say(p.SUBMIT_JOB, job), ANSWERED)
    for count in (-1, 1 << 40, (1 << 63) - 1):
        yield Case(f"a load of {count}", _say(p.LOAD, struct.pack(">q", count) + _JOB), ANSWERED)


def _garbage(rng: Random) -> Iterator[Case]:
    for number in range(40):
        yield Case(
            f"stranger's garbage {number}",
            rng.randbytes(rng.choice((9, 40, 3_000))),
            CLOSED,
            known=False,
        )
    for number in range(60):
        payload = rng.randbytes(rng.choice((5, 9, 40, 1_000)))
        outcome = EITHER if payload[4] == p.SHUTDOWN else ANSWERED
        if payload[4] != p.SHUTDOWN:
            yield Case(f"a frame of garbage {number}", _frame(payload), outcome)


def play(port: int, case: Case) -> str:
    """Send the case, registered or not, and a PING behind it."""
    return _PROBE.play(port, case, _unreadable)


def _unreadable(heard: bytearray) -> str:
    """Whether what was heard is anything but whole frames."""
    at = 0
    while at < len(heard):
        magic, size, crc = struct.unpack_from(">4sII", heard, at)
        payload = bytes(heard[at + 12 : at + 12 + size])
        if magic != b"\0RES" or crc32(payload) != crc:
            return f"no frame: {bytes(heard[at : at + 40])!r}"
        at += 12 + size
    return ""


# -- silence -----------------------------------------------------------------------------------


def silences(port: int) -> list[Silence]:
    """Strangers and peers that stop in the middle."""
    return [
        Silent(port, "nothing", b""),
        Silent(port, "half a registration", _CLIENT[:-1]),
        Silent(port, "half a frame", _CLIENT + _say(p.SUBMIT_JOB, _JOB)[:-1]),
        Silent(port, "half a header", _CLIENT + b"\0RE"),
        Silent(port, "a frame and a half", _WORKER + _say(p.PING) + b"\0REQ\0\0"),
    ]


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest frames; in a short run the most telling."""
    funcs = b"".join(_say(p.CAN_DO, str8(f"hostile-{n}")) for n in range(_FUNCTIONS))
    grabs = b"".join(_say(p.GRAB_JOB, msgid=struct.pack(">I", n)) for n in range(5_000))
    yield Heavy("1,000 functions and 5,000 grabs", funcs + grabs)
    yield Heavy(
        "20,000 jobs",
        b"".join(_say(p.SUBMIT_JOB, packed("hostile", f"{n}")) for n in range(20_000)),
    )
    yield Heavy("a dump, a hundred times", _say(p.DUMP), 100)
    yield Heavy(
        "a frame too large",
        b"\0REQ" + struct.pack(">II", FRAME_BYTES + 1, 0) + b"x" * FRAME_BYTES,
        closes=True,
    )
    if short:
        return
    many = b"".join(packed("hostile", f"load-{n}") for n in range(100_000))
    yield Heavy("a load of 100,000", _say(p.LOAD, struct.pack(">q", 100_000) + many))
    yield Heavy("100,000 pings", _say(p.PING), 100_000)
    yield Heavy("one job, 20,000 times", _say(p.SUBMIT_JOB, _JOB), 20_000)
    yield Heavy("1,000 functions and 2,000 lists of them", funcs + _say(p.STATUS) * 2_000)
    yield Heavy(
        "20,000 streams",
        b"".join(_say(p.RECV_DATA, packed("hostile", f"{n}")) for n in range(20_000)),
    )
    yield Heavy(
        "large jobs",
        _say(p.SUBMIT_JOB, packed("hostile", "large", b"x" * (FRAME_BYTES // 2 - 100))),
        4,
    )
    yield Heavy("50,000 unknown words", _say(99, b"x" * 50), 50_000)


def play_heavy(port: int, heavy: Heavy) -> str:
    """Send it as a worker, and a PING at its end."""
    return _PROBE.play_heavy(port, heavy)


def endless(port: int, *, known: bool) -> Raw:
    """A registration, or a frame, of the greatest size, and more behind it."""
    if not known:
        return without_end(port, [b"\0REQ" + struct.pack(">I", 2_000)])
    return without_end(port, [_WORKER, b"\0REQ" + struct.pack(">II", FRAME_BYTES - 100, 0)])
