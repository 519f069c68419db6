"""MemoDB: what is no frame of SP is hung up on; what is no message is not answered, and what comes behind it is.

Behind every case comes a HEARTBEAT of a worker that nobody knows, whose answer is DISCONNECT.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, FRAME_BYTES, Case, Heavy, Probe
from tests.prove.hostile.strangers import foreign, web_pages
from tests.support.memodb import (
    DISCONNECT,
    HELLO,
    _cbor,
    _header,
    heartbeat,
    job,
    leaving,
    ready,
    result,
    said,
)

_LARGEST = FRAME_BYTES // 2
"""As large as a job may be while this lasts."""


def _frame(body: bytes) -> bytes:
    return struct.pack(">Q", len(body)) + body


def _ask(message: bytes, number: int = 1) -> bytes:
    return _frame(struct.pack(">I", number | 1 << 31) + message)


_LAST = _ask(heartbeat(b"nobody"), 0x7FFFFFFF)
_ANSWER = _frame(struct.pack(">I", 0xFFFFFFFF) + _header(DISCONNECT, b"nobody"))
PROBE = Probe(HELLO, _LAST, _ANSWER, said)
SILENCES = {
    "nothing": b"", "half a hello": HELLO[:5], "half a length": HELLO + b"\0\0",
    "half a message": HELLO + _ask(job("hostile"))[:-1], "a message and a half": HELLO + _LAST + _LAST[:9],
}  # fmt: skip
ENDLESS = (b"", HELLO + struct.pack(">QI", _LARGEST, 1 | 1 << 31) + job("hostile"))
_SMUGGLED = HELLO + _ask(job("smuggled"))


# -- small ones --------------------------------------------------------------------------------


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from foreign(_SMUGGLED)
    for table in (_hellos(), _lengths(), _stacks(), _shapes(), _fields(), _garbage(rng)):
        yield from table


def _hellos() -> Iterator[Case]:
    for kind in (0x00, 0x10, 0x20, 0x21, 0x31, 0x50, 0x62, 0x70, 0xFF):
        yield Case(b"\0SP\0\0" + bytes([kind, 0, 0]) + _SMUGGLED, CLOSED, known=False)
    for hello in (
        b"\0SP\x01\0\x30\0\0",
        b"\0SP\0\0\x30\0\x01",
        b"\0SPx\0\x30\0\0",
        b"\1SP\0\0\x30\0\0",
        b"\0\0\0\0\0\0\0\0",
    ):
        yield Case(hello + _SMUGGLED, CLOSED, known=False)


def _lengths() -> Iterator[Case]:
    for size in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, 1 << 32, FRAME_BYTES + (1 << 20)):
        yield Case(struct.pack(">Q", size) + b"x" * 100, CLOSED)


def _stacks() -> Iterator[Case]:
    for size in range(4):
        yield Case(_frame(b"\x80" * size), EITHER)
    yield Case(_frame(b"\x80\0\0\1"), ANSWERED, name="an id alone")
    for hops in (1, 7, 8, 9, 100, 5_000):
        body = b"\0\0\0\1" * hops
        yield Case(_frame(body), EITHER)
        yield Case(_frame(body + b"\x80\0\0\1" + heartbeat(b"x")), EITHER)


def _shapes() -> Iterator[Case]:
    """CBOR of every kind in place of a header."""
    for first in range(256):
        yield Case(_ask(bytes([first]) + b"\0" * 12), ANSWERED)
        yield Case(_ask(bytes([first])), ANSWERED)
    for name, message in {
        "deep": b"\x81" * 10_000, "deep maps": b"\xa1\x00" * 5_000, "endless": b"\x9f" + b"\x01" * 5_000, "endless text": b"\x7f" + b"\x61a" * 5_000,
        "tags": b"\xc0" * 5_000, "a list of 2^32": b"\x9a\xff\xff\xff\xff", "a list of 2^64": b"\x9b" + b"\xff" * 8, "bytes of 2^60": b"\x5b" + b"\x10" + b"\0" * 7,
        "regex": b"\xd8\x23\x63.*+", "bignum": b"\xc2\x59\x10\x00" + b"\xff" * 4096, "nothing": b"", "break": b"\xff",
    }.items():  # fmt: skip
        yield Case(_ask(message), ANSWERED, name=name)


def _fields() -> Iterator[Case]:
    odd: tuple[object, ...] = (
        0, 1, 23, 24, 255, 1 << 16, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, b"", b"x", b"x" * 2_000, "", "x", "ü" * 700, "x" * 5_000, True, False, [], [1], ["a"], [[["a"]]],
    )  # fmt: skip
    for value in odd:
        for op in (1, 2, 3, 4, 5):
            yield Case(_ask(_header(op, b"", value)), ANSWERED)
            yield Case(_ask(_header(op, value)), ANSWERED)
        yield Case(_ask(_header(value, b"")), ANSWERED)
        yield Case(_ask(_header(2, b"", "hostile", value)), ANSWERED)
        yield Case(_ask(_cbor([value, 4, b""])), ANSWERED)
    yield Case(_ask(ready(*(f"s{n}" for n in range(2_000)))), ANSWERED, name="a service of all")
    yield Case(_ask(ready("a", "a", "")), ANSWERED, name="services said twice")
    for message in (result(b"12345678", b"x"), result(b"", leaving=True), leaving(b"12345678")):
        yield Case(_ask(message), ANSWERED)
    for message in (job("hostile"), ready("hostile"), heartbeat(b"nobody")):
        for cut in range(1, len(message)):
            yield Case(_ask(message[:cut]), ANSWERED)


def _garbage(rng: Random) -> Iterator[Case]:
    for _ in range(40):
        data = rng.randbytes(rng.choice((8, 30, 3_000)))
        yield Case(b"x" + data, CLOSED, known=False)
    for _ in range(60):
        yield Case(_ask(rng.randbytes(rng.choice((1, 9, 300)))), ANSWERED)


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest messages; in a short run the most telling."""
    yield Heavy("20,000 workers", b"".join(_ask(ready("hostile"), n) for n in range(20_000)))
    names = [f"hostile-{n}" for n in range(1_000)]
    yield Heavy(
        "1,000 workers of 1,000 services", b"".join(_ask(ready(*names), n) for n in range(1_000))
    )
    yield Heavy(
        "a message too large", struct.pack(">Q", FRAME_BYTES * 2) + b"x" * FRAME_BYTES, closes=True
    )
    if short:
        return
    yield Heavy("100,000 strangers", _ask(heartbeat(b"who")), 100_000)
    yield Heavy("one worker, 50,000 times", _ask(ready("hostile")), 50_000)
    yield Heavy("100,000 of nothing", _ask(b""), 100_000)
    yield Heavy("large results", _ask(result(b"12345678", b"x" * (_LARGEST - 200))), 4)
