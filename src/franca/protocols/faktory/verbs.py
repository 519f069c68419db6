"""Every word that a client who said HELLO may begin a line with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from franca.protocols.faktory import pushing, settling, steering
from franca.protocols.faktory.conversation import FaktoryConversation, Verb

VERBS: Final[Mapping[bytes, Verb]] = {
    b"PUSH": pushing.on_push,
    b"PUSHB": pushing.on_push_many,
    b"FETCH": FaktoryConversation.on_fetch,
    b"ACK": settling.on_ack,
    b"FAIL": settling.on_fail,
    b"BEAT": steering.on_beat,
    b"END": steering.on_end,
    b"INFO": steering.on_info,
    b"FLUSH": steering.on_flush,
    b"QUEUE": steering.on_queue,
    b"MUTATE": steering.on_mutate,
    b"TRACK": steering.on_track,
    b"BATCH": steering.on_batch,
}

LARGE_VERBS: Final[Mapping[bytes, Verb]] = {
    **VERBS,
    b"PUSH": pushing.on_push_large,
    b"ACK": settling.on_large_ack,
    b"FAIL": settling.on_large_fail,
    b"BEAT": steering.on_large_beat,
}
"""The same for lines that are too large to be read at once."""
