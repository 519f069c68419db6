"""ZMTP 3.x in bytes: the greeting, the NULL mechanism, frames and commands, for both roles.

Knows the types of sockets, and nothing of what is sent over them. A message is a list of frames.

Sizes are checked before anything of that size is kept. A long frame that comes in pieces is kept
apart from the others; one that makes its message too large is left out of it, and its bytes are
dropped as they come: the messages behind it can still be read. Short frames are not counted one by
one, there are only so many of them. What is left out is the same however the bytes were cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from franca.core.errors import WireError
from franca.protocols.buffer import PartialBytes

_SIGNATURE_SIZE: Final = 10
_MAJOR: Final = 10
_MECHANISM: Final = slice(12, 32)
_NULL: Final = b"NULL".ljust(20, b"\0")
GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x01" + _NULL + bytes(32)

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4
SHORT_MAX: Final = 255
LARGE_BYTES: Final = 64 * 1024
"""A frame beyond this is not copied to be sent."""
COMMAND_BYTES_MAX: Final = 4_096
"""A command: READY with an identity, a PING, a subscription."""
FRAMES_MAX: Final = 64
"""Frames of one message."""
SKIPPED_BYTES_MAX: Final = 1 << 30
"""A frame that is too large is dropped as it comes, but not one that can only be rubbish."""
_LONG_HEADER: Final = 9

MORE_HEADERS: Final = [bytes((MORE, size)) for size in range(SHORT_MAX + 1)]
"""What stands before a frame of that size that others follow."""
LAST_HEADERS: Final = [bytes((0, size)) for size in range(SHORT_MAX + 1)]
"""What stands before a message's last frame."""


# -- what is written -----------------------------------------------------------------------


def header(flags: int, size: int) -> bytes:
    """What stands before a frame, or a command, of that size."""
    if size <= SHORT_MAX:
        return bytes((flags, size))
    return bytes((flags | LONG,)) + size.to_bytes(8, "big")


def more(data: bytes) -> bytes:
    """A frame that others follow."""
    return header(MORE, len(data)) + data


def last(data: bytes) -> bytes:
    """A message's last frame."""
    return header(0, len(data)) + data


def pieces(begun: bytes, frames: Sequence[bytes]) -> list[bytes]:
    """A message whose first frames are `begun`, in pieces: a large frame is one by itself."""
    written: list[bytes] = []
    small = [begun]
    end = len(frames) - 1
    for at, frame in enumerate(frames):
        small += header(MORE if at < end else 0, len(frame)), frame
        if len(frame) > LARGE_BYTES:
            written += [b"".join(small[:-1]), frame]
            small = []
    return [*written, b"".join(small)] if small else written


def command(name: bytes, data: bytes = b"") -> bytes:
    """A command of the transport itself."""
    body = bytes((len(name),)) + name + data
    return header(COMMAND, len(body)) + body


def ready(socket_type: bytes, identity: bytes = b"") -> bytes:
    """The end of the handshake: the type of the socket that sends it, and its name."""
    properties = _property(b"Socket-Type", socket_type) + _property(b"Identity", identity)
    return command(b"READY", properties)


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


class Signature(NamedTuple):
    """The peer has shown that it speaks ZMTP: libzmq waits for our greeting before it goes on."""


class Command(NamedTuple):
    """A command of the transport."""

    body: bytes


class Truncated(NamedTuple):
    """A message with frames that were too large: they are empty in it.

    `sizes` has the size of each by its place.
    """

    frames: list[bytes]
    sizes: dict[int, int]


Message = list[bytes] | Truncated | Command | Signature


