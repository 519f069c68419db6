"""Faktory: lines of a word and JSON."""

from __future__ import annotations

from tests.prove.fuzzing import Exchange, Seeds, Step
from tests.prove.tables import tables
from tests.support.faktory import said

_HELLO = (b"HELLO", b'{"v":2}')
_WORKER = (b"HELLO", b'{"wid":"worker-1","hostname":"h","pid":7,"labels":["a"],"v":2}')


def _job(jid: bytes, more: bytes = b"") -> bytes:
    fixed = b'"jobtype":"x","queue":"q","args":[1,"two",{"three":[null]}]'
    return b'{"jid":"%b",%b%b}' % (jid, fixed, more)


_EXCHANGES: tuple[Exchange, ...] = (
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


SEEDS = Seeds(
    _EXCHANGES, tables(__file__)["values"], lambda parts: b" ".join(parts) + b"\r\n", said
)
