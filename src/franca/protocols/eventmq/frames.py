"""ZMTP's frames: bytes in, whole messages and commands out.

Sizes are checked before anything of that size is gathered. A large frame that comes in pieces is
gathered by itself; one that makes its message too large is left out of it, and its bytes are
dropped as they come: the messages behind it can still be read. Short frames are not counted one by
one, there are only so many of them. What is left out is the same however the bytes were cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from franca.core.errors import WireError
from franca.protocols.eventmq.zmtp import COMMAND, LARGE_BYTES, LONG, MORE, more
from franca.protocols.gathering import Gathering

COMMAND_BYTES_MAX: Final = 4_096
"""A command: READY with an identity, a PING, a subscription."""
COMMANDS_MAX: Final = 64
"""Commands between two messages that are taken at once; `is_behind` if others follow."""
FRAMES_MAX: Final = 64
"""Frames of one message."""
SKIPPED_BYTES_MAX: Final = 1 << 30
"""A frame that is too large is dropped as it comes, but not one that can only be rubbish."""
_LONG_HEADER: Final = 9


class Skipped(NamedTuple):
    """A frame that was left out of its message, where it stood, and how large it was."""

    at: int
    size: int


class _Large:
    """A large frame that is on its way; `body` is None if it is too large to be kept."""

    __slots__ = ("body", "flags", "missing", "size")

    def __init__(self, flags: int, size: int, body: Gathering | None) -> None:
        self.flags = flags
        self.size = size
        self.missing = size
        self.body = body

    def feed(self, data: bytes) -> int:
        """Take what belongs to it; returns how many bytes that were."""
        taken = min(len(data), self.missing) if self.body is None else self.body.feed(data)
        self.missing -= taken
        return taken


class Frames:
    """Cuts bytes into messages and commands. `commands` piles up those that came on the way.

    `usual` are the frames with which nearly all messages begin: they are known at a glance.
    `data` are the bytes that were not looked at yet: none behind a message that was the last of
    them. `large` is a large frame that is on its way, and None behind a message. `skipped` are the
    frames of the message at hand that were too large; they are empty there.
    """

    __slots__ = (
        "_at",
        "_frames",
        "_need",
        "_part",
        "_size_max",
        "_usual",
        "_usual_frames",
        "_usual_size",
        "commands",
        "data",
        "large",
        "skipped",
    )

    def __init__(self, size_max: int, usual: Sequence[bytes] = (b"",)) -> None:
        self.commands: list[bytes] = []
        self.skipped: list[Skipped] = []
        self._usual_frames = list(usual)
        self._usual = b"".join(map(more, usual))
        self._usual_size = len(self._usual)
        self._size_max = size_max
        self.data = b""
        self._at = 0
        self._part: bytearray | None = None
        self._need = 0
        self.large: _Large | None = None
        self._frames: list[bytes] = []

    def __len__(self) -> int:
        """How many bytes wait, those of a message's first frames too."""
        unread = len(self.data) - self._at if self._part is None else len(self._part)
        large = self.large
        if large is not None:
            unread += 1 if large.body is None else 1 + large.body.have
        return unread + sum(map(len, self._frames)) if self._frames else unread

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        large = self.large
        if large is not None and large.missing:
            taken = large.feed(data)
            if taken == len(data):
                return
            data = data[taken:]
        part = self._part
        if part is not None:
            part += data
            if len(part) >= self._need:
                self.data = bytes(part)
                self._at = 0
                self._part = None
        elif self._at < len(self.data):
            self.data = self.data[self._at :] + data
            self._at = 0
        else:
            self.data = data
            self._at = 0

    @property
    def is_behind(self) -> bool:
        """Whether bytes wait that were not looked at since they came."""
        if self.large is not None:
            return not self.large.missing
        return self._part is None and self._at < len(self.data)

    def next_message(self) -> list[bytes] | None:
        """The next whole message; None until more bytes are fed, or `commands` are taken."""
        if self.large is not None:
            if self.large.missing:
                return None
            if self._take_large():
                return self._whole()
        data, at, begun = self.data, self._at, self._frames
        end = len(data)
        if at >= end:
            return None
        frames = begun
        if not begun:
            frames = []
            if data.startswith(self._usual, at):
                frames = self._usual_frames[:]
                at += self._usual_size
        append = frames.append
        last = end - 1
        while at < last:
            flags = data[at]
            if flags <= MORE:
                start = at + 2
                stop = start + data[at + 1]
                if stop > end:
                    break
                append(data[start:stop])
            else:
                stop = self._take_unusual(flags, data, at, frames)
                if not stop:
                    break
                flags &= ~LONG
                if flags == COMMAND and len(self.commands) >= COMMANDS_MAX:
                    self._frames, self._at = frames, stop
                    return None
            at = stop
            if not flags:
                if begun:
                    self._frames = []
                # What was read is not kept until more comes.
                self.data, self._at = (data, at) if at < end else (b"", 0)
                return frames
        self._frames = frames
        self._wait(data, at)
        return self.next_message() if self.large is not None else None

    def _take_unusual(self, flags: int, data: bytes, at: int, frames: list[bytes]) -> int:
        """Take a long frame or a command; returns where the next begins, 0 if it is not whole."""
        start = at + (_LONG_HEADER if flags & LONG else 2)
        if start > len(data):
            return 0
        size = self._checked_size(flags, data, at)
        stop = start + size
        if stop > len(data):
            return 0
        if flags & COMMAND:
            self.commands.append(data[start:stop])
            return stop
        # A message that begins in these bytes is no longer than they are so far.
        if (self._frames or stop > self._size_max) and not self._fits(frames, size):
            return 0
        frames.append(data[start:stop])
        return stop

    def _whole(self) -> list[bytes]:
        frames = self._frames
        self._frames = []
        return frames

    def _take_large(self) -> bool:
        """Put the large frame where it belongs; True if it was its message's last."""
        large = self.large
        assert large is not None
        self.large = None
        if large.body is None:
            self.skipped.append(Skipped(len(self._frames), large.size))
            self._frames.append(b"")
        else:
            self._frames.append(large.body.value())
        return not large.flags & MORE

    def _checked_size(self, flags: int, data: bytes, at: int) -> int:
        """The size of a long frame or a command, if it may come."""
        if flags > COMMAND | LONG or (flags & COMMAND and flags & MORE):
            raise WireError("bad-flags", f"no frame begins with {flags}")
        if not flags & LONG:
            return data[at + 1]
        size = int.from_bytes(data[at + 1 : at + _LONG_HEADER], "big")
        most = COMMAND_BYTES_MAX if flags & COMMAND else SKIPPED_BYTES_MAX
        if size > most:
            raise WireError("frame-too-large", f"a frame of {size} bytes, at most {most}")
        return size

    def _wait(self, data: bytes, at: int) -> None:
        """Keep what is left of the data until the frame that it begins is whole."""
        left = len(data) - at
        need = 2
        self.data = b""
        self._at = 0
        if left > 1:
            flags = data[at]
            if not flags & LONG:
                need = 2 + data[at + 1]
            elif left >= _LONG_HEADER:
                size = self._checked_size(flags, data, at)
                need = _LONG_HEADER + size
                if not flags & COMMAND:
                    fits = self._fits(self._frames, size)
                    if size > LARGE_BYTES or not fits:
                        self._begin_large(flags, size, data[at + _LONG_HEADER :], fits)
                        return
            else:
                need = _LONG_HEADER
        self._check_count(self._frames)
        self._need = need
        self._part = bytearray(data[at:]) if left else None

    def _begin_large(self, flags: int, size: int, data: bytes, fits: bool) -> None:
        """Gather a large frame, or drop one that makes its message too large."""
        large = self.large = _Large(flags, size, Gathering(size) if fits else None)
        self.data = data[large.feed(data) :]

    def _fits(self, frames: list[bytes], size: int) -> bool:
        """Whether a long frame may stand behind these frames of its message."""
        self._check_count(frames)
        return sum(map(len, frames)) + size <= self._size_max

    def _check_count(self, frames: list[bytes]) -> None:
        if len(frames) >= FRAMES_MAX:
            raise WireError("message-too-large", f"a message of more than {FRAMES_MAX} frames")
