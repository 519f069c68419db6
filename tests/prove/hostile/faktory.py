"""Faktory: a stranger hears the greeting and no more, one that said HELLO one reply for each line."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, FRAME_BYTES, REFUSED, Case, Heavy, Probe
from tests.prove.hostile.strangers import foreign, web_pages
from tests.support.faktory import said

_HELLO = b'HELLO {"v":2}\r\n'
_LATENCY = b'{"hostile-probe":0}'
PROBE = Probe(
    _HELLO,
    b"QUEUE LATENCY hostile-probe\r\n",
    b"$%d\r\n%b\r\n" % (len(_LATENCY), _LATENCY),
    said,
    errors=(b"-",),
    counts=True,
    greetings=2,
)
SILENCES = {
    "nothing": b"", "half a greeting": b'HELLO {"v"', "half a word": _HELLO + b"PU",
    "half a job": _HELLO + b'PUSH {"jid":"hostile', "a line and a half": _HELLO + b"INFO\r\nINF",
}  # fmt: skip
ENDLESS = (b"PUSH ", _HELLO + b"PUSH ")
_DIGITS = 5_000  # more than Python turns into a number
_DEEP = 100_000
_ENTRIES = 100_000


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED, b"HELLO", b"PUSH")
    yield from foreign(b"\r\n" + _SMUGGLED)
    for table in (_garbage(rng), _greetings(), _lines(), _fields(), _json(), _pushes()):
        yield from table


# -- strangers ---------------------------------------------------------------------------------

_SMUGGLED = (
    b'HELLO {"v":2}\r\nPUSH {"jid":"smuggled-1","jobtype":"x","queue":"smuggled","args":[]}\r\n'
)
"""What a web page would like to be heard; nothing of it may be."""


def _garbage(rng: Random) -> Iterator[Case]:
    for _ in range(40):
        data = rng.randbytes(rng.choice((1, 7, 100, 2_000, 70_000))) + b"\n"
        if not data.startswith(b"HELLO {"):
            yield Case(data, CLOSED, known=False)
    for _ in range(40):
        line = rng.randbytes(rng.choice((1, 7, 100, 2_000))).replace(b"\n", b"") + b"\n"
        yield Case(line, ANSWERED)
    for verb in _VERBS:
        yield Case(verb + b" " + rng.randbytes(500).replace(b"\n", b"") + b"\n", ANSWERED)


def _greetings() -> Iterator[Case]:
    for text in (
        b"", b" ", b"hello {}", b"HELLO", b"HELLO ", b"HELLO  {}", b"HELLO{}", b"HELLO []", b"HELLO null", b"HELLO 1",
        b"HELLO {", b'HELLO {"v":2', b'HELLO {"v":2}}', b'HELLO {"v":2} x', b"HELLO {'v':2}", b'HELLO {"v":2}\0', b'\0HELLO {"v":2}',
        b'HELLO {"v":\xff}', b'HELLO {"wid":"\xff\xfe"}', b'\xef\xbb\xbfHELLO {"v":2}', b"PUSH {}", b"FETCH default", b"INFO", b"END", b"FLUSH",
        b'HELLO {"wid":"%b"}' % (b"w" * 60_000), b"HELLO {%b}" % (b'"a":' + b"[" * 30_000), b"HELLO " + b'{"a":' * 10_000
    ):  # fmt: skip
        outcome = EITHER if b'"wid"' in text else CLOSED
        yield Case(text + b"\r\n", outcome, known=False)
    for field in ("hostname", "wid", "pid", "labels", "v", "pwdhash", "username", "rss_kb"):
        for value in _VALUES:
            line = b'HELLO {"%b":%b}\r\n' % (field.encode(), value)
            yield Case(line, EITHER, known=False)


# -- clients that said HELLO -------------------------------------------------------------------

_VERBS = (
    b"PUSH",
    b"PUSHB",
    b"FETCH",
    b"ACK",
    b"FAIL",
    b"BEAT",
    b"MUTATE",
    b"QUEUE",
    b"INFO",
    b"TRACK",
    b"BATCH",
)

# What may stand where something else is expected.
_VALUES: tuple[bytes, ...] = (
    b"null", b"true", b"0", b"-1", b"1.5", b"1e999", b"-1e-999", b"9223372036854775808", b"-9223372036854775809",
    b"9" * _DIGITS, b"NaN", b"Infinity", b'""', b'"x"', b'"\\ud800"', b'"\\u0000"', b'"\\x"', b"[]", b"{}", b"[1,[2,[3]]]", b'{"a":{"b":1}}',
    b"[" * 200 + b"]" * 200, b'"' + b"x" * 5_000 + b'"', b'["a",1,null]', b"'x'", b"",
)  # fmt: skip

_OBJECTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    # What comes before the field in question, and the fields in question.
    "PUSH": (
        b'"jid":"hostile-job","jobtype":"x","args":[],"queue":"hostile"',
        ("jid", "jobtype", "args", "queue", "at", "retry", "reserve_for", "backtrace", "custom", "failure",
         "created_at", "enqueued_at", "priority", "JID", "unknown")
    ),
    "ACK": (b"", ("jid", "unknown")),
    "FAIL": (b'"jid":"no-such-job"', ("jid", "message", "errtype", "backtrace")),
    "BEAT": (b'"wid":"no-such-worker"', ("wid", "current_state", "rss_kb")),
    "MUTATE": (b'"cmd":"kill","target":"dead"', ("cmd", "target", "filter")),
}  # fmt: skip


def _fields() -> Iterator[Case]:
    for verb, (before, fields) in _OBJECTS.items():
        for field in fields:
            for value in _VALUES:
                # Of two members alike the last one counts, as in the original.
                members = b",".join(
                    part for part in (before, b'"%b":%b' % (field.encode(), value)) if part
                )
                yield Case(b"%b {%b}\r\n" % (verb.encode(), members), ANSWERED)
    for field in ("jids", "jobtype", "regexp"):
        for value in _VALUES:
            line = b'MUTATE {"cmd":"kill","target":"dead","filter":{"%b":%b}}\r\n'
            yield Case(line % (field.encode(), value), ANSWERED)


def _json() -> Iterator[Case]:
    for verb in ("PUSH", "PUSHB", "ACK", "FAIL", "BEAT", "MUTATE"):
        for text in (
            b"", b"{", b"}", b"[", b"]", b"{}", b"[]", b"[[]]", b"[{}]", b"null", b"1", b'"x"', b"{,}", b'{"a"}', b'{"a":}', b'{"jid":"\xff\xfe"}',
            b"\xef\xbb\xbf{}", b"{}\0", b"\0{}", b"{} {}", b"// x", b'{"jid":"a\tb"}', b'{"jid":"a\x00b"}', b"[" * _DEEP, b'{"a":' * _DEEP,
            b"[" * _DEEP + b"]" * _DEEP, b'{"jid":' + b"[" * 1_000 + b"]" * 1_000 + b"}", b'{"\\ud800":1}', b'{"jid":"x","jid":"y"}', b"-", b"1e", b"truefalse"
        ):  # fmt: skip
            yield Case(verb.encode() + b" " + text + b"\r\n", ANSWERED)


def _lines() -> Iterator[Case]:
    for text in (
        b"", b" ", b"  ", b"\t", b"\r", b"\0", b"push {}", b"PUSH{}", b"PUSH", b"PUSHB", b"ACK", b"FAIL", b"BEAT", b"MUTATE", b"QUEUE", b"QUEUE ", b"QUEUE PAUSE",
        b"QUEUE REMOVE", b"QUEUE FOO x", b"QUEUE LATENCY *", b"INFO x", b"FLUSH x", b"END x", b"HELLO {}", b'HELLO {"v":2}', b"FETCH " + b"q" * 5_000, b"FETCH \xff\xfe",
        b"FETCH " + b" ".join(b"q%d" % n for n in range(2_000)), b"X" * 100_000, b"PUSH " + b" " * 100_000, b"\xff" * 1_000, b"TRACK GET x", b"BATCH NEW {}",
        b"QUEUE PAUSE \0", b"QUEUE LATENCY \xff", b"QUEUE " + b"x" * 100_000 + b" y"
    ):  # fmt: skip
        # A name of a queue that is no text is taken as it can be; all else is an error.
        names = (b"QUEUE PAUSE \0", b"QUEUE LATENCY \xff", b"FETCH \xff")
        outcome = ANSWERED if text.startswith(names) else REFUSED
        yield Case(text + b"\r\n", outcome)


def _pushes() -> Iterator[Case]:
    head = b'PUSH {"jid":"hostile-%d","jobtype":"x","queue":"hostile","args":'
    for number, args in enumerate((
        b"[" * 127 + b"]" * 127, b"[" * 129 + b"]" * 129, b"[" + b'{"a":' * 200 + b"1" + b"}" * 200 + b"]", b"[" + b"9" * 100_000 + b"]",
        b"[1e400]", b"[-0.0]", b'["\\ud800"]', b'["\\udc00\\ud800"]', b'["' + b"\\u0000" * 1_000 + b'"]', b'["\xff"]', b'["\xed\xa0\x80"]', b"[NaN]", b"[Infinity]", b"[01]",
        b"[1,]", b"[,1]", b"[1 2]", b'["a" "b"]', b"[\x0b1]", b'{"0":1}', b'"[]"', b"[" + b'"",' * 10_000 + b'""]', b'["\n"]'.replace(b"\n", b"\x85")
    )):  # fmt: skip
        yield Case(head % number + args + b"}\r\n", ANSWERED)
    for at in (b'"2020-01-01"', b'"never"', b'"9999-12-31T23:59:59Z"', b'"0000-00-00T00:00:00Z"', b'"2026-13-45T99:99:99Z"', b'"2026-11-15T00:00:00+99:99"',
               b'"%b"' % (b"2" * 2_000), b'"2026-11-15T00:00:00.%bZ"' % (b"9" * 500), b'"\xd9\xa2\xd9\xa0\xd9\xa2\xd9\xa6-11-15T00:00:00Z"'):  # fmt: skip
        yield Case(head % 99 + b'[],"at":' + at + b"}\r\n", ANSWERED)


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
    yield Heavy(
        "many names", _mutate(b'"jids":[%b]' % b",".join(b'"j%d"' % n for n in range(500_000)))
    )
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
