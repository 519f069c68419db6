"""Gearman: whatever a packet or a line says, it is answered, ignored or hung up on, and an echo behind it comes back.

`REFUSED` is an ERROR packet or an ERR line, `ANSWERED` may also be nothing at all: many packets have no answer. One
that is hung up on may be told why.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from random import Random

from tests.prove.hostile import (
    ANSWERED,
    CLOSED,
    EITHER,
    FRAME_BYTES,
    REFUSED,
    Case,
    Heavy,
    Silence,
)
from tests.prove.hostile.raw import AT_ONCE_S, Raw, Silent, flood, shuffled, without_end
from tests.prove.hostile.strangers import foreign, web_pages
from tests.support.gearman import Type, request, take_packet

_TYPES = 43
_FUNCTIONS = 10_000
_ECHO = b"hostile echo"
_ECHOED = struct.pack(">4sII", b"\0RES", Type.ECHO_RES, len(_ECHO)) + _ECHO
_SMUGGLED = (
    b"\n" + request(Type.SUBMIT_JOB_BG, b"smuggled", b"", b"") + b"create function smuggled\n"
)
_NOT_FOR_US = (5, 6, 8, 10, 11, 17, 19, 20, 24, 27, 31, 40, 42)
_TALKERS = (
    "SUBMIT_JOB", "SUBMIT_JOB_BG", "SUBMIT_JOB_HIGH", "SUBMIT_JOB_HIGH_BG", "SUBMIT_JOB_LOW", "SUBMIT_JOB_LOW_BG",
    "SUBMIT_JOB_EPOCH", "SUBMIT_JOB_SCHED", "SUBMIT_REDUCE_JOB", "SUBMIT_REDUCE_JOB_BACKGROUND",
)  # fmt: skip
_REPORTS = (
    "WORK_STATUS", "WORK_COMPLETE", "WORK_FAIL", "WORK_EXCEPTION", "WORK_DATA", "WORK_WARNING",
)  # fmt: skip


# -- small ones --------------------------------------------------------------------------------


def cases(seed: int) -> list[Case]:
    """All of them, in an order of chance."""
    rng = Random(seed)
    return shuffled(
        rng,
        web_pages(_SMUGGLED), _magics(), _sizes(), _types(), _short_arguments(), _values(), _lines(),
        _garbage(rng), foreign(b"\n", ("tls", CLOSED), ("postgres", CLOSED)),
    )  # fmt: skip


def _magics() -> Iterator[Case]:
    for magic in (b"\0REX", b"\0req", b"\0\0\0\0", b"\0RE\0", b"\0QER", b"\0\xff\xff\xff"):
        packet = struct.pack(">4sII", magic, Type.ECHO_REQ, 0)
        yield Case(f"magic {magic!r}", packet + _SMUGGLED, CLOSED, known=False)
    for kind in (Type.ECHO_REQ, Type.SUBMIT_JOB_BG, Type.NOOP):
        packet = request(kind, b"smuggled", b"", b"").replace(b"\0REQ", b"\0RES", 1)
        yield Case(f"RES {kind.name}", packet, REFUSED)


def _sizes() -> Iterator[Case]:
    for kind in (Type.ECHO_REQ, Type.SUBMIT_JOB_BG, Type.CAN_DO, Type.WORK_COMPLETE):
        for size in (FRAME_BYTES, FRAME_BYTES + 1, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
            packet = struct.pack(">4sII", b"\0REQ", kind, size)
            yield Case(f"{kind.name} of {size}", packet + b"x" * 100, CLOSED, known=False)


def _types() -> Iterator[Case]:
    for number in (0, _TYPES, _TYPES + 1, 255, 256, 1 << 16, 1 << 31, (1 << 32) - 1):
        packet = struct.pack(">4sII", b"\0REQ", number, 0)
        yield Case(f"type {number}", packet + _SMUGGLED, CLOSED, known=False)
    for number in _NOT_FOR_US:
        for body in (b"", b"a\0b\0c", b"x" * 3_000):
            packet = struct.pack(">4sII", b"\0REQ", number, len(body)) + body
            yield Case(f"type {number}, {len(body)} bytes", packet, REFUSED)


def _short_arguments() -> Iterator[Case]:
    """Fewer separators than a packet has arguments, and the next packet right behind it."""
    for name in (*_TALKERS, *_REPORTS, "CAN_DO_TIMEOUT"):
        for count in range(9):
            body = b"\0".join([b"hostile"] * count)
            yield Case(f"{name} with {count}", request(Type[name], body), ANSWERED)
    for name in (
        "CAN_DO",
        "CANT_DO",
        "GET_STATUS",
        "GET_STATUS_UNIQUE",
        "OPTION_REQ",
        "SET_CLIENT_ID",
    ):
        for body in (b"", b"\0", b"\0\0\0", b"hostile\0", b"hostile\0more", b"\xff\xfe"):
            yield Case(f"{name} {body!r}", request(Type[name], body), ANSWERED)
    for name in ("PRE_SLEEP", "GRAB_JOB", "GRAB_JOB_UNIQ", "GRAB_JOB_ALL", "RESET_ABILITIES"):
        yield Case(f"{name} with a body", request(Type[name], b"what\0is\0this"), ANSWERED)


def _values() -> Iterator[Case]:
    long = b"x" * 5_000
    for name in ("SUBMIT_JOB_BG", "SUBMIT_JOB"):
        yield Case(
            f"{name}, a long unique", request(Type[name], b"hostile", b"u" * 65, b""), REFUSED
        )
        yield Case(
            f"{name}, a unique of 64", request(Type[name], b"hostile", b"u" * 64, b""), ANSWERED
        )
        yield Case(f"{name}, a long function", request(Type[name], long * 2, b"", b""), EITHER)
    for name in _REPORTS:
        for handle in (b"", b"H:no:1", b"H:" + long, b"\xff\xfe", b"H:vm:99999999999999999999"):
            arguments = (handle, b"1", b"2") if name == "WORK_STATUS" else (handle, b"data")
            packet = request(Type[name], *(arguments[:1] if name == "WORK_FAIL" else arguments))
            yield Case(f"{name} of {handle[:20]!r}", packet, REFUSED)
    numbers = (
        b"",
        b"0",
        b"-1",
        b"1",
        b"abc",
        b"9" * 30,
        b"9" * 5_000,
        b"1e9",
        b"0x10",
        b" 7",
        b"1.5",
        b"\xd9\xa2",
    )
    for number in numbers:
        shown = number[:20]
        yield Case(f"timeout {shown!r}", request(Type.CAN_DO_TIMEOUT, b"hostile", number), ANSWERED)
        epoch = request(Type.SUBMIT_JOB_EPOCH, b"hostile", b"", number, b"")
        yield Case(f"epoch {shown!r}", epoch, ANSWERED)
        for place in range(5):
            fields = [number if place == n else b"*" for n in range(5)]
            packet = request(Type.SUBMIT_JOB_SCHED, b"hostile", b"", *fields, b"")
            yield Case(f"sched {place} {shown!r}", packet, ANSWERED)
    for handle in (
        b"H:" + b"x" * 61,
        b"H:" + b"x" * 62,
        b"H:" + long,
        b"\xff",
        b"H:\xff:1",
        b"H:a:1\0\0",
    ):
        for kind in (Type.GET_STATUS, Type.GET_STATUS_UNIQUE):
            yield Case(f"{kind.name} {handle[:20]!r}", request(kind, handle), ANSWERED)
    for option in (b"", b"exceptions\0", b"EXCEPTIONS", b"except", b"x" * 64, long, b"\xff"):
        yield Case(f"option {option[:20]!r}", request(Type.OPTION_REQ, option), ANSWERED)


def _lines() -> Iterator[Case]:
    for text in (
        b"", b"\r", b" ", b"  status", b"what", b"WHAT is this", b"show", b"show x", b"show jobs please", b"cancel", b"cancel job",
        b"cancel job H:no:1", b"cancel foo bar", b"create", b"create function", b"drop", b"drop function", b"drop function no-such", b"maxqueue",
        b"\x01\x02\x03", b"\xff\xfe", b"version\tx", b"gladiator", b"x" * 5_000,
    ):  # fmt: skip
        yield Case(f"line {text[:20]!r}", text + b"\n", REFUSED)
    for text in (
        b"status", b"STATUS", b"Status\r", b"workers", b"prioritystatus", b"version", b"getpid", b"verbose", b"maxqueue hostile",
        b"maxqueue hostile x", b"maxqueue hostile -1", b"maxqueue hostile " + b"9" * 500, b"maxqueue hostile 1 2", b"maxqueue hostile a b c", b"create function hostile",
        b"jobs", b"clients", b"show unique jobs", b"drop function hostile", b"one two three four five",
    ):  # fmt: skip
        yield Case(f"line {text[:20]!r}", text + b"\n", ANSWERED)
    for text in (b"a b c d e f", b"status" + b" x" * 20, b"y" * 8_190):
        yield Case(f"line {text[:20]!r}", text + b"\n", EITHER)
    yield Case("a line without end", b"z" * 9_000, CLOSED, known=False)
    yield Case("a long line", b"z" * 9_000 + b"\n" + _SMUGGLED, CLOSED, known=False)


def _garbage(rng: Random) -> Iterator[Case]:
    for number in range(60):
        yield Case(
            f"garbage {number}", rng.randbytes(rng.choice((1, 13, 100, 2_000))) + b"\n", EITHER
        )
    for kind in Type:
        if kind not in (Type.SUBMIT_JOB_SCHED, *_NOT_FOR_US):
            for size in (1, 30, 2_000):
                packet = request(kind, rng.randbytes(size))
                yield Case(f"{kind.name} of garbage {size}", packet, ANSWERED)


# -- one case ----------------------------------------------------------------------------------


def play(port: int, case: Case) -> str:
    """Send the case and an echo behind it, and look at all that comes back."""
    with Raw(port, 10.0) as peer:
        began = time.monotonic()
        closed = False
        try:
            peer.send(case.data)
            if case.known:
                peer.send(request(Type.ECHO_REQ, _ECHO))
            peer.read_until(_ECHOED)
        except TimeoutError:
            return f"no echo, only {bytes(peer.heard[:60])!r}"
        except ConnectionError:
            closed = True
        try:
            answers = list(_answers(peer.heard))
        except ValueError as error:
            return str(error)
        return _judge(case, answers, closed=closed, late=time.monotonic() - began > AT_ONCE_S)


def _judge(case: Case, answers: list[bytes], *, closed: bool, late: bool) -> str:
    errors = [answer for answer in answers if answer.startswith((b"ERR", b"19"))]
    if case.outcome == CLOSED:
        if not closed or late:
            return "not closed at once"
        return f"answered {answers[0]!r}" if len(errors) != len(answers) else ""
    if closed:
        return "" if case.outcome == EITHER else f"closed after {answers}"
    if case.outcome == REFUSED and len(errors) != 1:
        return f"not refused: {answers}"
    return ""


def _answers(heard: bytearray) -> Iterator[bytes]:
    """What was said, packet by packet and line by line, but for the echo; `ValueError` if it is neither."""
    unread = bytearray(heard.removesuffix(_ECHOED))
    while unread:
        if unread[0]:
            line, end, rest = bytes(unread).partition(b"\n")
            if not end:
                raise ValueError(f"half a line: {line[:60]!r}")
            unread = bytearray(rest)
            yield line
        else:
            packet = take_packet(unread)
            if packet is None:
                raise ValueError(f"half a packet: {bytes(unread[:60])!r}")
            yield b"%d %b" % (packet.type, packet.body[:60])


# -- silence -----------------------------------------------------------------------------------


def silences(port: int) -> list[Silence]:
    """Half a packet and half a line. (Who says nothing at all may be a client that has no job yet.)"""
    return [
        Silent(port, "a NUL", b"\0"),
        Silent(port, "half a header", b"\0REQ\0\0\0"),
        Silent(port, "half a packet", request(Type.SUBMIT_JOB_BG, b"hostile", b"", b"x" * 99)[:-1]),
        Silent(port, "half a word", b"stat"),
        Silent(port, "a packet and a half", request(Type.ECHO_REQ, b"x") + b"\0REQ"),
    ]


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest packets; in a short run the most telling."""
    many = b"".join(request(Type.CAN_DO, b"hostile-%d" % n) for n in range(_FUNCTIONS))
    yield Heavy("10,000 functions and their jobs asked for", many + request(Type.GRAB_JOB) * 1_000)
    yield Heavy("10,000 functions and a list of them, fifty times", many + b"status\n" * 50)
    yield Heavy("handles that the store must be asked for", _get_status(5_000))
    yield Heavy("20,000 jobs", request(Type.SUBMIT_JOB_BG, b"hostile", b"", b"x"), 20_000)
    yield Heavy("a packet too large", _declared(FRAME_BYTES + 1) + b"x" * FRAME_BYTES, closes=True)
    if short:
        return
    largest = request(Type.SUBMIT_JOB_BG, b"hostile", b"", b"x" * (FRAME_BYTES // 2 - 100))
    yield Heavy("large jobs", largest, 4)
    yield Heavy(
        "the largest packet", request(Type.WORK_COMPLETE, b"H:no:1", b"x" * (FRAME_BYTES - 100))
    )
    yield Heavy("200,000 echoes", request(Type.ECHO_REQ), 200_000)
    yield Heavy("100,000 naps", request(Type.PRE_SLEEP), 100_000)
    yield Heavy("10,000 functions and naps", many + request(Type.PRE_SLEEP) * 1_000)
    yield Heavy("10,000 functions come and go", (many + request(Type.RESET_ABILITIES)), 5)
    yield Heavy("50,000 reports of nothing", request(Type.WORK_FAIL, b"H:no:1"), 50_000)
    yield Heavy(
        "one job, 20,000 times joined", request(Type.SUBMIT_JOB, b"hostile", b"u", b"x"), 20_000
    )
    yield Heavy("100,000 empty lines", b"\n", 100_000)
    yield Heavy("20,000 limits", b"".join(b"maxqueue hostile-%d 1\n" % n for n in range(20_000)))
    yield Heavy(
        "20,000 created", b"".join(b"create function hostile-%d\n" % n for n in range(20_000))
    )


def _declared(size: int) -> bytes:
    return struct.pack(">4sII", b"\0REQ", Type.ECHO_REQ, size)


def _get_status(count: int) -> bytes:
    return b"".join(request(Type.GET_STATUS, b"H:elsewhere:%d" % n) for n in range(count))


def play_heavy(port: int, heavy: Heavy) -> str:
    """Send it, and an echo at its end."""
    with Raw(port) as peer:
        return flood(peer, heavy, request(Type.ECHO_REQ, _ECHO), _ECHOED)


def endless(port: int, *, known: bool) -> Raw:
    """A line, or a packet of the greatest size and then a line, that does not end."""
    head = struct.pack(">4sII", b"\0REQ", Type.WORK_DATA, FRAME_BYTES - 100)
    return without_end(port, [head] if known else [])
