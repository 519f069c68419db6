"""The five messages of memo01: a CBOR array, and the payload right behind it. Values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from franca.protocols.memodb.sp import Parts

NOT_ADDRESSED: Final = -1
"""A request without an id: nobody could be answered."""
IGNORED: Final = 0
"""What is not a message of the protocol, or came through too many devices."""
READY: Final = 1
JOB: Final = 2
RESULT: Final = 3
HEARTBEAT: Final = 4
DISCONNECT: Final = 5


class JobHeader(Struct, frozen=True, gc=False):
    """What a JOB names. `task` is how a worker is told both, or only the timeout.

    That is if the name is a long one, as each job keeps its task.
    """

    service: str
    timeout_ms: int
    task: bytes


class Header(Struct, gc=False):
    """What stands before a payload, which begins at `end`."""

    op: int
    id: bytes
    end: int = 0
    services: tuple[str, ...] = ()
    service: str = ""
    timeout_ms: int = 0
    leaving: bool = False


class Message(Struct):
    """A request: its header is from `at` to `end`, and `size` bytes of payload follow.

    `stack` is whom to answer. Of a large message `data` is only the beginning, and `parts` is all.
    """

    op: int
    stack: bytes
    data: bytes
    at: int
    end: int
    size: int
    parts: Parts | None = None
    id: bytes = b""
    job: JobHeader | None = None
    services: tuple[str, ...] = ()
    leaving: bool = False

    def payload(self) -> bytes:
        """All that follows the header."""
        return self.data[self.end :] if self.parts is None else self.parts.rest(self.end)
