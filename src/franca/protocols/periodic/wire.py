"""Bytes to messages and back: the opening tells the dialect, and its frames follow.

Every frame is a magic word, a size and a payload; today's dialect puts a CRC between them. What is
not a frame is a WireError, and its size is checked before any of it is gathered. Arguments are read
and written in `text.py` and `binary.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from struct import Struct as Layout
from typing import Final
from zlib import crc32

from franca.core.errors import WireError
from franca.protocols.buffer import LARGE_PIECE
from franca.protocols.periodic import messages
from franca.protocols.periodic.crc import Shared
from franca.protocols.periodic.messages import Message, Opening

REQUEST: Final = b"\0REQ"
RESPONSE: Final = b"\0RES"
SEPARATOR: Final = b"\0\1"
NO_COMMAND: Final = -1
"""The command of a message whose second part is not one."""

LARGE_BYTES: Final = 1024 * 1024
"""A message so large that it is copied as little as can be."""
ID_BYTES_MAX: Final = 64
"""Ids of the old dialects have no fixed size; the longest ever seen is a UUID in text."""
_FRONT_BYTES: Final = 2 * ID_BYTES_MAX
"""An id, a command and the separators take less."""
_RAW_IDS: Final = (4, 16, 36)
"""Sizes of the ids that are not letters and digits: four bytes, a UUID, a UUID with dashes."""
_CRC_HEAD: Final = Layout(">4sII")
_CRC_FRONT: Final = Layout(">4sII4sB")
_PLAIN_HEAD: Final = Layout(">4sI")
_SIZE_MASK: Final = 0x7FFF_FFFF
_NAME_BYTES_MAX: Final = 1024
_LENGTH: Final = Layout(">q")
_NAMED_MIN: Final = 17
_NAMED_MAX: Final = _NAMED_MIN + 2 * _NAME_BYTES_MAX
_UNNAMED: Final = (messages.TYPE_CLIENT, messages.TYPE_WORKER)
_NAMED: Final = (messages.TYPE_NAMED_CLIENT, messages.TYPE_NAMED_WORKER)


# -- the opening -----------------------------------------------------------------------------


def read_opening(data: bytes) -> Opening | None:
    """The frame that a connection begins with; None until enough of it is there.

    The ninth byte decides: 1 or 2 is the kind itself, in an old dialect; all else must be the
    first byte of a CRC that fits. A WireError as soon as it can be neither.
    """
    have = len(data)
    if not REQUEST.startswith(data[:4]):
        raise WireError("not-periodic", "a connection must begin with a frame")
    if have < 8:
        return None
    size = int.from_bytes(data[4:8])
    if size != 1 and not _NAMED_MIN <= size <= _NAMED_MAX:
        raise WireError("not-periodic", "the first frame registers nobody")
    if have < 9:
        return None
    if size == 1 and data[8] in _UNNAMED:
        return Opening(data[8], False, 9)
    if have > 12 and data[12] not in (_NAMED if size > 1 else _UNNAMED):
        raise WireError("not-periodic", "the first frame registers nobody")
    end = 12 + size
    if have < end:
        return None
    payload = data[12:end]
    if crc32(payload) != int.from_bytes(data[8:12]):
        raise WireError("wrong-crc", "the first frame's CRC does not fit")
    name, token = _read_identity(payload) if size > 1 else (b"", b"")
    return Opening(payload[0], True, end, name, token)


def _read_identity(payload: bytes) -> tuple[bytes, bytes]:
    size = _LENGTH.unpack_from(payload, 1)[0]
    if not 0 <= size <= len(payload) - _NAMED_MIN:
        raise WireError("not-periodic", "the name does not fit into its frame")
    start = 9 + size
    if _LENGTH.unpack_from(payload, start)[0] != len(payload) - start - 8:
        raise WireError("not-periodic", "the token does not fit into its frame")
    return payload[9:start], payload[start + 8 :]


# -- frames ------------------------------------------------------------------------------------


class Frames(ABC):
    """Cuts frames. `need` is how many bytes the next one takes, as far as is known."""

    __slots__ = ("_size_max", "_sole_max", "need")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._sole_max = min(LARGE_PIECE, 12 + size_max)
        self.need = 1

    @abstractmethod
    def cut(self, data: bytes | memoryview, start: int) -> Message | None:
        """The message that begins at `start`; None, and `need` is set, until it is whole."""

    def sole(self, data: bytes) -> Message | None:
        """The message that came whole and alone, as nearly always; None if it may be otherwise."""
        message = self.cut(data, 0)
        return message if message is not None and message.end == len(data) else None

    def _await_head(self, magic: bytes, size: int) -> None:
        """Need the rest of a head. A wrong magic word is refused at the first wrong byte."""
        if not REQUEST.startswith(magic):
            raise WireError("no-frame", "a frame must begin with its magic word")
        self.need = size if len(magic) == 4 else len(magic) + 1

    def _check(self, magic: bytes, size: int) -> None:
        if magic != REQUEST:
            raise WireError("no-frame", "a frame must begin with its magic word")
        if size > self._size_max:
            raise WireError("frame-too-large", f"{size} bytes, at most {self._size_max}")


class CrcFrames(Frames):
    """Today's frames: magic, size, CRC, then an id of four bytes, a command, arguments."""

    __slots__ = ()

    def cut(self, data: bytes | memoryview, start: int) -> Message | None:
        """The message that begins at `start`; None, and `need` is set, until it is whole."""
        have = len(data) - start
        if have < 12:
            self._await_head(bytes(data[start : start + 4]), 12)
            return None
        magic, size, crc = _CRC_HEAD.unpack_from(data, start)
        if magic != REQUEST or size > self._size_max:
            self._check(magic, size)
        if have < 12 + size:
            self.need = 12 + size
            return None
        body = start + 12
        end = body + size
        if crc32(memoryview(data)[body:end]) != crc:
            raise WireError("wrong-crc", "a frame's CRC does not fit")
        if size < 5:
            raise WireError("no-frame", "a frame without a command")
        return Message(
            bytes(data[body : body + 4]), data[body + 4], bytes(data[body + 5 : end]), end
        )

    def sole(self, data: bytes) -> Message | None:
        """The message that came whole and alone, as nearly always; None if it may be otherwise."""
        have = len(data)
        if 17 <= have <= self._sole_max:
            magic, size, crc, msgid, command = _CRC_FRONT.unpack_from(data)
            # A small copy is made in less time than a view.
            if magic == REQUEST and size == have - 12 and crc32(data[12:]) == crc:
                return Message(msgid, command, data[17:], have)
        return None


