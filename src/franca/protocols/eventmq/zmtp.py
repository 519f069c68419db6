"""ZMTP 3.x in bytes: the greeting, the NULL mechanism, frames and commands, for both roles.

Knows sockets' types and nothing of what is said over them. A message is a list of frames.
Sizes are checked before anything of that size is gathered, and a frame that comes in pieces is
looked at again only when all of it is there.
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
COMMAND_BYTES_MAX: Final = 4_096
"""A command: READY with an identity, a PING, a subscription."""
FRAMES_MAX: Final = 64
"""Frames of one message that is gathered over several reads."""
_LONG_HEADER: Final = 9

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


def message(frames: Iterable[bytes]) -> bytes:
    """A whole message."""
    *first, end = frames
    return b"".join([*map(more, first), last(end)])


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


class Frames:
    """Cuts bytes into messages and commands. `commands` piles up those that came on the way.

    `usual` are the frames with which nearly all messages begin: they are known at a glance.
    """

    __slots__ = (
        "_at",
        "_data",
        "_frames",
        "_need",
        "_part",
        "_size_max",
        "_usual",
        "_usual_frames",
        "_usual_size",
        "commands",
    )

    def __init__(self, size_max: int, usual: Sequence[bytes] = (b"",)) -> None:
        self.commands: list[bytes] = []
        self._usual_frames = list(usual)
        self._usual = b"".join(map(more, usual))
        self._usual_size = len(self._usual)
        self._size_max = size_max
        self._data = b""
        self._at = 0
        self._part: bytearray | None = None
        self._need = 0
        self._frames: list[bytes] = []

    def __len__(self) -> int:
        """How many bytes wait, those of a message's first frames too."""
        unread = len(self._data) - self._at if self._part is None else len(self._part)
        return unread + sum(map(len, self._frames)) if self._frames else unread

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        part = self._part
        if part is not None:
            part += data
            if len(part) >= self._need:
                self._data = bytes(part)
                self._at = 0
                self._part = None
        elif self._at < len(self._data):
            self._data = self._data[self._at :] + data
            self._at = 0
        else:
            self._data = data
            self._at = 0

    @property
    def is_behind(self) -> bool:
        """Whether bytes wait that were not looked at since they came."""
        return self._part is None and self._at < len(self._data)

    def next_message(self) -> list[bytes] | None:
        """The next whole message, or None until more bytes are fed."""
        data = self._data
        at = self._at
        end = len(data)
        if at >= end:
            return None
        frames = self._frames
        if not frames and data.startswith(self._usual, at):
            frames += self._usual_frames
            at += self._usual_size
        append = frames.append
        while at + 1 < end:
            flags = data[at]
            start = at + 2
            if flags <= MORE:
                stop = start + data[at + 1]
                if stop > end:
                    break
                append(data[start:stop])
                at = stop
                if not flags:
                    self._at = at
                    self._frames = []
                    return frames
                continue
            if flags & LONG:
                start = at + _LONG_HEADER
                if start > end:
                    break
            stop = start + self._checked_size(flags, data, at)
            if stop > end:
                break
            at = stop
            if flags & COMMAND:
                self.commands.append(data[start:stop])
                continue
            append(data[start:stop])
            if not flags & MORE:
                self._at = at
                self._frames = []
                return frames
        self._wait(data, at)
        return None

    def _checked_size(self, flags: int, data: bytes, at: int) -> int:
        """The size of a long frame or a command, if it may come."""
        if flags > COMMAND | LONG or (flags & COMMAND and flags & MORE):
            raise WireError("bad-flags", f"no frame begins with {flags}")
        if not flags & LONG:
            return data[at + 1]
        size = int.from_bytes(data[at + 1 : at + _LONG_HEADER], "big")
        most = COMMAND_BYTES_MAX if flags & COMMAND else self._size_max
        if size > most:
            raise WireError("frame-too-large", f"{size} bytes, at most {most}")
        return size

    def _wait(self, data: bytes, at: int) -> None:
        """Keep what is left of the data until the frame that it begins is whole."""
        left = len(data) - at
        need = 2
        if left > 1:
            flags = data[at]
            if not flags & LONG:
                need = 2 + data[at + 1]
            elif left >= _LONG_HEADER:
                need = _LONG_HEADER + self._checked_size(flags, data, at)
            else:
                need = _LONG_HEADER
        frames = self._frames
        if frames:
            size = sum(map(len, frames)) + need
            if len(frames) >= FRAMES_MAX or size > self._size_max + _LONG_HEADER:
                raise WireError("message-too-large", f"{len(frames)} frames, {size} bytes")
        self._need = need
        self._part = bytearray(data[at:]) if left else None
        self._data = b""
        self._at = 0
