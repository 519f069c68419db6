"""EventMQ: multipart messages of eMQP over ZMTP, and the transport's own commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from franca.protocols.conversation import Service
from tests.prove.fuzzing import RAW, Exchange, Message, Step
from tests.support.eventmq import GREETING_SIZE, _command, call, encoded, handshake, take_frames

LINKS: dict[str, str] = {"s": "eventmq_subscribe", "p": "eventmq_publish"}
_HANDSHAKE: Message = (RAW, handshake())


def _say(command: bytes, msgid: bytes, *frames: bytes) -> Message:
    return (b"", b"eMQP/1.0", command, msgid, *frames)


_CALL = call("a.b", "c", 1, "two")
_OWN_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|job:[0-9]+")
_QUEUES = b'[[10, "q"], [5, "default"]]'
EXCHANGES: tuple[Exchange, ...] = (
    (
        Step("w", (_HANDSHAKE, _say(b"INFORM", b"i1", _QUEUES, b"worker"), _say(b"READY", b"r1"), _say(b"READY", b"r2"))),
        Step("c", (_HANDSHAKE, _say(b"REQUEST", b"m1", b"q", b"reply-requested,retry-count:2", _CALL), _say(b"STATUS", b"admin:1"))),
        Step("w", (_say(b"REPLY", b"x1", b'{"value": 5}', b"m1"), _say(b"HEARTBEAT", b"h1", b"1790000000"))),
        Step("c", (_say(b"ROUTER_SHOW_WORKERS", b"admin:2"), _say(b"ROUTER_SHOW_SCHEDULERS", b"admin:3"))),
    ),
    (
        Step("c", (_HANDSHAKE, _say(b"REQUEST", b"m1", b"q", b"{'timeout': 5, 'guarantee': True}", _CALL), _say(b"REQUEST", b"m2", b"", b"", b"bytes"))),
        Step("w", (_HANDSHAKE, _say(b"INFORM", b"i1", b"q,default", b"worker"), _say(b"READY", b"r1"), _say(b"READY", b"r1"))),
        Step("w", (_say(b"REPLY", b"x1", b'{"error": "no"}', b"m1"), _say(b"REPLY", b"m2", b"true")), pass_ms=6_000),
        Step("w", (_say(b"READY", b"r3"), _say(b"KBYE", b"k1"), _say(b"DISCONNECT", b"d1")), pass_ms=3_000),
    ),
    (
        Step("c", (_HANDSHAKE, _say(b"SCHEDULE", b"s1", b"q", b"nohaste,run_count:2", b"5", _CALL, b""))),
        Step("c", (_say(b"SCHEDULE", b"s2", b"q", b"cron:*/5 * * * *", _CALL), _say(b"SCHEDULE", b"s3", b"q", b"", b"-1", _CALL, b"@hourly"))),
        Step("w", (_HANDSHAKE, _say(b"INFORM", b"i1", _QUEUES, b"worker"), _say(b"READY", b"r1")), pass_ms=12_000),
        Step("c", (_say(b"UNSCHEDULE", b"u1", b"q", b"", b"5", _CALL, b""), _say(b"INFORM", b"i2", b"", b"scheduler"))),
    ),
    (
        Step("s", ((RAW, handshake("SUB")), (b"\x01topic",), (b"\x01",), (b"\x00topic",))),
        Step("p", (_HANDSHAKE, _say(b"PUBLISH", b"p1", b"topic", b"", b"news"), _say(b"PUBLISH", b"p2", b"topic", b"more"))),
        Step("c", ((RAW, handshake("REQ", b"me")), _say(b"REQUEST", b"m1", b"q", b"", _CALL), (RAW, _command(b"PING", b"\0\0ctx")))),
        Step("c", (_say(b"HELLO", b"h"), _say(b"ACK", b"a", b"x"), _say(b"KBAI", b"k"))),
    ),
    (
        Step("w", (_HANDSHAKE, _say(b"INFORM", b"i1", _QUEUES, b"worker"), _say(b"READY", b"r1"))),
        Step("w", (_say(b"REQUEST", b"m1", b"q", b"reply-requested", _CALL), _say(b"REPLY", b"x1", b"{}", b"m1"))),
    ),
    (
        Step("w", (_HANDSHAKE, _say(b"INFORM", b"i1", _QUEUES, b"worker"), _say(b"READY", b"r1"), _say(b"READY", b"r2"))),
        Step("c", (_HANDSHAKE, _say(b"REQUEST", b"m1", b"q", b"", _CALL), _say(b"REQUEST", b"m2", b"default", b"", _CALL), _say(b"REQUEST", b"m3", b"q", b"", _CALL))),
    ),
)  # fmt: skip


VALUES: tuple[bytes, ...] = (
    b"{'a':0x" + b"f" * 3_800 + b"}", b"{'timeout': 1e400}", b"{'timeout': -1}", b'{"timeout": ' + b"9" * 5_000 + b"}", b"retry-count:" + b"9" * 5_000,
    b"timeout:1e400,retry-count:-1", b"{'a':" * 300, b"{'a':(" * 90 + b")}" * 90, b"{b'\\xff': 1}", b"interval:" + b"9" * 400, b"cron:99999999999 * * * *", b"cron:*/0 * * * *",
    b"run_count:" + b"9" * 5_000, b"[[1e400, \"q\"]]", b"[[" + b"9" * 5_000 + b", \"q\"]]", b"(" * 400, b"[[10, \"\\ud800\"]]", b"\xff\xfe", b'{"error": "\\ud800"}',
    b'["run", {"path": "\\ud800", "callable": "c", "args": [1e400]}]', b'["run", ' + b"[" * 2_000, b"-1", b"1e400", b"9" * 5_000, b"reply-requested,guarantee", b"q" * 2_000,
)  # fmt: skip


def encode(message: Message) -> bytes:
    """A multipart message."""
    if message[:1] == (RAW,):
        return b"".join(message[1:])
    return encoded(message)


def fill(service: Service, data: bytes) -> bytes:
    """Clients choose all names themselves."""
    return data


def answers(said: bytes) -> Iterator[bytes]:
    """Messages, each kind once, without the server's own ids, which only count.

    Heartbeats come when they come; what the server says about itself depends on what others have done
    since; a request that is said again is another one once the first was run.
    """
    unread = bytearray(said[GREETING_SIZE:])
    seen: set[bytes] = set()
    while (frames := take_frames(unread)) is not None:
        kept = [frame for frame in frames if not _OWN_ID.fullmatch(frame)]
        if any(frame.startswith(b'{"') and b"_" in frame[:30] for frame in kept):
            kept = [b"REPLY"]
        if b"HEARTBEAT" not in kept:
            seen.add(b"|".join(kept))
    if unread:
        raise ValueError(f"half a message: {bytes(unread[:60])!r}")
    yield from seen