class FrameReader:
    """Cuts bytes into messages, and into commands between them; first a greeting, if not `greeted`.

    `usual` are the frames with which nearly all messages begin: they are recognised as one.
    `partial` is a long frame that is not whole, or was not put into its message yet.
    """

    def __init__(
        self, size_max: int, usual: Sequence[bytes] = (b"",), *, greeted: bool = True
    ) -> None:
        self.has_input = False
        self.partial: PartialBytes | None = None
        self._has_more = False  # whether other frames follow the partial one
        self._greeted = self._is_signed = greeted
        self._usual_frames = list(usual)
        self._usual = b"".join(map(more, usual))
        self._size_max = size_max
        self._data = b""
        self._at = 0
        self._frames: list[bytes] = []
        self._skipped: dict[int, int] = {}

    def __len__(self) -> int:
        """How many bytes wait, those of a message's first frames too."""
        unread = len(self._data) - self._at + sum(map(len, self._frames))
        if self.partial is not None:
            unread += 1 + self.partial.kept
        return unread

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        partial = self.partial
        self.has_input = True
        if partial is not None and not partial.is_whole:
            data = data[partial.feed(data) :]
            self.has_input = partial.is_whole
        self._data = self._data[self._at :] + data
        self._at = 0

    def next_message(self, data: bytes = b"") -> Message | None:
        """The next whole message or command; None until more bytes come."""
        if self.partial is not None or not self._greeted:
            if data:
                self.feed(data)
            return self._next_of_parts()
        at = self._at
        if not data:
            data = self._data
        elif self._data:
            data, at = self._data[at:] + data, 0
        begun = frames = self._frames
        end = len(data)
        if not begun:
            frames = []
            usual = self._usual
            if data[at : at + len(usual)] == usual:  # `startswith` takes twice as long
                frames = self._usual_frames[:]
                at += len(usual)
        last = end - 1
        while at < last:
            flags = data[at]
            if flags <= MORE:
                start = at + 2
                stop = start + data[at + 1]
                if stop > end:
                    break
            else:
                start, stop = self._long_frame(data, at, frames)
                if stop > end:
                    break
                if flags & COMMAND:
                    self._frames = frames
                    self._advance(data, stop)
                    return Command(data[start:stop])
                flags &= MORE
            frames.append(data[start:stop])
            at = stop
            if not flags:
                # As `_advance`, without a call; nearly always nothing was kept, nor is to be.
                if at < end:
                    self._data, self._at, self.has_input = data, at, True
                elif self._data:
                    self._data, self._at, self.has_input = b"", 0, False
                return self._finish(frames) if begun or len(frames) > FRAMES_MAX else frames
        self._frames = _counted(frames)
        if self.partial is not None:
            return self._next_of_parts()
        self._data, self._at, self.has_input = data[at:], 0, False
        return None

    def _next_of_parts(self) -> Message | None:
        """The same behind the greeting, or behind a long frame that came in parts."""
        message: Message | None
        while self.has_input:
            if not self._greeted:
                message = self._greet(self._data)
            elif self.partial is not None:
                message = self._end_partial(self.partial)
            else:
                return self.next_message()
            if message is not None:
                return message
        return None

    def _greet(self, data: bytes) -> Signature | None:
        """Read the greeting. Wrong bytes are a WireError as soon as they are there."""
        if data[:1] != b"\xff" or data[9:10] not in (b"", b"\x7f"):
            raise WireError("no-greeting", "these bytes are not ZMTP")
        if len(data) > _MAJOR and data[_MAJOR] < 3:
            raise WireError("old-version", f"ZMTP {data[_MAJOR]} is not spoken here")
        if len(data) < len(GREETING):
            self.has_input = False
        elif data[_MECHANISM] != _NULL:
            raise WireError("mechanism", "only the NULL mechanism is spoken here")
        else:
            self._greeted = True
            self._advance(data, len(GREETING))
        if self._is_signed or len(data) < _SIGNATURE_SIZE:
            return None
        self._is_signed = True
        return Signature()

    def _long_frame(self, data: bytes, at: int, frames: list[bytes]) -> tuple[int, int]:
        """Where a long frame or a command begins and ends.

        Beyond the data if it is not whole, or is too large: it is the partial one then.
        """
        flags = data[at]
        start = at + (_LONG_HEADER if flags & LONG else 2)
        if start > len(data):
            return start, start
        stop = start + _checked_size(data, at)
        # A message that begins in these bytes is no longer than they are so far.
        if flags & COMMAND or (stop <= len(data) and stop <= self._size_max and not self._frames):
            return start, stop
        fits = sum(map(len, frames)) + stop - start <= self._size_max
        if fits and stop <= len(data):
            return start, stop
        partial = self.partial = PartialBytes(stop - start, keeps=fits)
        self._has_more = bool(flags & MORE)
        rest = data[start:]
        self._data, self._at = rest[partial.feed(rest) :], 0
        self.has_input = partial.is_whole
        return start, len(data) + 1

    def _advance(self, data: bytes, at: int) -> None:
        """Go on at that place; nothing that was read is kept until more comes."""
        self.has_input = at < len(data)
        self._data, self._at = (data, at) if self.has_input else (b"", 0)

    def _end_partial(self, partial: PartialBytes) -> Message | None:
        """Put the partial frame, which is whole, where it belongs."""
        self.partial = None
        if not partial.keeps:
            self._skipped[len(self._frames)] = partial.size
        self._frames.append(partial.value())
        self.has_input = self._at < len(self._data)
        return None if self._has_more else self._finish(self._frames)

    def _finish(self, frames: list[bytes]) -> list[bytes] | Truncated:
        self._frames = []
        if not self._skipped:
            return _counted(frames)
        sizes, self._skipped = self._skipped, {}
        return Truncated(_counted(frames), sizes)


def _counted(frames: list[bytes]) -> list[bytes]:
    """The frames, if they are not too many for one message."""
    if len(frames) > FRAMES_MAX:
        raise WireError("message-too-large", f"a message of more than {FRAMES_MAX} frames")
    return frames


def _checked_size(data: bytes, at: int) -> int:
    """The size of a long frame or a command, if it may come."""
    flags = data[at]
    if flags > COMMAND | LONG or (flags & COMMAND and flags & MORE):
        raise WireError("bad-flags", f"no frame begins with {flags}")
    if not flags & LONG:
        return data[at + 1]
    size = int.from_bytes(data[at + 1 : at + _LONG_HEADER], "big")
    most = COMMAND_BYTES_MAX if flags & COMMAND else SKIPPED_BYTES_MAX
    if size > most:
        raise WireError("frame-too-large", f"a frame of {size} bytes, at most {most}")
    return size
