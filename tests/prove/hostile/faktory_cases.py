"""Small frames for a Faktory listener, one table per kind."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, REFUSED, Case
from tests.prove.hostile.raw import shuffled
from tests.prove.hostile.strangers import FIRST_WORDS, foreign, web_pages

_DIGITS = 5_000  # more than Python turns into a number
_DEEP = 100_000


def cases(seed: int) -> list[Case]:
    """All of them, in an order of chance."""
    rng = Random(seed)
    return shuffled(
        rng,
        web_pages(SMUGGLED, b"HELLO", b"PUSH"), _strangers(), _garbage(rng), _greetings(), _lines(),
        _fields(), _json(), _pushes(),
    )  # fmt: skip


# -- strangers ---------------------------------------------------------------------------------

SMUGGLED = (
    b'HELLO {"v":2}\r\nPUSH {"jid":"smuggled-1","jobtype":"x","queue":"smuggled","args":[]}\r\n'
)
"""What a web page would like to be heard; nothing of it may be."""


def _strangers() -> Iterator[Case]:
    return foreign(b"\r\n" + SMUGGLED, ("tls", CLOSED), *((name, CLOSED) for name in FIRST_WORDS))


def _garbage(rng: Random) -> Iterator[Case]:
    for number in range(40):
        data = rng.randbytes(rng.choice((1, 7, 100, 2_000, 70_000))) + b"\n"
        if not data.startswith(b"HELLO {"):
            yield Case(f"stranger's garbage {number}", data, CLOSED, known=False)
    for number in range(40):
        line = rng.randbytes(rng.choice((1, 7, 100, 2_000))).replace(b"\n", b"") + b"\n"
        yield Case(f"garbage {number}", line, ANSWERED)
    for verb in _VERBS:
        yield Case(
            f"garbage behind {verb!r}",
            verb + b" " + rng.randbytes(500).replace(b"\n", b"") + b"\n",
            ANSWERED,
        )


def _greetings() -> Iterator[Case]:
    for text in (
        b"", b" ", b"hello {}", b"HELLO", b"HELLO ", b"HELLO  {}", b"HELLO{}", b"HELLO []", b"HELLO null", b"HELLO 1",
        b"HELLO {", b'HELLO {"v":2', b'HELLO {"v":2}}', b'HELLO {"v":2} x', b"HELLO {'v':2}", b'HELLO {"v":2}\0', b'\0HELLO {"v":2}',
        b'HELLO {"v":\xff}', b'HELLO {"wid":"\xff\xfe"}', b'\xef\xbb\xbfHELLO {"v":2}', b"PUSH {}", b"FETCH default", b"INFO", b"END", b"FLUSH",
        b'HELLO {"wid":"%b"}' % (b"w" * 60_000), b"HELLO {%b}" % (b'"a":' + b"[" * 30_000), b"HELLO " + b'{"a":' * 10_000,
    ):  # fmt: skip
        outcome = EITHER if b'"wid"' in text else CLOSED
        yield Case(f"greeting {text[:30]!r}", text + b"\r\n", outcome, known=False)
    for field in ("hostname", "wid", "pid", "labels", "v", "pwdhash", "username", "rss_kb"):
        for value in _VALUES:
            line = b'HELLO {"%b":%b}\r\n' % (field.encode(), value)
            yield Case(f"greeting, {field} {value[:20]!r}", line, EITHER, known=False)


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
         "created_at", "enqueued_at", "priority", "JID", "unknown"),
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
                yield Case(
                    f"{verb} {field} {value[:20]!r}",
                    b"%b {%b}\r\n" % (verb.encode(), members),
                    ANSWERED,
                )
    for field in ("jids", "jobtype", "regexp"):
        for value in _VALUES:
            line = b'MUTATE {"cmd":"kill","target":"dead","filter":{"%b":%b}}\r\n'
            yield Case(f"filter {field} {value[:20]!r}", line % (field.encode(), value), ANSWERED)


def _json() -> Iterator[Case]:
    for verb in ("PUSH", "PUSHB", "ACK", "FAIL", "BEAT", "MUTATE"):
        for text in (
            b"", b"{", b"}", b"[", b"]", b"{}", b"[]", b"[[]]", b"[{}]", b"null", b"1", b'"x"', b"{,}", b'{"a"}', b'{"a":}', b'{"jid":"\xff\xfe"}',
            b"\xef\xbb\xbf{}", b"{}\0", b"\0{}", b"{} {}", b"// x", b'{"jid":"a\tb"}', b'{"jid":"a\x00b"}', b"[" * _DEEP, b'{"a":' * _DEEP,
            b"[" * _DEEP + b"]" * _DEEP, b'{"jid":' + b"[" * 1_000 + b"]" * 1_000 + b"}", b'{"\\ud800":1}', b'{"jid":"x","jid":"y"}', b"-", b"1e", b"truefalse",
        ):  # fmt: skip
            yield Case(f"{verb} {text[:20]!r}", verb.encode() + b" " + text + b"\r\n", ANSWERED)


def _lines() -> Iterator[Case]:
    for text in (
        b"", b" ", b"  ", b"\t", b"\r", b"\0", b"push {}", b"PUSH{}", b"PUSH", b"PUSHB", b"ACK", b"FAIL", b"BEAT", b"MUTATE", b"QUEUE", b"QUEUE ", b"QUEUE PAUSE",
        b"QUEUE REMOVE", b"QUEUE FOO x", b"QUEUE LATENCY *", b"INFO x", b"FLUSH x", b"END x", b"HELLO {}", b'HELLO {"v":2}', b"FETCH " + b"q" * 5_000, b"FETCH \xff\xfe",
        b"FETCH " + b" ".join(b"q%d" % n for n in range(2_000)), b"X" * 100_000, b"PUSH " + b" " * 100_000, b"\xff" * 1_000, b"TRACK GET x", b"BATCH NEW {}",
        b"QUEUE PAUSE \0", b"QUEUE LATENCY \xff", b"QUEUE " + b"x" * 100_000 + b" y",
    ):  # fmt: skip
        # A name of a queue that is no text is taken as it can be; all else is an error.
        names = (b"QUEUE PAUSE \0", b"QUEUE LATENCY \xff", b"FETCH \xff")
        outcome = ANSWERED if text.startswith(names) else REFUSED
        yield Case(f"line {text[:30]!r}", text + b"\r\n", outcome)


def _pushes() -> Iterator[Case]:
    head = b'PUSH {"jid":"hostile-%d","jobtype":"x","queue":"hostile","args":'
    for number, args in enumerate((
        b"[" * 127 + b"]" * 127, b"[" * 129 + b"]" * 129, b"[" + b'{"a":' * 200 + b"1" + b"}" * 200 + b"]", b"[" + b"9" * 100_000 + b"]",
        b"[1e400]", b"[-0.0]", b'["\\ud800"]', b'["\\udc00\\ud800"]', b'["' + b"\\u0000" * 1_000 + b'"]', b'["\xff"]', b'["\xed\xa0\x80"]', b"[NaN]", b"[Infinity]", b"[01]",
        b"[1,]", b"[,1]", b"[1 2]", b'["a" "b"]', b"[\x0b1]", b'{"0":1}', b'"[]"', b"[" + b'"",' * 10_000 + b'""]', b'["\n"]'.replace(b"\n", b"\x85"),
    )):  # fmt: skip
        yield Case(f"args {args[:20]!r}", head % number + args + b"}\r\n", ANSWERED)
    for at in (b'"2020-01-01"', b'"never"', b'"9999-12-31T23:59:59Z"', b'"0000-00-00T00:00:00Z"', b'"2026-13-45T99:99:99Z"', b'"2026-11-15T00:00:00+99:99"',
               b'"%b"' % (b"2" * 2_000), b'"2026-11-15T00:00:00.%bZ"' % (b"9" * 500), b'"\xd9\xa2\xd9\xa0\xd9\xa2\xd9\xa6-11-15T00:00:00Z"'):  # fmt: skip
        yield Case(f"at {at[:30]!r}", head % 99 + b'[],"at":' + at + b"}\r\n", ANSWERED)
