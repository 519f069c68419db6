"""EventMQ: multipart messages of eMQP over ZMTP, and the transport's own commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.prove.fuzzing import RAW, Message, Seeds, exchanges
from tests.prove.tables import tables
from tests.support import eventmq
from tests.support.eventmq import call, encoded, handshake

_LINKS = {"s": "eventmq_subscribe", "p": "eventmq_publish"}
_CALL = call("a.b.c", 1, "two")
_OWN_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|job:[0-9]+")


def _message(command: bytes, *words: bytes) -> Message:
    """`CALL` is what a request asks for; what does not begin with a command of eMQP says how it is sent."""
    frames = [_CALL if word == b"CALL" else word for word in words]
    match command:
        case b"handshake":
            return (RAW, handshake(words[0].decode(), *words[1:]))
        case b"raw":
            return (RAW, *words)
        case b"frames":
            return words
    return (b"", b"eMQP/1.0", command, *frames)


def _answers(said: bytes) -> Iterator[bytes]:
    """Messages, each kind once, without the server's own ids, which only count.

    Heartbeats come when they come; what the server says about itself depends on what others have done
    since; a request that is said again is another one once the first was run.
    """
    seen: set[bytes] = set()
    for frames in eventmq.said(said):
        kept = [frame for frame in frames if not _OWN_ID.fullmatch(frame)]
        if any(frame.startswith(b'{"') and b"_" in frame[:30] for frame in kept):
            kept = [b"REPLY"]
        if b"HEARTBEAT" not in kept:
            seen.add(b"|".join(kept))
    yield from seen


_TABLES = tables(__file__)
SEEDS = Seeds(exchanges(_TABLES, _message), _TABLES["values"], encoded, _answers, links=_LINKS)
