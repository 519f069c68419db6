"""MemoDB: what is no frame of SP is hung up on; what is no message is not answered, and what comes behind it is.

Behind every case comes a HEARTBEAT of a worker that nobody knows, whose answer is DISCONNECT.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from random import Random

from tests.prove import hostile as h
from tests.prove.hostile import FRAME_BYTES, Case, Heavy, Probe, each, foreign, noise, web_pages
from tests.support import memodb as m
from tests.support.memodb import HELLO, heartbeat, job, ready, result

_LARGEST = FRAME_BYTES // 2
"""As large as a job may be while this lasts."""


def _frame(body: bytes) -> bytes:
    return struct.pack(">Q", len(body)) + body


def _ask(message: bytes, number: int = 1) -> bytes:
    return _frame(struct.pack(">I", number | 1 << 31) + message)


_LAST = _ask(heartbeat(b"nobody"), 0x7FFFFFFF)
_ANSWER = _frame(struct.pack(">I", 0xFFFFFFFF) + m._header(m.DISCONNECT, b"nobody"))
PROBE = Probe(
    HELLO, _LAST, _ANSWER, m.said, small=_ask(heartbeat(b"nobody")),
    large=lambda body: _ask(job("q", body, 100)),
)  # fmt: skip
SILENCES = {
    "nothing": b"", "half a hello": HELLO[:5], "half a length": HELLO + b"\0\0",
    "half a message": HELLO + _ask(job("hostile"))[:-1], "a message and a half": HELLO + _LAST + _LAST[:9],
}  # fmt: skip
ENDLESS = (b"", HELLO + struct.pack(">QI", _LARGEST, 1 | 1 << 31) + job("hostile"))
_SMUGGLED = HELLO + _ask(job("smuggled"))


# -- small ones --------------------------------------------------------------------------------


_KINDS = (0x00, 0x10, 0x20, 0x21, 0x31, 0x50, 0x62, 0x70, 0xFF)
_HELLOS = (
    b"\0SP\x01\0\x30\0\0", b"\0SP\0\0\x30\0\x01", b"\0SPx\0\x30\0\0", b"\1SP\0\0\x30\0\0", bytes(8),
)  # fmt: skip
_SIZES = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, 1 << 32, FRAME_BYTES + (1 << 20))
_SHAPES = {
    "deep": b"\x81" * 10_000, "deep maps": b"\xa1\x00" * 5_000, "endless": b"\x9f" + b"\x01" * 5_000, "endless text": b"\x7f" + b"\x61a" * 5_000,
    "tags": b"\xc0" * 5_000, "a list of 2^32": b"\x9a\xff\xff\xff\xff", "a list of 2^64": b"\x9b" + b"\xff" * 8, "bytes of 2^60": b"\x5b" + b"\x10" + b"\0" * 7,
    "regex": b"\xd8\x23\x63.*+", "bignum": b"\xc2\x59\x10\x00" + b"\xff" * 4096, "nothing": b"", "break": b"\xff",
    "a service of all": ready(*(f"s{n}" for n in range(2_000))), "services said twice": ready("a", "a", ""),
}  # fmt: skip
_ODD: tuple[object, ...] = (
    0, 1, 23, 24, 255, 1 << 16, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, b"", b"x", b"x" * 2_000, "", "x", "ü" * 700, "x" * 5_000, True, False, [], [1], ["a"], [[["a"]]],
)  # fmt: skip


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from foreign(_SMUGGLED)
    hellos = [*(b"\0SP\0\0" + bytes([kind, 0, 0]) for kind in _KINDS), *_HELLOS]
    yield from each(h.CLOSED, (hello + _SMUGGLED for hello in hellos), known=False)
    yield from each(h.CLOSED, (struct.pack(">Q", size) + b"x" * 100 for size in _SIZES))
    yield Case(_frame(b"\x80\0\0\1"), h.ANSWERED, name="an id alone")
    yield from each(h.EITHER, (_frame(b"\x80" * size) for size in range(4)))
    for hops in (1, 7, 8, 9, 100, 5_000):
        body = b"\0\0\0\1" * hops
        yield from each(h.EITHER, (_frame(body), _frame(body + b"\x80\0\0\1" + heartbeat(b"x"))))
    yield from each(h.ANSWERED, {name: _ask(message) for name, message in _SHAPES.items()})
    yield from each(h.ANSWERED, map(_ask, _messages()))
    garbage = (b"x" + noise(rng, 8, 30, 3_000) for _ in range(40))
    yield from each(h.CLOSED, garbage, known=False)
    yield from each(h.ANSWERED, (_ask(noise(rng, 1, 9, 300)) for _ in range(60)))


def _messages() -> Iterator[bytes]:
    """CBOR of every kind in place of a header, values of every kind in its fields, and halves."""
    for first in range(256):
        yield from (bytes([first]) + b"\0" * 12, bytes([first]))
    for value, op in product(_ODD, (1, 2, 3, 4, 5)):
        yield from (m._header(op, b"", value), m._header(op, value))
    for value in _ODD:
        yield from (m._header(value, b""), m._header(2, b"", "hostile", value))
        yield m._cbor([value, 4, b""])
    yield from (result(b"12345678", b"x"), result(b"", leaving=True), m.leaving(b"12345678"))
    for message in (job("hostile"), ready("hostile"), heartbeat(b"nobody")):
        yield from (message[:cut] for cut in range(1, len(message)))


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest messages; in a short run the most telling."""
    yield Heavy("20,000 workers", b"".join(_ask(ready("hostile"), n) for n in range(20_000)))
    names = [f"hostile-{n}" for n in range(1_000)]
    workers = b"".join(_ask(ready(*names), n) for n in range(1_000))
    yield Heavy("1,000 workers of 1,000 services", workers)
    too_large = struct.pack(">Q", FRAME_BYTES * 2) + b"x" * FRAME_BYTES
    yield Heavy("a message too large", too_large, closes=True)
    if short:
        return
    yield Heavy("100,000 strangers", _ask(heartbeat(b"who")), 100_000)
    yield Heavy("one worker, 50,000 times", _ask(ready("hostile")), 50_000)
    yield Heavy("100,000 of nothing", _ask(b""), 100_000)
    yield Heavy("large results", _ask(result(b"12345678", b"x" * (_LARGEST - 200))), 4)
