"""Faktory: lines of a word and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from franca.protocols.conversation import Service
from tests.prove.fuzzing import RAW, Exchange, Message, Step
from tests.prove.talks.faktory import take_replies

LINKS: dict[str, str] = {}
_HELLO = (b"HELLO", b'{"v":2}')
_WORKER = (b"HELLO", b'{"wid":"worker-1","hostname":"h","pid":7,"labels":["a"],"v":2}')


def _job(jid: bytes, more: bytes = b"") -> bytes:
    return b'{"jid":"%b","jobtype":"x","queue":"q","args":[1,"two",{"three":[null]}]%b}' % (
        jid,
        more,
    )


EXCHANGES: tuple[Exchange, ...] = (
    (
        Step("p", (_HELLO, (b"PUSH", _job(b"jid-0001")), (b"INFO",))),
        Step("w", (_WORKER, (b"FETCH", b"q", b"default"), (b"BEAT", b'{"wid":"worker-1"}'))),
        Step("w", ((b"ACK", b'{"jid":"jid-0001"}'), (b"END",))),
    ),
    (
        Step("w", (_WORKER, (b"FETCH", b"q"))),
        Step("p", (_HELLO, (b"PUSHB", b"[" + _job(b"jid-0002", b',"retry":2') + b"," + _job(b"x" * 8) + b"]"))),
        Step("w", ((b"FAIL", b'{"jid":"jid-0002","message":"m","errtype":"E","backtrace":["a","b"]}'),)),
        Step("w", ((b"FETCH", b"q"),), pass_ms=60_000),
    ),
    (
        Step("p", (_HELLO, (b"PUSH", _job(b"jid-0003", b',"at":"2026-09-21T14:20:00Z","reserve_for":60'))),),
        Step("p", ((b"QUEUE", b"PAUSE", b"q"), (b"QUEUE", b"LATENCY", b"q"), (b"QUEUE", b"RESUME", b"*"))),
        Step("p", ((b"MUTATE", b'{"cmd":"kill","target":"scheduled","filter":{"jids":["jid-0003"],"jobtype":"x"}}'),)),
        Step("p", ((b"MUTATE", b'{"cmd":"requeue","target":"dead","filter":{"regexp":"*jid*"}}'), (b"FLUSH",))),
    ),
    (
        Step("p", (_HELLO, (b"PUSH", _job(b"jid-0004", b',"custom":{"unique_for":60},"backtrace":3')))),
        Step("p", ((b"TRACK", b"GET", b"jid-0004"), (b"BATCH", b"NEW", b"{}"), (b"QUEUE", b"REMOVE", b"q"))),
        Step("w", (_WORKER, (b"BEAT", b'{"wid":"worker-1","current_state":"quiet","rss_kb":54176}'))),
        Step("w", ((b"FETCH", b"q"),), pass_ms=3_000),
    ),
)  # fmt: skip


VALUES: tuple[bytes, ...] = (
    _job(b"jid-0001", b',"retry":' + b"9" * 5_000), _job(b"jid-0001", b',"retry":1e400'), _job(b"jid-0001", b',"reserve_for":1e400'), _job(b"jid-0001", b',"at":"99999-01-01T00:00:00Z"'),
    _job(b"jid-0001", b',"at":"0001-01-01T00:00:00Z"'), _job(b"jid-0001", b',"priority":99999999999999999999'), _job(b"\\ud800\\ud800"), _job(b"\xff\xfe\xed\xa0\x80-12"),
    _job(b"jid-0001", b',"custom":{"unique_for":1e400}'), _job(b"jid-0001", b',"custom":{"unique_for":"' + b"9" * 5_000 + b'"}'), _job(b"jid-0001", b',"custom":' + b"[" * 200),
    _job(b"jid-0001", b',"failure":{"retry_count":' + b"9" * 400 + b',"remaining":-1,"failed_at":"x"}'), _job(b"jid-0001", b',"queue":"\\udfff"'), _job(b"jid-0001", b',"jid":null'),
    b'{"jid":"jid-0001","message":"\xff\\ud800","errtype":1e400,"backtrace":["' + b"x" * 3_000 + b'"]}', b'{"wid":"\\ud800","pid":1e400,"v":2}', b'{"v":' + b"9" * 5_000 + b"}",
    b'{"jid":"jid-0001","message":null,"backtrace":[1,[2]]}', b'{"cmd":"kill","target":"scheduled","filter":{"jids":["' + b'","'.join([b"x" * 9] * 300) + b'"],"regexp":"***"}}',
    b'{"cmd":"requeue","target":"dead","filter":{"jobtype":"*","regexp":"' + b"*a" * 500 + b'"}}', b"[" * 2_000, b"{" * 2_000, b"9" * 5_000,
)  # fmt: skip


def encode(message: Message) -> bytes:
    """A line."""
    if message[:1] == (RAW,):
        return b"".join(message[1:])
    return b" ".join(message) + b"\r\n"


def fill(service: Service, data: bytes) -> bytes:
    """Clients choose all names themselves."""
    return data


def answers(said: bytes) -> Iterator[bytes]:
    """Replies."""
    unread = bytearray(said)
    yield from take_replies(unread)
    if unread:
        raise ValueError(f"half a reply: {bytes(unread[:60])!r}")