class PlainFrames(Frames):
    """The frames before them, without a CRC."""

    __slots__ = ()

    def cut(self, data: bytes | memoryview, start: int) -> Message | None:
        """The message that begins at `start`; None, and `need` is set, until it is whole."""
        have = len(data) - start
        if have < 8:
            self._await_head(bytes(data[start : start + 4]), 8)
            return None
        magic, size = _PLAIN_HEAD.unpack_from(data, start)
        size &= _SIZE_MASK
        head = 8
        if magic != REQUEST:
            self._check(magic, size)
        if have == 8 and size & 0xFE == 0xC2:
            # The next byte tells whether this one is part of a size written as text.
            self.need = 9
            return None
        if size >= 0x80 and _MANGLED.match(data, start + 4):
            mangled = _read_mangled(bytes(data[start + 4 : start + 4 + _MANGLED_LOOK]))
            if mangled is None:
                self.need = 4 + _MANGLED_LOOK
                return None
            if mangled[1]:
                head, size = 4 + mangled[0], mangled[1]
        if size > self._size_max:
            self._check(magic, size)
        if have < head + size:
            self.need = head + size
            return None
        body = start + head
        end = body + size
        msgid, command, args_at = self.split(bytes(data[body : min(end, body + _FRONT_BYTES)]))
        return Message(msgid, command, bytes(data[body + args_at : end]), end)

    @abstractmethod
    def split(self, front: bytes) -> tuple[bytes, int, int]:
        """An id, a command, and where its arguments begin, from the front of a payload."""


class TextFrames(PlainFrames):
    """The document's: an id of any size, the command and arguments, separated by 00 01."""

    def split(self, front: bytes) -> tuple[bytes, int, int]:
        """An id, a command, and where its arguments begin, from the front of a payload."""
        at = front.find(SEPARATOR, 0, ID_BYTES_MAX + 2)
        if at < 0:
            raise WireError("no-frame", "a frame without an id")
        command = at + 2
        if len(front) == command + 1 or front.startswith(SEPARATOR, command + 1):
            return front[:at], front[command], command + 3
        return front[:at], NO_COMMAND, command


class BinaryFrames(PlainFrames):
    """Those of 2018: an id of four bytes, a command, arguments with their lengths."""

    def split(self, front: bytes) -> tuple[bytes, int, int]:
        """An id, a command, and where its arguments begin, from the front of a payload."""
        if len(front) < 5:
            raise WireError("no-frame", "a frame without a command")
        return front[:4], front[4], 5


