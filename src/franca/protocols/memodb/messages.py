"""The five messages of memo01: a CBOR array, and the payload right behind it. Values only."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

NOT_ADDRESSED: Final = -1
"""A request without an id: nobody could be answered."""
HELLO: Final = -2
"""The peer has said that it sends requests."""
IGNORED: Final = 0
"""What is not a message of the protocol, or came through too many devices."""
READY: Final = 1
JOB: Final = 2
RESULT: Final = 3
HEARTBEAT: Final = 4
DISCONNECT: Final = 5


class Header(Struct, gc=False):
    """What stands before a payload, which begins at `end`.

    `task` is how a worker is told the service and the timeout of a JOB; only the timeout, if the
    name is a long one, as each job keeps its task.
    """

    op: int
    id: bytes
    end: int = 0
    services: tuple[str, ...] = ()
    service: str = ""
    timeout_ms: int = 0
    leaving: bool = False
    task: bytes = b""


class Message(Struct, gc=False):
    """A request: its header is from `at` to `end`, and a payload of `size` bytes follows.

    `stack` is whom to answer. Of one that `is_large`, `data` is only the beginning; of one that is
    too large, the payload is, too. One `is_usual` if it is small and its header is short.
    """

    op: int
    stack: bytes
    data: bytes
    at: int
    end: int
    payload: bytes = b""
    size: int = 0
    is_usual: bool = False
    id: bytes = b""
    header: Header | None = None
    """Where more is said in it than who sends it."""
    is_large: bool = False
