"""Faktory: a stranger hears the greeting and no more, one that said HELLO one reply for each line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

from tests.prove import hostile as h
from tests.prove.hostile import FRAME_BYTES, Case, Heavy, Probe, each, foreign, noise, web_pages
from tests.prove.tables import tables
from tests.support.faktory import said

_TABLES = tables(__file__)

_HELLO = b'HELLO {"v":2}\r\n'
_LATENCY = b'{"hostile-probe":0}'
_ANSWER = b"$%d\r\n%b\r\n" % (len(_LATENCY), _LATENCY)
_LARGE = b'PUSH {"jid":"large-job","jobtype":"x","queue":"q","args":["%b"]}\r\n'
PROBE = Probe(
    _HELLO, b"QUEUE LATENCY hostile-probe\r\n", _ANSWER, said, errors=(b"-",), counts=True, greetings=2,
    small=b"QUEUE LATENCY q\r\n", large=lambda body: _LARGE % body, harm=rb"(?i)FLUSH|QUEUE.*\*",
)  # fmt: skip
SILENCES = {
    "nothing": b"", "half a greeting": b'HELLO {"v"', "half a word": _HELLO + b"PU",
    "half a job": _HELLO + b'PUSH {"jid":"hostile', "a line and a half": _HELLO + b"INFO\r\nINF",
}  # fmt: skip
ENDLESS = (b"PUSH ", _HELLO + b"PUSH ")
_ENTRIES = 100_000


_SMUGGLED = _HELLO + b'PUSH {"jid":"smuggled-1","jobtype":"x","queue":"smuggled","args":[]}\r\n'
"""What a web page would like to be heard; nothing of it may be."""

# -- small ones --------------------------------------------------------------------------------


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED, b"HELLO", b"PUSH")
    yield from foreign(b"\r\n" + _SMUGGLED)
    garbage = (noise(rng, 1, 7, 100, 2_000, 70_000) + b"\n" for _ in range(40))
    yield from each(h.CLOSED, garbage, known=False)
    yield from each(h.CLOSED, _ended(_TABLES["greetings"]), known=False)
    odd = (b'HELLO {"wid":"\xff\xfe"}', b'HELLO {"wid":"%b"}' % (b"w" * 60_000))
    yield from each(h.EITHER, _ended(odd), known=False)
    yield from each(h.EITHER, _objects("greeting objects"), known=False)
    yield from each(h.ANSWERED, _answered(rng))
    queues = b"FETCH " + b" ".join(b"q%d" % n for n in range(2_000))
    yield from each(h.REFUSED, _ended((*_TABLES["lines"], queues)))


def _ended(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line + b"\r\n" for line in lines)


def _objects(table: str) -> Iterator[bytes]:
    """Each value in each member that the table names behind an object."""
    for row in _TABLES[table]:
        line, members = row.split(b"  ")
        pairs = product(members.split(), _TABLES["values"])
        yield from _ended(line % pair for pair in pairs)


def _answered(rng: Random) -> Iterator[bytes]:
    """What a client that said HELLO may say, to hear of it what one likes."""
    for _ in range(40):
        yield noise(rng, 1, 7, 100, 2_000).replace(b"\n", b"") + b"\n"
    for verb in _TABLES["verbs"]:
        yield verb + b" " + rng.randbytes(500).replace(b"\n", b"") + b"\n"
    # A name of a queue that is no text is taken as it can be.
    yield from _ended((b"QUEUE PAUSE \0", b"QUEUE LATENCY \xff", b"FETCH \xff\xfe"))
    yield from _objects("objects")
    with_json = b"PUSH PUSHB ACK FAIL BEAT MUTATE".split()
    yield from _ended(b"%b %b" % words for words in product(with_json, _TABLES["json"]))
    head = b'PUSH {"jid":"hostile-%d","jobtype":"x","queue":"hostile","args":'
    yield from (head % number + args + b"}\r\n" for number, args in enumerate(_TABLES["args"]))
    yield from (head % 99 + b'[],"at":' + at + b"}\r\n" for at in _TABLES["times"])


# -- large ones --------------------------------------------------------------------------------


def _heavies(*, short: bool) -> Iterator[Heavy]:
    """The frames, each near the limit; in a short run the most telling."""
    yield Heavy("100,000 jobs", b"PUSHB [%b]" % b",".join(_minimal(n) for n in range(_ENTRIES)))
    yield Heavy("100,000 empty jobs", b"PUSHB [%b]" % b",".join([b"{}"] * _ENTRIES))
    yield Heavy("a frame of empty jobs", b"PUSHB [" + b"{}," * _fitting(3) + b"{}]")
    yield Heavy("a frame of tiny jobs", b"PUSHB [" + b'{"":0},' * _fitting(7) + b"{}]")
    yield Heavy("queues by the million", b"FETCH " + b"ab " * _fitting(3))
    yield Heavy("a pattern of classes", _mutate(b'"regexp":"%b"' % (b"[^a]" * 1_000)))
    yield Heavy("20,000 INFO", b"INFO", 20_000)
    yield Heavy("20,000 jobs in a row", _push(b'["x"]'), 20_000)
    if short:
        return
    yield Heavy("a frame of numbers", b"PUSHB [" + b"1," * _fitting(2) + b"1]")
    yield Heavy("100,000 queues", b"FETCH " + b" ".join(b"q%d" % n for n in range(_ENTRIES)))
    yield Heavy("pauses by the million", b"QUEUE PAUSE " + b"ab " * _fitting(3))
    yield Heavy("latencies", b"QUEUE LATENCY " + b" ".join(b"%d" % n for n in range(1_000_000)))
    yield Heavy("a pattern of stars", _mutate(b'"regexp":"%b"' % (b"*a" * 2_000)))
    names = b",".join(b'"j%d"' % n for n in range(500_000))
    yield Heavy("many names", _mutate(b'"jids":[%b]' % names))
    yield Heavy("members", b"ACK {" + b'"a":"",' * _fitting(7) + b'"jid":"x"}')
    yield Heavy("a long trace", b'FAIL {"jid":"x","backtrace":[' + b'"",' * _fitting(3) + b'""]}')
    yield Heavy("brackets", _push(b"[" * (FRAME_BYTES - 200)))
    yield Heavy("zeros", _push(b"[" + b"0," * (1 << 20) + b"0]"))
    yield Heavy("empty arrays", _push(b"[" + b"[]," * (1 << 20) + b"0]"))
    yield Heavy("escapes", _push(b'["' + b"\\u0041" * (1 << 19) + b'"]'))
    yield Heavy("spaces", _push(b"[" + b" " * (3 << 20) + b"]"))
    yield Heavy("200,000 empty lines", b"", 200_000)
    yield Heavy("50,000 unknown words", b"WHAT " + b"x" * 100, 50_000)
    yield Heavy("too long a line", b"PUSH " + b"x" * (FRAME_BYTES + (1 << 20)), closes=True)


def heavies(*, short: bool) -> Iterator[Heavy]:
    for heavy in _heavies(short=short):
        yield heavy._replace(message=heavy.message + b"\r\n")


def _fitting(size: int) -> int:
    """How many pieces of this size a frame can hold."""
    return (FRAME_BYTES - 200) // size


def _minimal(number: int) -> bytes:
    return b'{"jid":"heavy-%06d","jobtype":"x","queue":"hostile","args":[]}' % number


def _push(args: bytes) -> bytes:
    return b'PUSH {"jid":"heavy-job","jobtype":"x","queue":"hostile","args":%b}' % args


def _mutate(members: bytes) -> bytes:
    return b'MUTATE {"cmd":"kill","target":"dead","filter":{%b}}' % members
