"""EventMQ: what is no ZMTP is hung up on; what is no command is counted, and what comes behind it is answered."""

import re
from collections.abc import Iterator

from tests.prove.hostile import RAW, Hostility, Message, tables
from tests.support.eventmq import _command, call, encoded, handshake, said

_CALL = call("a.b.c", 1, "two")
_OWN_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|job:[0-9]+")


def _message(command: bytes, *words: bytes) -> Message:
    """A command of eMQP, in which `CALL` is what a request asks for; frames; or a command of the transport."""
    match command:
        case b"handshake":
            return (RAW, handshake(words[0].decode(), *words[1:]))
        case b"command":
            return (RAW, _command(*words))
        case b"frames":
            return words
    return (b"", b"eMQP/1.0", command, *(_CALL if word == b"CALL" else word for word in words))


def _compared(data: bytes) -> Iterator[bytes]:
    """Messages, each kind once, without the server's own ids, which only count.

    Heartbeats come when they come; what the server says about itself depends on what others have done
    since; a request that is said again is another one once the first was run.
    """
    seen: set[bytes] = set()
    for frames in said(data):
        kept = [frame for frame in frames if not _OWN_ID.fullmatch(frame)]
        if any(frame.startswith(b'{"') and b"_" in frame[:30] for frame in kept):
            kept = [b"REPLY"]
        if b"HEARTBEAT" not in kept:
            seen.add(b"|".join(kept))
    yield from seen


HOSTILITY = Hostility(
    tables(__file__), _message, encoded, lambda data: map(b"|".join, said(data)),
    answer=_command(b"PONG", b"last"), halves_wait=True, compared=_compared,
    links={"s": "eventmq_subscribe", "p": "eventmq_publish"},
)  # fmt: skip
