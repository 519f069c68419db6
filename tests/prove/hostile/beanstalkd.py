"""beanstalkd: whatever a line says, it has one answer, and what follows is read from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from tests.prove import hostile as h
from tests.prove.hostile import Case, Heavy, Probe, each, noise, web_pages
from tests.prove.tables import tables
from tests.support.beanstalkd import put, said

_TABLES = tables(__file__)
_ERRORS = (
    b"BAD_FORMAT", b"UNKNOWN_COMMAND", b"EXPECTED_CRLF", b"JOB_TOO_BIG", b"NOT_FOUND", b"OUT_OF_MEMORY",
)  # fmt: skip
PROBE = Probe(
    b"use hostile\r\n", b"use the-last-word\r\n", b"USING the-last-word\r\n", said, errors=_ERRORS, halves_wait=True,
    greetings=1, small=b"use x\r\n", large=put, harm=b"delete|reserve-job|kick-job",
)  # fmt: skip
SILENCES = {
    "half a word": b"reser", "a CR": b"stats\r", "half a body": b"put 1 0 60 100\r\nhalf",
    "a command and a half": b"use hostile\r\nlist-tu", "a body without its end": b"put 1 0 60 4\r\nbody\r",
}  # fmt: skip
ENDLESS = (b"", b"put 1 0 60 4294967295\r\n")
_SMUGGLED = b"\r\nuse smuggled\r\n" + put(b"heard")


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from each(h.REFUSED, (line + b"\r\n" for line in _refused()))
    for number in _TABLES["numbers"]:
        for place in range(4):
            words = [number if n == place else b"1" for n in range(4)]
            yield Case(b"put %b\r\n" % b" ".join(words), h.EITHER)
        yield Case(b"kick %b\r\n" % number, h.ANSWERED)
        yield Case(b"reserve-with-timeout %b\r\n" % number, h.EITHER)
    for size in (0, 1, 65_535):
        yield Case(put(b"x" * size), h.ANSWERED)
        yield Case(put(b"x" * size)[:-2] + b"xx", h.REFUSED)
    yield from each(h.REFUSED, (put(b"x" * size) for size in (65_536, 65_537, 1 << 20)))
    yield Case(put(b"\r\nuse smuggled\r\n" + put(b"heard")), h.ANSWERED)
    garbage = (noise(rng, 3, 20, 100, 300, 2_000) for _ in range(150))
    yield from each(h.EITHER, (one.replace(b"\r", b"") + b"\r\n" for one in garbage))


def _refused() -> Iterator[bytes]:
    ids = (b"0", b"999999999", b"9223372036854775807", b"18446744073709551615")
    for command, number in product(_TABLES["of jobs"], (*_TABLES["numbers"], *ids)):
        yield command % number
    yield from (b"pause-tube hostile %b" % number for number in _TABLES["numbers"])
    yield from (command % tube for command, tube in product(_TABLES["of tubes"], _TABLES["tubes"]))
    for line in _TABLES["alone"]:
        yield from (line + behind for behind in (b" ", b" x", b"x", b"\0", b"\t"))
        yield line.upper()
    yield from _TABLES["lines"]


def heavies(*, short: bool) -> Iterator[Heavy]:
    yield Heavy("tiny lines", b"\r\n", 20_000)
    yield Heavy("stats", b"stats\r\n", 2_000)
    yield Heavy("kicks", b"kick 4294967295\r\n", 2_000)
    if not short:
        yield Heavy("tubes", b"".join(b"watch t%d\r\n" % n for n in range(2_000)))
        yield Heavy("lists", b"list-tubes\r\n", 2_000)
        yield Heavy("large bodies", put(b"x" * 65_536), 200)
        yield Heavy("a long line", b"x" * (8 << 20) + b"\r\n")
