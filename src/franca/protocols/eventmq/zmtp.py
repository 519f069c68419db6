"""ZMTP 3.x in bytes: the greeting, the NULL mechanism, frames and commands, for both roles.

Knows sockets' types and nothing of what is said over them. A message is a list of frames; how
bytes are cut into them is in `frames.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from franca.core.errors import WireError

GREETING_SIZE: Final = 64
_SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
_SIGNATURE_SIZE: Final = 10
_MAJOR: Final = 10
_MECHANISM: Final = slice(12, 32)
_NULL: Final = b"NULL".ljust(20, b"\0")
GREETING: Final = _SIGNATURE + b"\x03\x01" + _NULL + bytes(32)

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4
SHORT_MAX: Final = 255
LARGE_BYTES: Final = 64 * 1024
"""Frames beyond this are gathered by themselves, and not copied to be said."""

MORE_HEADS: Final = [bytes((MORE, size)) for size in range(SHORT_MAX + 1)]
"""What stands before a frame of that size that others follow."""
LAST_HEADS: Final = [bytes((0, size)) for size in range(SHORT_MAX + 1)]
"""What stands before a message's last frame."""


# -- what is written -----------------------------------------------------------------------


def more(data: bytes) -> bytes:
    """A frame that others follow."""
    size = len(data)
    if size <= SHORT_MAX:
        return MORE_HEADS[size] + data
    return b"\x03" + size.to_bytes(8, "big") + data


def last(data: bytes) -> bytes:
    """A message's last frame."""
    size = len(data)
    if size <= SHORT_MAX:
        return LAST_HEADS[size] + data
    return b"\x02" + size.to_bytes(8, "big") + data


def last_in_pieces(data: Sequence[bytes]) -> list[bytes]:
    """A message's last frame, if that is long: what stands before it, and its pieces."""
    return [b"\x02" + sum(map(len, data)).to_bytes(8, "big"), *data]


def message(frames: Iterable[bytes]) -> bytes:
    """A whole message."""
    *first, end = frames
    return b"".join([*map(more, first), last(end)])


def pieces(begun: bytes, frames: Sequence[bytes]) -> list[bytes]:
    """A message whose first frames are `begun`, in pieces: a large frame is one by itself."""
    said: list[bytes] = []
    small = [begun]
    end = len(frames) - 1
    for at, frame in enumerate(frames):
        size = len(frame)
        if size <= LARGE_BYTES:
            small.append(last(frame) if at == end else more(frame))
        else:
            small.append((b"\x02" if at == end else b"\x03") + size.to_bytes(8, "big"))
            said += [b"".join(small), frame]
            small = []
    return [*said, b"".join(small)] if small else said


def command(name: bytes, data: bytes = b"") -> bytes:
    """A command of the transport itself."""
    body = bytes((len(name),)) + name + data
    if len(body) <= SHORT_MAX:
        return bytes((COMMAND, len(body))) + body
    return bytes((COMMAND | LONG,)) + len(body).to_bytes(8, "big") + body


def ready(socket_type: bytes, identity: bytes = b"") -> bytes:
    """The end of the handshake: what kind of socket speaks here."""
    return command(
        b"READY", _property(b"Socket-Type", socket_type) + _property(b"Identity", identity)
    )


def error(reason: bytes) -> bytes:
    """The handshake is refused."""
    return command(b"ERROR", bytes((len(reason),)) + reason)


def pong(ping: bytes) -> bytes:
    """The answer to a PING: its context comes back, its time to live does not."""
    return command(b"PONG", ping[2:18])


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


# -- what is read --------------------------------------------------------------------------


def split_command(body: bytes) -> tuple[bytes, bytes]:
    """A command's name, in capitals, and what it carries."""
    if not body or len(body) < 1 + body[0]:
        raise WireError("bad-command", "a command without a name")
    end = 1 + body[0]
    return body[1:end].upper(), body[end:]


def read_properties(data: bytes) -> Mapping[bytes, bytes]:
    """What a READY says of its sender, by names in small letters."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        value_at = at + 1 + data[at] + 4
        value_end = value_at + int.from_bytes(data[value_at - 4 : value_at], "big")
        if value_at > len(data) or value_end > len(data):
            raise WireError("bad-property", "a property is longer than its command")
        found[data[at + 1 : value_at - 4].lower()] = data[value_at:value_end]
        at = value_end
    return found


class Greeted:
    """Reads a peer's greeting; `rest` is what came behind it. Wrong bytes are a WireError at once.

    The peer's signature is enough to answer: libzmq waits for ours before it says more.
    """

    __slots__ = ("_data", "rest")

    def __init__(self) -> None:
        self._data = b""
        self.rest = b""

    def __len__(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> bool:
        """Take bytes; True once the greeting is whole."""
        data = self._data = self._data + data
        if data[:1] != b"\xff" or data[9:10] not in (b"", b"\x7f"):
            raise WireError("no-greeting", "these bytes are not ZMTP")
        if len(data) > _MAJOR and data[_MAJOR] < 3:
            raise WireError("old-version", f"ZMTP {data[_MAJOR]} is not spoken here")
        if len(data) < GREETING_SIZE:
            return False
        if data[_MECHANISM] != _NULL:
            raise WireError("mechanism", "only the NULL mechanism is spoken here")
        self.rest = data[GREETING_SIZE:]
        self._data = b""
        return True

    @property
    def is_signed(self) -> bool:
        """Whether the peer has shown that it speaks ZMTP."""
        return len(self._data) >= _SIGNATURE_SIZE
