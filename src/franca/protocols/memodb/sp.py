"""SP's bytes, as nanomsg and NNG speak it: handshake, lengths, and who a reply is for.

Over TCP (and TLS) a message is its length in eight bytes and itself; over a unix socket a byte 01
stands before that. A request begins with a word of four bytes that has its top bit set, its id;
devices on the way put words of their own without that bit before it. All of them, the stack, go
in front of the reply. Knows nothing of what a message says.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import Final

from franca.core.errors import WireError
from franca.protocols.buffer import PartialBytes

HELLO_OF_CLIENT: Final = b"\0SP\0\0\x30\0\0"
HELLO_OF_SERVER: Final = b"\0SP\0\0\x31\0\0"
HOPS_MAX: Final = 8
"""Devices that a request may have come through, as NNG counts them."""
SKIPPED_BYTES_MAX: Final = 1 << 30
"""A message that is too large is dropped as it comes, but not one that can only be rubbish."""
HEAD_BYTES: Final = 4 * 1024
"""How much of a large message is looked at for its header before it is joined."""
WORD: Final = 4
ID_BIT: Final = 0x80
NOBODY: Final = -1
LOST: Final = -2

LENGTH: Final = Struct(">Q")
LENGTH_BYTES: Final = LENGTH.size
_OVER_IPC: Final = Struct(">BQ")
MESSAGE: Final = 1

head_over_tcp = LENGTH.pack
head_over_ipc = partial(_OVER_IPC.pack, MESSAGE)
length_at = LENGTH.unpack_from


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

    Once it is seen what it is (`op`) and where its payload begins, that is gathered by itself. Of
    one that is `too_large` only the beginning is kept, to see what it is; the rest is dropped.
    """

    def __init__(self, size: int, *, too_large: bool = False) -> None:
        self.size = size
        self.have = 0
        self.op: int | None = None
        self.too_large = too_large
        self._head = bytearray()
        self._body: PartialBytes | None = None
        self._body_at = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.have == self.size

    def __len__(self) -> int:
        return min(self.have, HEAD_BYTES) if self.too_large else self.have

    def feed(self, data: bytes) -> int:
        """Take what belongs to this message; returns how many bytes that were."""
        missing = self.size - self.have
        if len(data) > missing:
            data = data[:missing]
        self.have += len(data)
        if self._body is not None:
            self._body.feed(data)
        elif not self.too_large:
            self._head += data
        elif len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        return len(data)

    def set_body(self, at: int) -> None:
        """The payload begins at `at`, which has come already."""
        if not self.too_large:
            self._body_at = at
            self._body = PartialBytes(self.size - at)
            self._body.feed(bytes(self._head[at:]))
            del self._head[at:]

    def head(self, count: int) -> bytes:
        """The first `count` bytes, or all there are."""
        head = bytes(self._head[:count])
        return head if self._body is None else head + self._body.peek(count - len(head))

    def rest(self, at: int) -> bytes:
        """All bytes from `at` on; without a copy, if the payload begins there."""
        if self._body is None:
            return bytes(self._head[at:])
        if at == self._body_at:
            return self._body.value()
        return (bytes(self._head) + self._body.value())[at:]


class Hello:
    """The peer has said that it sends requests."""

    __slots__ = ()


class Inbox:
    """Cuts what a peer sends into messages, behind its hello.

    `parts` is the message of which only a part has come, if there is one. While it `_is_plain`, the
    next message begins at `_at` in `_data`.
    """

    def __init__(self, size_max: int, *, unix: bool) -> None:
        self.has_input = False
        self.parts: Parts | None = None
        self._is_plain = False
        self._is_greeted = False
        self._data = b""
        self._at = 0
        self._size_max = size_max
        self._unix = unix
        self._head = _OVER_IPC.size if unix else LENGTH.size

    def __len__(self) -> int:
        parts = self.parts
        # A length that came alone counts too: a message has begun.
        return len(self._data) - self._at + (0 if parts is None else self._head + len(parts))

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        self.has_input = True
        parts = self.parts
        if parts is not None and not parts.is_whole:
            data = data[parts.feed(data) :]
            self.has_input = parts.is_whole
        self._data = self._data[self._at :] + data
        self._at = 0

    def resume(self) -> None:
        """Read on, though no bytes came."""
        self.has_input = True

    def cut(self, data: bytes = b"") -> bytes | Parts | Hello | None:
        """The next whole message, without its length, or None until more bytes come.

        A `WireError` as soon as it is plain that it is none at all.
        """
        if data:
            self.feed(data)
            if not self.has_input:
                return None
        message = self._cut() if self._is_greeted else self._take_hello()
        self.has_input = message is not None and self.has_more()
        self._is_plain = self._is_greeted and self.parts is None
        return message

    def has_more(self) -> bool:
        """Whether another message may be there."""
        return self._at < len(self._data) if self.parts is None else self.parts.is_whole

    def _take_hello(self) -> Hello | None:
        """What a peer says first, before any message; a WireError as soon as it is wrong."""
        said = self._data[: len(HELLO_OF_CLIENT)]
        if not HELLO_OF_CLIENT.startswith(said):
            raise WireError("no-hello", "these bytes are not a request socket's")
        if said != HELLO_OF_CLIENT:
            return None
        self._at = len(said)
        self._is_greeted = True
        return Hello()

    def _cut(self) -> bytes | Parts | None:
        parts = self.parts
        if parts is not None:
            if not parts.is_whole:
                return None
            self.parts = None
            return parts
        data, start = self._data, self._at + self._head
        if start > len(data):
            return None
        if self._unix and data[self._at] != MESSAGE:
            raise WireError("not-a-message", "a message on a unix socket begins with 01")
        (size,) = length_at(data, start - LENGTH_BYTES)
        if size > SKIPPED_BYTES_MAX:
            raise WireError("too-long", f"a message of {size} bytes, at most {self._size_max}")
        end = start + size
        too_large = size > self._size_max
        if end > len(data) or too_large:
            parts = self.parts = Parts(size, too_large=too_large)
            parts.feed(data[start:end])
        self._data, self._at = data[end:], 0
        return self._cut() if parts is not None else data[start:end]
