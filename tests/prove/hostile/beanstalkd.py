"""beanstalkd: whatever a line says, it has one answer, and what follows is read from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.prove.hostile import ANSWERED, EITHER, REFUSED, Case, Heavy, Probe, web_pages
from tests.support.beanstalkd import put, said

_ERRORS = (
    b"BAD_FORMAT", b"UNKNOWN_COMMAND", b"EXPECTED_CRLF", b"JOB_TOO_BIG", b"NOT_FOUND", b"OUT_OF_MEMORY",
)  # fmt: skip
PROBE = Probe(
    b"use hostile\r\n", b"use the-last-word\r\n", b"USING the-last-word\r\n", said, errors=_ERRORS, halves_wait=True,
    greetings=1,
)  # fmt: skip
SILENCES = {
    "half a word": b"reser", "a CR": b"stats\r", "half a body": b"put 1 0 60 100\r\nhalf",
    "a command and a half": b"use hostile\r\nlist-tu", "a body without its end": b"put 1 0 60 4\r\nbody\r",
}  # fmt: skip
ENDLESS = (b"", b"put 1 0 60 4294967295\r\n")
_SMUGGLED = b"\r\nuse smuggled\r\n" + put(b"heard")
_NUMBERS = (
    b"-1", b"", b" ", b"x", b"1x", b"1.5", b"1e9", b"0x10", b"+1", b"9" * 30, b"9" * 200, b"4294967296",
    b"18446744073709551616", b"\xd9\xa2", b"\0", b"1\0", b"%s%n", b"1\r", b"1\n",
)  # fmt: skip
_TUBES = (
    b"",
    b" ",
    b"-tube",
    b"a b",
    b"a,b",
    b"t\xff",
    b"t\0",
    b"\0",
    b"x" * 201,
    b"x" * 219,
    b"tube\t",
    b"a\nb",
)
_OF_JOBS = (
    b"delete",
    b"touch",
    b"peek",
    b"stats-job",
    b"kick-job",
    b"reserve-job",
    b"release",
    b"bury",
)
_ALONE = (
    b"peek-ready", b"peek-delayed", b"peek-buried", b"stats", b"list-tubes", b"list-tube-used", b"list-tubes-watched",
)  # fmt: skip


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from _numbers()
    yield from _names()
    yield from _bodies()
    for line in (*_ALONE, b"reserve"):
        for behind in (b" ", b" x", b"x", b"\0", b"\t"):
            yield Case(line + behind + b"\r\n", REFUSED)
        yield Case(line.upper() + b"\r\n", REFUSED)
    for line in (
        b"",
        b" ",
        b"\0",
        b"\xff" * 20,
        b"x" * 222,
        b"x" * 223,
        b"x" * 5_000,
        b"a\nb",
        b"put",
        b"use",
    ):
        yield Case(line + b"\r\n", REFUSED)
    for _ in range(150):
        size = rng.choice((3, 20, 100, 300, 2_000))
        yield Case(rng.randbytes(size).replace(b"\r", b"") + b"\r\n", EITHER)


def _numbers() -> Iterator[Case]:
    for number in _NUMBERS:
        for command in _OF_JOBS:
            more = b" 1 1" if command == b"release" else b" 1" if command == b"bury" else b""
            yield Case(b"%b %b%b\r\n" % (command, number, more), REFUSED)
        for place in range(4):
            words = [number if n == place else b"1" for n in range(4)]
            line = b"put " + b" ".join(words)
            yield Case(line + b"\r\n", EITHER)
        yield Case(b"pause-tube hostile %b\r\n" % number, REFUSED)
        yield Case(b"kick %b\r\n" % number, ANSWERED)
        yield Case(b"reserve-with-timeout %b\r\n" % number, EITHER)
    for command in _OF_JOBS:
        for job_id in (b"0", b"999999999", b"9223372036854775807", b"18446744073709551615"):
            more = b" 1 1" if command == b"release" else b" 1" if command == b"bury" else b""
            yield Case(b"%b %b%b\r\n" % (command, job_id, more), REFUSED)


def _names() -> Iterator[Case]:
    for tube in _TUBES:
        for command in (b"use %b", b"watch %b", b"ignore %b", b"stats-tube %b", b"pause-tube %b 1"):
            yield Case(command % tube + b"\r\n", REFUSED)


def _bodies() -> Iterator[Case]:
    for size in (0, 1, 65_535):
        yield Case(put(b"x" * size), ANSWERED)
        yield Case(put(b"x" * size)[:-2] + b"xx", REFUSED)
    for size in (65_536, 65_537, 1 << 20):
        yield Case(put(b"x" * size), REFUSED)
    yield Case(put(b"\r\nuse smuggled\r\n" + put(b"heard")), ANSWERED)


def heavies(*, short: bool) -> Iterator[Heavy]:
    yield Heavy("tiny lines", b"\r\n", 20_000)
    yield Heavy("stats", b"stats\r\n", 2_000)
    yield Heavy("kicks", b"kick 4294967295\r\n", 2_000)
    if not short:
        yield Heavy("tubes", b"".join(b"watch t%d\r\n" % n for n in range(2_000)))
        yield Heavy("lists", b"list-tubes\r\n", 2_000)
        yield Heavy("large bodies", put(b"x" * 65_536), 200)
        yield Heavy("a long line", b"x" * (8 << 20) + b"\r\n")
