"""Bytes to messages: the opening tells the dialect, and the frames behind it are cut by it.

Every frame is a magic word, a size and a payload; today's dialect puts a CRC between them. A
message is (id, command, arguments). A frame that is no frame is a WireError, and its size is
judged before any of it is gathered. Nothing is kept here but how many bytes are still missing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from struct import Struct as Layout
from typing import Final
from zlib import crc32

from franca.core.errors import WireError
from franca.protocols.buffer import LARGE_PIECE
from franca.protocols.periodic.opening import REQUEST, Opening, read_opening

RESPONSE: Final = b"\0RES"
SEPARATOR: Final = b"\0\1"
NO_COMMAND: Final = -1
"""What a message says whose second part is no command."""

LARGE_BYTES: Final = 1024 * 1024
"""A message so large that it is copied as little as can be."""
ID_BYTES_MAX: Final = 64
"""Ids of the old dialects have no fixed size; the longest ever seen is a UUID in text."""
_FRONT_BYTES: Final = 2 * ID_BYTES_MAX
"""An id, a command and what parts them take less."""
_RAW_IDS: Final = (4, 16, 36)
"""Sizes of the ids that are no letters and digits: four bytes, a UUID, a UUID with dashes."""
_CRC_HEAD: Final = Layout(">4sII")
_PLAIN_HEAD: Final = Layout(">4sI")
_SIZE_MASK: Final = 0x7FFF_FFFF

Message = tuple[bytes, int, bytes, int]
"""An id, a command, its arguments, and where the next message begins."""


class Frames(ABC):
    """Cuts messages off. `need` is how many bytes the next one takes, as far as is known."""

    __slots__ = ("_size_max", "need")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self.need = 1

    @abstractmethod
    def cut(self, data: bytes, start: int) -> Message | None:
        """The message that begins at `start`; None, and `need` is set, until it is whole."""

    def cut_first(self, data: bytearray) -> Message | None:
        """The same of what lies in front, for messages so large that each copy counts."""
        return self.cut(bytes(data), 0)

    def _await_head(self, magic: bytes, size: int) -> None:
        """Need the rest of a head. What is no magic word is refused at the byte that shows it."""
        if not REQUEST.startswith(magic):
            raise WireError("no-frame", "a frame must begin with its magic word")
        self.need = size if len(magic) == 4 else len(magic) + 1

    def _judge(self, magic: bytes, size: int) -> None:
        if magic != REQUEST:
            raise WireError("no-frame", "a frame must begin with its magic word")
        if size > self._size_max:
            raise WireError("frame-too-large", f"{size} bytes, at most {self._size_max}")


class CrcFrames(Frames):
    """Today's frames: magic, size, CRC, then an id of four bytes, a command, arguments."""

    __slots__ = ()

    def cut(self, data: bytes, start: int) -> Message | None:
        """The message that begins at `start`; None, and `need` is set, until it is whole."""
        have = len(data) - start
        if have < 12:
            self._await_head(data[start : start + 4], 12)
            return None
        magic, size, crc = _CRC_HEAD.unpack_from(data, start)
        if magic != REQUEST or size > self._size_max:
            self._judge(magic, size)
        if have < 12 + size:
            self.need = 12 + size
            return None
        end = start + 12 + size
        # A large payload is copied once, without what stands in front of it; a small one is copied
        # in less time than a view of it is made.
        view = data[start + 12 : end] if size < LARGE_PIECE else memoryview(data)[start + 12 : end]
        if crc32(view) != crc:
            raise WireError("wrong-crc", "a frame's CRC does not fit")
        if size < 5:
            raise WireError("no-frame", "a frame without a command")
        return data[start + 12 : start + 16], data[start + 16], data[start + 17 : end], end

    def cut_first(self, data: bytearray) -> Message | None:
        """The message that lies in front, of which only the arguments are copied."""
        magic, size, crc = _CRC_HEAD.unpack_from(data)
        end = 12 + size
        if magic != REQUEST or size < 5 or len(data) < end:
            return super().cut_first(data)
        with memoryview(data) as view:
            if crc32(view[12:end]) != crc:
                raise WireError("wrong-crc", "a frame's CRC does not fit")
            return bytes(view[12:16]), data[16], bytes(view[17:end]), end


