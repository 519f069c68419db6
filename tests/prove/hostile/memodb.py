"""MemoDB: what is no frame of SP is hung up on; what is no message is not answered, and what comes behind it is.

Behind every case comes a HEARTBEAT of a worker that nobody knows, whose answer is DISCONNECT.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, FRAME_BYTES, Case, Heavy, Silence
from tests.prove.hostile.raw import Probe, Raw, Silent, shuffled, without_end
from tests.prove.hostile.strangers import FIRST_WORDS, foreign, web_pages
from tests.support.memodb import (
    DISCONNECT,
    HELLO,
    HELLO_BACK,
    _cbor,
    _header,
    heartbeat,
    job,
    leaving,
    ready,
    result,
)

_LARGEST = FRAME_BYTES // 2
"""As large as a job may be while this lasts."""


def _frame(body: bytes) -> bytes:
    return struct.pack(">Q", len(body)) + body


def _ask(message: bytes, number: int = 1) -> bytes:
    return _frame(struct.pack(">I", number | 1 << 31) + message)


_LAST = _ask(heartbeat(b"nobody"), 0x7FFFFFFF)
_ANSWER = _frame(struct.pack(">I", 0xFFFFFFFF) + _header(DISCONNECT, b"nobody"))
_PROBE = Probe(HELLO, _LAST, _ANSWER)
_SMUGGLED = HELLO + _ask(job("smuggled"))


# -- small ones --------------------------------------------------------------------------------


def cases(seed: int) -> list[Case]:
    """All of them, in an order of chance."""
    rng = Random(seed)
    return shuffled(
        rng,
        web_pages(_SMUGGLED), foreign(_SMUGGLED, ("tls", CLOSED), *((n, CLOSED) for n in FIRST_WORDS)),
        _hellos(), _lengths(), _stacks(), _shapes(), _fields(), _garbage(rng),
    )  # fmt: skip


def _hellos() -> Iterator[Case]:
    for kind in (0x00, 0x10, 0x20, 0x21, 0x31, 0x50, 0x62, 0x70, 0xFF):
        yield Case(
            f"socket type {kind:x}",
            b"\0SP\0\0" + bytes([kind, 0, 0]) + _SMUGGLED,
            CLOSED,
            known=False,
        )
    for hello in (
        b"\0SP\x01\0\x30\0\0",
        b"\0SP\0\0\x30\0\x01",
        b"\0SPx\0\x30\0\0",
        b"\1SP\0\0\x30\0\0",
        b"\0\0\0\0\0\0\0\0",
    ):
        yield Case(f"hello {hello!r}", hello + _SMUGGLED, CLOSED, known=False)


def _lengths() -> Iterator[Case]:
    for size in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, 1 << 32, FRAME_BYTES + (1 << 20)):
        yield Case(f"length {size}", struct.pack(">Q", size) + b"x" * 100, CLOSED)


def _stacks() -> Iterator[Case]:
    for size in range(4):
        yield Case(f"a frame of {size}", _frame(b"\x80" * size), EITHER)
    yield Case("an id alone", _frame(b"\x80\0\0\1"), ANSWERED)
    for hops in (1, 7, 8, 9, 100, 5_000):
        body = b"\0\0\0\1" * hops
        yield Case(f"{hops} hops without end", _frame(body), EITHER)
        yield Case(f"{hops} hops", _frame(body + b"\x80\0\0\1" + heartbeat(b"x")), EITHER)


def _shapes() -> Iterator[Case]:
    """CBOR of every kind in place of a header."""
    for first in range(256):
        yield Case(f"header {first:02x}", _ask(bytes([first]) + b"\0" * 12), ANSWERED)
        yield Case(f"header {first:02x} alone", _ask(bytes([first])), ANSWERED)
    for name, message in {
        "deep": b"\x81" * 10_000, "deep maps": b"\xa1\x00" * 5_000, "endless": b"\x9f" + b"\x01" * 5_000, "endless text": b"\x7f" + b"\x61a" * 5_000,
        "tags": b"\xc0" * 5_000, "a list of 2^32": b"\x9a\xff\xff\xff\xff", "a list of 2^64": b"\x9b" + b"\xff" * 8, "bytes of 2^60": b"\x5b" + b"\x10" + b"\0" * 7,
        "regex": b"\xd8\x23\x63.*+", "bignum": b"\xc2\x59\x10\x00" + b"\xff" * 4096, "nothing": b"", "break": b"\xff",
    }.items():  # fmt: skip
        yield Case(name, _ask(message), ANSWERED)


def _fields() -> Iterator[Case]:
    odd: tuple[object, ...] = (
        0, 1, 23, 24, 255, 1 << 16, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, b"", b"x", b"x" * 2_000, "", "x", "ü" * 700, "x" * 5_000, True, False, [], [1], ["a"], [[["a"]]],
    )  # fmt: skip
    for value in odd:
        for op in (1, 2, 3, 4, 5):
            yield Case(f"{op} with {str(value)[:20]}", _ask(_header(op, b"", value)), ANSWERED)
            yield Case(f"{op} of {str(value)[:20]}", _ask(_header(op, value)), ANSWERED)
        yield Case(f"op {str(value)[:20]}", _ask(_header(value, b"")), ANSWERED)
        yield Case(f"job for {str(value)[:20]}", _ask(_header(2, b"", "hostile", value)), ANSWERED)
        yield Case(f"magic {str(value)[:20]}", _ask(_cbor([value, 4, b""])), ANSWERED)
    yield Case("a service of all", _ask(ready(*(f"s{n}" for n in range(2_000)))), ANSWERED)
    yield Case("services said twice", _ask(ready("a", "a", "")), ANSWERED)
    for message in (result(b"12345678", b"x"), result(b"", leaving=True), leaving(b"12345678")):
        yield Case(f"of a stranger {message[:16]!r}", _ask(message), ANSWERED)
    for message in (job("hostile"), ready("hostile"), heartbeat(b"nobody")):
        for cut in range(1, len(message)):
            yield Case(f"{message[8:9]!r} cut at {cut}", _ask(message[:cut]), ANSWERED)


def _garbage(rng: Random) -> Iterator[Case]:
    for number in range(40):
        data = rng.randbytes(rng.choice((8, 30, 3_000)))
        yield Case(f"stranger's garbage {number}", b"x" + data, CLOSED, known=False)
    for number in range(60):
        yield Case(f"garbage {number}", _ask(rng.randbytes(rng.choice((1, 9, 300)))), ANSWERED)


def play(port: int, case: Case) -> str:
    """Send the case behind a hello or without one, and the probe behind it."""
    return _PROBE.play(port, case, _unreadable)


def _unreadable(heard: bytearray) -> str:
    """Whether what was heard is anything but a hello and whole frames."""
    if not heard.startswith(HELLO_BACK):
        return "" if HELLO_BACK.startswith(heard) else f"no hello: {bytes(heard[:40])!r}"
    at = len(HELLO_BACK)
    while at < len(heard):
        (size,) = struct.unpack_from(">Q", heard, at)
        if size > FRAME_BYTES:
            return f"no frame: {bytes(heard[at : at + 40])!r}"
        at += 8 + size
    return ""


# -- silence -----------------------------------------------------------------------------------


def silences(port: int) -> list[Silence]:
    """Strangers and peers that stop in the middle."""
    return [
        Silent(port, "nothing", b""),
        Silent(port, "half a hello", HELLO[:5]),
        Silent(port, "half a length", HELLO + b"\0\0"),
        Silent(port, "half a message", HELLO + _ask(job("hostile"))[:-1]),
        Silent(port, "a message and a half", HELLO + _LAST + _LAST[:9]),
    ]


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


def play_heavy(port: int, heavy: Heavy) -> str:
    """Send it, and the probe at its end."""
    return _PROBE.play_heavy(port, heavy)


def endless(port: int, *, known: bool) -> Raw:
    """A message of the greatest size, and more behind it."""
    if not known:
        return without_end(port, [])
    head = struct.pack(">Q", _LARGEST) + struct.pack(">I", 1 | 1 << 31) + job("hostile")
    return without_end(port, [HELLO, head])
