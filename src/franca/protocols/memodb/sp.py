"""SP's bytes, as nanomsg and NNG speak it: handshake, lengths, and who a reply is for.

Over TCP (and TLS) a message is its length in eight bytes and itself; over a unix socket a byte 01
stands before that. A request begins with a word of four bytes that has its top bit set, its id;
devices on the way put words of their own without that bit before it. All of them, the stack, go
in front of the reply. Knows nothing of what a message says.
"""

from __future__ import annotations

from io import BytesIO
from struct import Struct
from typing import Final

from franca.core.errors import WireError
from franca.protocols.buffer import ByteBuffer

HELLO_OF_CLIENT: Final = b"\0SP\0\0\x30\0\0"
HELLO_OF_SERVER: Final = b"\0SP\0\0\x31\0\0"
HOPS_MAX: Final = 8
"""Devices that a request may have come through, as NNG counts them."""
WORD: Final = 4
ID_BIT: Final = 0x80
NOBODY: Final = -1
LOST: Final = -2

LENGTH: Final = Struct(">Q")
_OVER_IPC: Final = Struct(">BQ")
_MESSAGE: Final = 1

head_over_tcp = LENGTH.pack


def head_over_ipc(size: int) -> bytes:
    """What stands before a message of that size on a unix socket."""
    return _OVER_IPC.pack(_MESSAGE, size)


def stack_end(data: bytes, at: int, end: int) -> int:
    """Where the stack of the request that begins at `at` ends.

    `NOBODY` if no id follows the words of devices, `LOST` if it came through too many of them.
    """
    for _ in range(HOPS_MAX + 1):
        if end - at < WORD:
            return NOBODY
        at += WORD
        if data[at - WORD] & ID_BIT:
            return at
    return LOST


class Parts:
    """A message that comes in several pieces.

    Once somebody has seen where its payload begins, that is gathered by itself: each piece is
    copied to its place as it comes, and the whole need not be copied again. Its room is taken
    when an eighth of it is there: what is only promised takes none.
    """

    __slots__ = ("_body", "_body_at", "_head", "glanced_at", "have", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.have = 0
        self.glanced_at = False
        self._head = bytearray()
        self._body: BytesIO | None = None
        self._body_at = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.have == self.size

    def feed(self, data: bytes) -> int:
        """Take what belongs to this message; returns how many bytes that were."""
        missing = self.size - self.have
        if len(data) > missing:
            data = data[:missing]
        self.have += len(data)
        if self._body is not None:
            self._body.write(data)
        else:
            self._head += data
            if self._body_at and self.have >= self.size // 8:
                self._begin_body()
        return len(data)

    def set_body(self, at: int) -> None:
        """The payload begins at `at`, which has come already."""
        self._body_at = at

    def _begin_body(self) -> None:
        # Nobody else has this object, so that it is written in place, and handed out as it is.
        self._body = BytesIO(bytes(self.size - self._body_at))
        with memoryview(self._head) as head:
            self._body.write(head[self._body_at :])
        del self._head[self._body_at :]

    def head(self, count: int) -> bytes:
        """The first `count` bytes, or all there are."""
        head = bytes(self._head[:count])
        if self._body is None:
            return head
        with self._body.getbuffer() as body:
            return head + bytes(body[: count - len(head)])

    def rest(self, at: int) -> bytes:
        """All bytes from `at` on; without a copy, if the payload begins there."""
        body = b"" if self._body is None else self._body.getvalue()
        if self._body is not None and at == self._body_at:
            return body
        if at > len(self._head):
            return body[at - len(self._head) :]
        return bytes(self._head[at:]) + body


class Inbox:
    """What a peer has sent and nobody has looked at yet, cut into messages.

    `parts` is the one of which only a part has come, if there is one.
    """

    __slots__ = ("_buffer", "_head", "_size_max", "_unix", "parts")

    def __init__(self, size_max: int, *, unix: bool) -> None:
        self._buffer = ByteBuffer()
        self.parts: Parts | None = None
        self._size_max = size_max
        self._unix = unix
        self._head = _OVER_IPC.size if unix else LENGTH.size

    def __len__(self) -> int:
        parts = self.parts
        # A length that came alone counts too: a message has begun.
        return len(self._buffer) + (0 if parts is None else self._head + parts.have)

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        parts = self.parts
        if parts is not None and not parts.is_whole:
            taken = parts.feed(data)
            if taken == len(data):
                return
            data = data[taken:]
        self._buffer.feed(data)

    def take_hello(self) -> bytes | None:
        """What a peer says first, before any message: as much as there is of it, or None.

        The whole of it, or its beginning if that is already wrong.
        """
        there = self._buffer.peek(min(len(self._buffer), len(HELLO_OF_CLIENT))) or b""
        if HELLO_OF_CLIENT.startswith(there) and there != HELLO_OF_CLIENT:
            return None
        return self._buffer.take(len(there))

    def next(self) -> bytes | Parts | None:
        """The next whole message, without its length, or None until more bytes are fed.

        A `WireError` as soon as it is plain that it is too long, or none at all.
        """
        parts = self.parts
        if parts is not None:
            if not parts.is_whole:
                return None
            self.parts = None
            return parts
        head = self._buffer.peek(self._head)
        if head is None:
            return None
        if self._unix and head[0] != _MESSAGE:
            raise WireError("not-a-message", "a message on a unix socket begins with 01")
        (size,) = LENGTH.unpack(head[-LENGTH.size :])
        if size > self._size_max:
            raise WireError("too-long", f"a message of {size} bytes, at most {self._size_max}")
        self._buffer.take(self._head)
        message = self._buffer.take(size)
        if message is None:
            parts = self.parts = Parts(size)
            parts.feed(self._buffer.take(len(self._buffer)) or b"")
        return message