class PlainFrames(Frames):
    """The frames before them: no CRC; `split` says how an id and a command are found."""

    __slots__ = ()

    def cut(self, data: bytes, start: int) -> Message | None:
        """The message that begins at `start`; None, and `need` is set, until it is whole."""
        have = len(data) - start
        if have < 8:
            self._await_head(data[start : start + 4], 8)
            return None
        magic, size = _PLAIN_HEAD.unpack_from(data, start)
        size &= _SIZE_MASK
        head = 8
        if magic != REQUEST:
            self._judge(magic, size)
        if have == 8 and size & 0xFE == 0xC2:
            # The next byte tells whether this one is part of a size written as text.
            self.need = 9
            return None
        if size >= 0x80 and _MANGLED.match(data, start + 4):
            mangled = _read_mangled(data[start + 4 : start + 4 + _MANGLED_LOOK])
            if mangled is None:
                self.need = 4 + _MANGLED_LOOK
                return None
            if mangled[1]:
                head, size = 4 + mangled[0], mangled[1]
        if size > self._size_max:
            self._judge(magic, size)
        if have < head + size:
            self.need = head + size
            return None
        end = start + head + size
        return (*self.split(data[start + head : end]), end)

    def cut_first(self, data: bytearray) -> Message | None:
        """The message that lies in front, of which only the arguments are copied."""
        magic, size = _PLAIN_HEAD.unpack_from(data)
        end = 8 + (size & _SIZE_MASK)
        is_usual = magic == REQUEST and 8 + _FRONT_BYTES < end <= 8 + self._size_max
        if not is_usual or len(data) < end or _MANGLED.match(data, 4):
            return super().cut_first(data)
        with memoryview(data) as view:
            # All but the arguments stands in the first bytes, and they are the rest.
            msgid, command, args = self.split(bytes(view[8 : 8 + _FRONT_BYTES]))
            return msgid, command, bytes(view[8 + _FRONT_BYTES - len(args) : end]), end

    @abstractmethod
    def split(self, payload: bytes) -> tuple[bytes, int, bytes]:
        """An id, a command and its arguments."""


class TextFrames(PlainFrames):
    """The document's: an id of any size, the command and arguments, parted by 00 01."""

    __slots__ = ()

    def split(self, payload: bytes) -> tuple[bytes, int, bytes]:
        """An id, a command and its arguments."""
        at = payload.find(SEPARATOR, 0, ID_BYTES_MAX + 2)
        if at < 0:
            raise WireError("no-frame", "a frame without an id")
        command = at + 2
        size = len(payload)
        if size == command + 1 or payload.startswith(SEPARATOR, command + 1):
            return payload[:at], payload[command], payload[command + 3 :]
        return payload[:at], NO_COMMAND, payload[command:]


class BinaryFrames(PlainFrames):
    """Those of 2018: an id of four bytes, a command, arguments with their lengths."""

    __slots__ = ()

    def split(self, payload: bytes) -> tuple[bytes, int, bytes]:
        """An id, a command and its arguments."""
        return split_binary(payload)


def split_binary(payload: bytes) -> tuple[bytes, int, bytes]:
    """An id of four bytes, a command and its arguments."""
    if len(payload) < 5:
        raise WireError("no-frame", "a frame without a command")
    return payload[:4], payload[4], payload[5:]


