"""Gearman: whatever a packet or a line says, it is answered, ignored or hung up on, and an echo behind it comes back.

`REFUSED` is an ERROR packet or an ERR line, `ANSWERED` may also be nothing at all: many packets have no answer. One
that is hung up on may be told why.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from random import Random

from tests.prove import hostile as h
from tests.prove.hostile import FRAME_BYTES, Case, Heavy, Probe, each, foreign, noise, web_pages
from tests.prove.tables import tables
from tests.support.gearman import Type, request, said

_TABLES = tables(__file__)

_TYPES = 43
_FUNCTIONS = 10_000
_ECHO = b"hostile echo"
_ECHOED = struct.pack(">4sII", b"\0RES", Type.ECHO_RES, len(_ECHO)) + _ECHO
_ERRORS = (b"ERR", bytes([Type.ERROR]))
PROBE = Probe(
    b"", request(Type.ECHO_REQ, _ECHO), _ECHOED, said, errors=_ERRORS, small=request(Type.ECHO_REQ, b"x"),
    large=lambda body: request(Type.SUBMIT_JOB_BG, b"q", b"", body), harm=b"cancel",
)  # fmt: skip
# Who says nothing at all may be a client that has no job yet.
SILENCES = {
    "a NUL": b"\0", "half a header": b"\0REQ\0\0\0", "half a word": b"stat",
    "half a packet": request(Type.SUBMIT_JOB_BG, b"hostile", b"", b"x" * 99)[:-1],
    "a packet and a half": request(Type.ECHO_REQ, b"x") + b"\0REQ",
}  # fmt: skip
ENDLESS = (b"", struct.pack(">4sII", b"\0REQ", Type.WORK_DATA, FRAME_BYTES - 100))
_SMUGGLED = (
    b"\n" + request(Type.SUBMIT_JOB_BG, b"smuggled", b"", b"") + b"create function smuggled\n"
)
_NOT_FOR_US = (5, 6, 8, 10, 11, 17, 19, 20, 24, 27, 31, 40, 42)
_SIZES = (FRAME_BYTES, FRAME_BYTES + 1, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_SIZED = (Type.ECHO_REQ, Type.SUBMIT_JOB_BG, Type.CAN_DO, Type.WORK_COMPLETE)


def _packet(
    kind: int, body: bytes = b"", magic: bytes = b"\0REQ", size: int | None = None
) -> bytes:
    return struct.pack(">4sII", magic, kind, len(body) if size is None else size) + body


def _names(*kinds: str) -> list[str]:
    return [name.decode() for kind in kinds for name in _TABLES[kind]]


# -- small ones --------------------------------------------------------------------------------


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from foreign(b"\n", ("postgres",))
    yield from each(h.CLOSED, _closed(), known=False)
    yield from each(h.REFUSED, _refused())
    yield from each(h.ANSWERED, {f"{n} with {c}": p for n, c, p in _short_arguments()})
    yield from each(h.ANSWERED, _values())
    yield from each(h.ANSWERED, (text + b"\n" for text in _TABLES["answered"]))
    odd = (b"a b c d e f", b"status" + b" x" * 20, b"y" * 8_190)
    yield from each(h.EITHER, (text + b"\n" for text in odd))
    for name in ("SUBMIT_JOB_BG", "SUBMIT_JOB"):
        long = request(Type[name], b"x" * 10_000, b"", b"")
        yield Case(long, h.EITHER, name=f"{name}, a long function")
    garbage = (noise(rng, 1, 13, 100, 2_000) + b"\n" for _ in range(60))
    yield from each(h.EITHER, garbage)
    kinds = [kind for kind in Type if kind not in (Type.SUBMIT_JOB_SCHED, *_NOT_FOR_US)]
    sizes = (1, 30, 2_000)
    packets = (request(kind, rng.randbytes(size)) for kind, size in product(kinds, sizes))
    yield from each(h.ANSWERED, packets)


def _closed() -> Iterator[bytes]:
    for magic in (b"\0REX", b"\0req", b"\0\0\0\0", b"\0RE\0", b"\0QER", b"\0\xff\xff\xff"):
        yield _packet(Type.ECHO_REQ, magic=magic) + _SMUGGLED
    for kind, size in product(_SIZED, _SIZES):
        yield _packet(kind, b"x" * 100, size=size)
    for number in (0, _TYPES, _TYPES + 1, 255, 256, 1 << 16, 1 << 31, (1 << 32) - 1):
        yield _packet(number) + _SMUGGLED
    yield b"z" * 9_000  # a line without end
    yield b"z" * 9_000 + b"\n" + _SMUGGLED


def _refused() -> Iterator[bytes]:
    for kind in (Type.ECHO_REQ, Type.SUBMIT_JOB_BG, Type.NOOP):
        yield _packet(kind, b"smuggled\0\0", magic=b"\0RES")
    for number, body in product(_NOT_FOR_US, (b"", b"a\0b\0c", b"x" * 3_000)):
        yield _packet(number, body)
    for name in ("SUBMIT_JOB_BG", "SUBMIT_JOB"):
        yield request(Type[name], b"hostile", b"u" * 65, b"")
    for name, handle in product(_names("reports"), _TABLES["no handles"]):
        arguments = {"WORK_STATUS": (b"1", b"2"), "WORK_FAIL": ()}.get(name, (b"data",))
        yield request(Type[name], handle, *arguments)
    yield from (text + b"\n" for text in _TABLES["refused"])


def _short_arguments() -> Iterator[tuple[str, object, bytes]]:
    """Fewer separators than a packet has arguments, and the next packet right behind it."""
    for name, count in product(_names("submits", "reports", "timeout"), range(9)):
        yield name, count, request(Type[name], b"\0".join([b"hostile"] * count))
    bodies = (b"", b"\0", b"\0\0\0", b"hostile\0", b"hostile\0more", b"\xff\xfe")
    for name, body in product(_names("of one argument"), bodies):
        yield name, body, request(Type[name], body)
    for name in _names("of none"):
        yield name, "a body", request(Type[name], b"what\0is\0this")


def _values() -> Iterator[bytes]:
    for name in ("SUBMIT_JOB_BG", "SUBMIT_JOB"):
        yield request(Type[name], b"hostile", b"u" * 64, b"")
    for number in _TABLES["numbers"]:
        yield request(Type.CAN_DO_TIMEOUT, b"hostile", number)
        yield request(Type.SUBMIT_JOB_EPOCH, b"hostile", b"", number, b"")
        for place in range(5):
            fields = [number if place == n else b"*" for n in range(5)]
            yield request(Type.SUBMIT_JOB_SCHED, b"hostile", b"", *fields, b"")
    for handle in _TABLES["handles"]:
        yield from (request(Type.GET_STATUS, handle), request(Type.GET_STATUS_UNIQUE, handle))
    yield from (request(Type.OPTION_REQ, option) for option in _TABLES["options"])


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest packets; in a short run the most telling."""
    many = b"".join(request(Type.CAN_DO, b"hostile-%d" % n) for n in range(_FUNCTIONS))
    yield Heavy("10,000 functions and their jobs asked for", many + request(Type.GRAB_JOB) * 1_000)
    yield Heavy("10,000 functions and a list of them, fifty times", many + b"status\n" * 50)
    asked = b"".join(request(Type.GET_STATUS, b"H:elsewhere:%d" % n) for n in range(5_000))
    yield Heavy("handles that the store must be asked for", asked)
    yield Heavy("20,000 jobs", request(Type.SUBMIT_JOB_BG, b"hostile", b"", b"x"), 20_000)
    too_large = _packet(Type.ECHO_REQ, b"x" * FRAME_BYTES, size=FRAME_BYTES + 1)
    yield Heavy("a packet too large", too_large, closes=True)
    if short:
        return
    largest = request(Type.SUBMIT_JOB_BG, b"hostile", b"", b"x" * (FRAME_BYTES // 2 - 100))
    yield Heavy("large jobs", largest, 4)
    result = b"x" * (FRAME_BYTES - 100)
    yield Heavy("the largest packet", request(Type.WORK_COMPLETE, b"H:no:1", result))
    yield Heavy("200,000 echoes", request(Type.ECHO_REQ), 200_000)
    yield Heavy("100,000 naps", request(Type.PRE_SLEEP), 100_000)
    yield Heavy("10,000 functions and naps", many + request(Type.PRE_SLEEP) * 1_000)
    yield Heavy("10,000 functions come and go", (many + request(Type.RESET_ABILITIES)), 5)
    yield Heavy("50,000 reports of nothing", request(Type.WORK_FAIL, b"H:no:1"), 50_000)
    yield Heavy("20,000 joined", request(Type.SUBMIT_JOB, b"hostile", b"u", b"x"), 20_000)
    yield Heavy("100,000 empty lines", b"\n", 100_000)
    for line in (b"maxqueue hostile-%d 1\n", b"create function hostile-%d\n"):
        yield Heavy(f"20,000 times {line!r}", b"".join(line % n for n in range(20_000)))