class UndecidedFrames(BinaryFrames, TextFrames):
    """Those of a connection whose dialect its first message tells: `is_binary` after that.

    Text has a command of one byte between separators, and an id that is text too or as long as
    the two that were not; all else has an id of four bytes, which may look like a separator.
    """

    def __init__(self, size_max: int) -> None:
        super().__init__(size_max)
        self.is_binary = False

    def split(self, front: bytes) -> tuple[bytes, int, int]:
        """An id, a command, and where its arguments begin, from the front of a payload."""
        at = front.find(SEPARATOR, 0, ID_BYTES_MAX + 2)
        if at in _RAW_IDS or (at > 0 and front[:at].isascii() and front[:at].isalnum()):
            found = TextFrames.split(self, front)
            if found[1] != NO_COMMAND:
                return found
        self.is_binary = True
        return BinaryFrames.split(self, front)


# One old client writes its sizes as text in UTF-8: a byte from 80 on becomes two. It shows only
# then, and because its ids are decimal numbers nothing else looks like it.
_MANGLED: Final = re.compile(rb"[\x00-\x7f]{0,3}[\xc2\xc3][\x80-\xbf]", re.DOTALL)
_MANGLED_FRAME: Final = re.compile(
    rb"((?:[\x00-\x7f]|[\xc2\xc3][\x80-\xbf]){4})[0-9]{1,10}\x00\x01", re.DOTALL
)
_MANGLED_LOOK: Final = 4 * 2 + 10 + 2


def _read_mangled(head: bytes) -> tuple[int, int] | None:
    """How many bytes a size written as text takes, and the size; 0 if it is none.

    None until that can be told: sizes like these announce more bytes than are looked at.
    """
    if len(head) < _MANGLED_LOOK:
        return None
    found = _MANGLED_FRAME.match(head)
    if found is None:
        return (0, 0)
    written = found[1]
    return len(written), int.from_bytes(written.decode().encode("latin-1"))


class FrameReader:
    """Reads the opening, and then the messages that follow as `frames` cuts them.

    What is not whole, or not yet asked for, is kept in `_part` until there is as much as `_need`.
    """

    __slots__ = ("_at", "_data", "_need", "_part", "frames", "has_input")

    def __init__(self) -> None:
        self.frames: Frames | None = None
        self._need = 1
        self.clear()

    def clear(self) -> None:
        """Drop all that was not read."""
        self._data, self._at, self.has_input = b"", 0, False
        self._part = bytearray()

    def __len__(self) -> int:
        return len(self._data) - self._at + len(self._part)

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        self.has_input = True
        if self._part:
            self._part += data
            self.has_input = len(self._part) >= self._need
        elif self._data:
            self._part += memoryview(self._data)[self._at :]
            self._part += data
            self._data, self._at, self._need = b"", 0, 1
        else:
            self._data = data

    def next_message(self, data: bytes = b"") -> Message | Opening | None:
        """The next message; None until more bytes come."""
        frames = self.frames
        if data:
            if not (self.has_input or self._part) and frames is not None:
                message = frames.sole(data)
                if message is not None:
                    return message
            self.feed(data)
            if not self.has_input:
                return None
        if self._part:
            if frames is not None and self._need >= LARGE_BYTES:
                return self._take_large(frames)
            self._data = bytes(self._part)
            self._part.clear()
        found = read_opening(self._data) if frames is None else frames.cut(self._data, self._at)
        if found is None:
            self._part += memoryview(self._data)[self._at :]
            self._need = 1 if frames is None else frames.need
        self._at = len(self._data) if found is None else found.end
        if self._at == len(self._data):
            self._data, self._at, self.has_input = b"", 0, False
        return found

    def _take_large(self, frames: Frames) -> Message | None:
        """The large message in front, without a copy of everything behind it."""
        with memoryview(self._part) as view:
            message = frames.cut(view, 0)
        if message is None:
            self._need = frames.need
            self.has_input = False
            return None
        del self._part[: message.end]
        self._need = 1
        self.has_input = len(self._part) > 0
        return message


UUID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id as npm's clients write it."""


# -- answers -------------------------------------------------------------------------------


def crc_frame(payload: bytes) -> bytes:
    """An answer of today's dialect."""
    return _CRC_HEAD.pack(RESPONSE, len(payload), crc32(payload)) + payload


def crc_front(front: bytes, shared: Shared, back: bytes = b"") -> bytes:
    """Such an answer up to the shared data that stands between `front` and `back`."""
    size = len(front) + shared.size + len(back)
    return _CRC_HEAD.pack(RESPONSE, size, crc32(back, shared.crc_behind(front))) + front


def plain_frame(payload: bytes) -> bytes:
    """An answer of an older one."""
    return _PLAIN_HEAD.pack(RESPONSE, len(payload)) + payload


def plain_front(front: bytes, shared: Shared, back: bytes = b"") -> bytes:
    """Such an answer up to the shared data that stands between `front` and `back`."""
    return _PLAIN_HEAD.pack(RESPONSE, len(front) + shared.size + len(back)) + front