class UndecidedFrames(TextFrames):
    """Those of a connection whose dialect its first message tells: `is_binary` after that.

    Text has a command of one byte between separators, and an id that is text too or as long as
    the two that were not; all else has an id of four bytes, which may look like a separator.
    """

    __slots__ = ("is_binary",)

    def __init__(self, size_max: int) -> None:
        super().__init__(size_max)
        self.is_binary = False

    def split(self, payload: bytes) -> tuple[bytes, int, bytes]:
        """An id, a command and its arguments."""
        at = payload.find(SEPARATOR, 0, ID_BYTES_MAX + 2)
        if at in _RAW_IDS or (at > 0 and payload[:at].isascii() and payload[:at].isalnum()):
            message = super().split(payload)
            if message[1] != NO_COMMAND:
                return message
        self.is_binary = True
        return split_binary(payload)


class FrameReader:
    """WallClock out the opening, and then the messages behind it as `frames` cuts them.

    What is not whole, or not yet asked for, is kept in `_part` until there is as much as `_need`.
    """

    __slots__ = ("_at", "_data", "_need", "_part", "frames", "has_input")

    def __init__(self) -> None:
        self.frames: Frames | None = None
        self.has_input = False
        self._data = b""
        self._at = 0
        self._part = bytearray()
        self._need = 1

    def __len__(self) -> int:
        return len(self._data) - self._at + len(self._part)

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self._part:
            self._part += data
            self.has_input = len(self._part) >= self._need
        elif self._data:
            self._wait(1)
            self._part += data
            self.has_input = True
        else:
            self._data = data
            self.has_input = True

    def next_message(self, data: bytes = b"") -> Message | Opening | None:
        """The next message; None until more bytes come."""
        frames = self.frames
        if data:
            if frames is not None and not (self.has_input or self._part):
                message = frames.cut(data, 0)
                if message is not None and message[3] == len(data):
                    return message  # it came alone, as nearly always
            self.feed(data)
            if not self.has_input:
                return None
        if self._part:
            if frames is not None and self._need >= LARGE_BYTES:
                return self._take_large(frames)
            self._data = bytes(self._part)
            self._part.clear()
        if frames is None:
            return self._take_opening()
        message = frames.cut(self._data, self._at)
        if message is None:
            self._wait(frames.need)
        else:
            self._advance(message[3])
        return message

    def _take_opening(self) -> Opening | None:
        opening = read_opening(self._data)
        if opening is None:
            self._wait(1)
        else:
            self._advance(opening.end)
        return opening

    def _take_large(self, frames: Frames) -> Message | None:
        """The large message in front, without a copy of everything behind it."""
        message = frames.cut_first(self._part)
        if message is None:
            self._need = frames.need
            self.has_input = False
            return None
        del self._part[: message[3]]
        self._need = 1
        self.has_input = len(self._part) > 0
        return message

    def _advance(self, end: int) -> None:
        if end == len(self._data):
            self._data = b""
            self._at = 0
            self.has_input = False
        else:
            self._at = end

    def _wait(self, need: int) -> None:
        self._part += memoryview(self._data)[self._at :]
        self._data = b""
        self._at = 0
        self._need = need
        self.has_input = False

    def clear(self) -> None:
        """Let go of everything."""
        self._data = b""
        self._at = 0
        self._part.clear()
        self.has_input = False


_UUID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_uuid(msgid: bytes) -> bool:
    """Whether an id is a UUID in text, as npm's clients write it."""
    return _UUID.fullmatch(msgid) is not None


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


# -- the server's words --------------------------------------------------------------------


def crc_frame(payload: bytes) -> bytes:
    """An answer of today's dialect."""
    return _CRC_HEAD.pack(RESPONSE, len(payload), crc32(payload)) + payload


def crc_head(size: int, crc: int) -> bytes:
    """The beginning of such an answer."""
    return _CRC_HEAD.pack(RESPONSE, size, crc)


def plain_frame(payload: bytes) -> bytes:
    """An answer of an older one."""
    return _PLAIN_HEAD.pack(RESPONSE, len(payload)) + payload


def plain_head(size: int) -> bytes:
    """The beginning of such an answer."""
    return _PLAIN_HEAD.pack(RESPONSE, size)
