"""Every word that a client who said HELLO may begin a line with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from franca.protocols.faktory import pushing, server_commands, settling
from franca.protocols.faktory.conversation import FaktoryConversation, Verb

VERBS: Final[Mapping[bytes, Verb]] = {
    b"PUSH": pushing.on_push,
    b"PUSHB": pushing.on_push_many,
    b"FETCH": FaktoryConversation.on_fetch,
    b"ACK": settling.on_ack,
    b"FAIL": settling.on_fail,
    b"BEAT": server_commands.on_beat,
    b"END": server_commands.on_end,
    b"INFO": server_commands.on_info,
    b"FLUSH": server_commands.on_flush,
    b"QUEUE": server_commands.on_queue,
    b"MUTATE": server_commands.on_mutate,
    b"TRACK": server_commands.on_track,
    b"BATCH": server_commands.on_batch,
}

LARGE_VERBS: Final[Mapping[bytes, Verb]] = {
    **VERBS,
    b"PUSH": pushing.on_push_large,
    b"ACK": settling.on_large_ack,
    b"FAIL": settling.on_large_fail,
    b"BEAT": server_commands.on_large_beat,
}
"""The same for lines that are too large to be read at once."""
