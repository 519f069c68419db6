"""Periodic: a frame that is none is the end of the connection; a command that makes no sense is answered, or ignored.

Behind every case of a known client comes a PING, which must be answered.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import product
from random import Random
from zlib import crc32

from tests.prove import hostile as h
from tests.prove.hostile import FRAME_BYTES, Case, Heavy, Probe, each, foreign, noise, web_pages
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
PROBE = Probe(
    _WORKER, _PING, _PONG, p.said, small=_say(p.PING),
    large=lambda body: _say(p.SUBMIT_JOB, packed("q", "n", body)),
    harm=b"timeout|keepalive|" + re.escape(bytes([p.CONFIG_SET])),
)  # fmt: skip
_SMUGGLED = _CLIENT + _say(p.SUBMIT_JOB, packed("smuggled", "job", b""))
_JOB = packed("hostile", "job", b"abc", at=1, count=2, timeout=3)
SILENCES = {
    "nothing": b"", "half a registration": _CLIENT[:-1], "half a header": _CLIENT + b"\0RE",
    "half a frame": _CLIENT + _say(p.SUBMIT_JOB, _JOB)[:-1],
    "a frame and a half": _WORKER + _say(p.PING) + b"\0REQ\0\0",
}  # fmt: skip
_LARGEST = struct.pack(">4sII", b"\0REQ", FRAME_BYTES - 100, 0)
ENDLESS = (b"\0REQ" + struct.pack(">I", 2_000), _WORKER + _LARGEST)


_OPEN_SIZES = (0, 2, 1 << 16, FRAME_BYTES, 1 << 30, (1 << 31) - 1, (1 << 32) - 1)
_LENGTHS = ((1 << 63) - 1, -1, 1 << 40, 2_000)
_NAMES = (
    (b"", b"n"), (b"hostile", b""), (b"\xff\xfe", b"\xff"), (b"a,b\nc", b"d\n"), (b"x" * 255, b"y" * 255),
)  # fmt: skip
_SCHEDULES = (
    ((1 << 63) - 1, 0, b""), (-(1 << 63), 0, b""), (0, 3, b"\x7f\xff\xff\xff" * 2), (0, 3, b"\x80\0\0\0" * 2), (0, 4, b""), (0, 255, b"\0" * 8), (0, 1, b"\0"),
)  # fmt: skip
_GOOD = _say(p.PING)
_FRAMES = {
    "wrong CRC": _GOOD[:8] + b"\0\0\0\0" + _GOOD[12:], "RES": _GOOD.replace(b"REQ", b"RES"), "junk": b"junk" * 10,
    "no payload": b"\0REQ" + struct.pack(">II", 0, 0), "an id alone": _frame(b"abcd"), "half an id": _frame(b"ab"),
}  # fmt: skip


def _declared(size: int) -> bytes:
    return b"\0REQ" + struct.pack(">II", size, 0)


# -- small ones --------------------------------------------------------------------------------


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from foreign(_SMUGGLED)
    openings = [_frame(payload) + _SMUGGLED for payload in (b"\x00", b"\x05", b"\xff", b"\x01\x01")]
    openings += [b"\0REQ" + struct.pack(">I", size) + b"\x01" * 40 for size in _OPEN_SIZES]
    yield from each(h.CLOSED, openings, known=False)
    others = [_frame(payload) + _SMUGGLED for payload in (b"\x03", b"\x04" + b"\0" * 16)]
    others += [_frame(b"\x03" + struct.pack(">q", length) + b"x" * 30) for length in _LENGTHS]
    yield from each(h.EITHER, others, known=False)
    # Behind a good registration, so that the server's answer to it comes first.
    yield from each(h.CLOSED, {name: data + _SMUGGLED for name, data in _FRAMES.items()})
    too_large = (FRAME_BYTES + 1, 1 << 30, (1 << 31) - 1)
    yield from each(h.CLOSED, (_declared(size) + b"x" * 50 for size in too_large))
    yield from each(h.ANSWERED, _arguments(rng))
    garbage = (noise(rng, 9, 40, 3_000) for _ in range(40))
    yield from each(h.CLOSED, garbage, known=False)
    payloads = [noise(rng, 5, 9, 40, 1_000) for _ in range(60)]
    yield from each(h.ANSWERED, (_frame(one) for one in payloads if one[4] != p.SHUTDOWN))


def _arguments(rng: Random) -> Iterator[bytes]:
    for command, length in product(_COMMANDS, (0, 1, 2, 5, 8, 16, 40, 2_000)):
        if command != p.SHUTDOWN:
            for args in (bytes(length), b"\xff" * length, rng.randbytes(length), _JOB[:length]):
                yield _say(command, args)
    for func, name in _NAMES:
        job = str8(func) + str8(name) + struct.pack(">I", 3) + b"abc" + struct.pack(">qB", 0, 0)
        for command in (p.SUBMIT_JOB, p.RUN_JOB, p.REMOVE_JOB, p.RECV_DATA):
            yield _say(command, job)
    handle = str8("hostile") + str8("n")
    for at, version, numbers in _SCHEDULES:
        yield _say(p.SUBMIT_JOB, handle + struct.pack(">IqB", 0, at, version) + numbers)
    for size in (4, 1 << 16, (1 << 31) - 1, (1 << 32) - 1):
        yield _say(p.SUBMIT_JOB, handle + struct.pack(">I", size) + b"abc")
    for count in (-1, 1 << 40, (1 << 63) - 1):
        yield _say(p.LOAD, struct.pack(">q", count) + _JOB)


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest frames; in a short run the most telling."""
    funcs = b"".join(_say(p.CAN_DO, str8(f"hostile-{n}")) for n in range(_FUNCTIONS))
    grabs = b"".join(_say(p.GRAB_JOB, msgid=struct.pack(">I", n)) for n in range(5_000))
    yield Heavy("1,000 functions and 5,000 grabs", funcs + grabs)
    jobs = b"".join(_say(p.SUBMIT_JOB, packed("hostile", f"{n}")) for n in range(20_000))
    yield Heavy("20,000 jobs", jobs)
    yield Heavy("a dump, a hundred times", _say(p.DUMP), 100)
    too_large = _declared(FRAME_BYTES + 1) + b"x" * FRAME_BYTES
    yield Heavy("a frame too large", too_large, closes=True)
    if short:
        return
    many = b"".join(packed("hostile", f"load-{n}") for n in range(100_000))
    yield Heavy("a load of 100,000", _say(p.LOAD, struct.pack(">q", 100_000) + many))
    yield Heavy("100,000 pings", _say(p.PING), 100_000)
    yield Heavy("one job, 20,000 times", _say(p.SUBMIT_JOB, _JOB), 20_000)
    yield Heavy("1,000 functions and 2,000 lists of them", funcs + _say(p.STATUS) * 2_000)
    streams = b"".join(_say(p.RECV_DATA, packed("hostile", f"{n}")) for n in range(20_000))
    yield Heavy("20,000 streams", streams)
    large = packed("hostile", "large", b"x" * (FRAME_BYTES // 2 - 100))
    yield Heavy("large jobs", _say(p.SUBMIT_JOB, large), 4)
    yield Heavy("50,000 unknown words", _say(99, b"x" * 50), 50_000)
