"""Bytes to messages: the first frame tells the dialect, the frames behind it are cut by it.

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

from msgspec import Struct

from franca.core.errors import WireError
from franca.protocols.periodic.words import (
    TYPE_CLIENT,
    TYPE_NAMED_CLIENT,
    TYPE_NAMED_WORKER,
    TYPE_WORKER,
)

REQUEST: Final = b"\0REQ"
RESPONSE: Final = b"\0RES"
SEPARATOR: Final = b"\0\1"
NO_COMMAND: Final = -1
"""What a message says whose second part is no command."""

ID_BYTES_MAX: Final = 64
"""Ids of the old dialects have no fixed size; the longest ever seen is a UUID in text."""
_FRONT_BYTES: Final = 2 * ID_BYTES_MAX
"""An id, a command and what parts them take less."""
SOLE_BYTES_MIN: Final = 17
SOLE_BYTES_MAX: Final = 1 << 16
_RAW_IDS: Final = (4, 16, 36)
"""Sizes of the ids that are no letters and digits: four bytes, a UUID, a UUID with dashes."""
_NAME_BYTES_MAX: Final = 1024
_CRC_HEAD: Final = Layout(">4sII")
_PLAIN_HEAD: Final = Layout(">4sI")
_LENGTH: Final = Layout(">q")
_SIZE_MASK: Final = 0x7FFF_FFFF
_NAMED_MIN: Final = 17
_NAMED_MAX: Final = _NAMED_MIN + 2 * _NAME_BYTES_MAX

Message = tuple[bytes, int, bytes, int]
"""An id, a command, its arguments, and where the next message begins."""


class Opening(Struct, frozen=True):
    """The first frame: what it registers as, whether it carried a CRC, and where it ends."""

    kind: int
    checked: bool
    end: int
    name: bytes = b""
    token: bytes = b""


def read_opening(data: bytes) -> Opening | None:
    """What a connection begins with; None until enough of it is there.

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
    if size == 1 and data[8] in (TYPE_CLIENT, TYPE_WORKER):
        return Opening(data[8], False, 9)
    if have > 12 and data[12] not in _KINDS[size > 1]:
        raise WireError("not-periodic", "the first frame registers nobody")
    if have < 12 + size:
        return None
    payload = data[12 : 12 + size]
    if crc32(payload) != int.from_bytes(data[8:12]):
        raise WireError("wrong-crc", "the first frame's CRC does not fit")
    if size == 1:
        return Opening(payload[0], True, 13)
    name, token = _read_identity(payload)
    return Opening(payload[0], True, 12 + size, name, token)


_KINDS: Final = ((TYPE_CLIENT, TYPE_WORKER), (TYPE_NAMED_CLIENT, TYPE_NAMED_WORKER))


def _read_identity(payload: bytes) -> tuple[bytes, bytes]:
    size = _LENGTH.unpack_from(payload, 1)[0]
    if not 0 <= size <= len(payload) - _NAMED_MIN:
        raise WireError("not-periodic", "the name does not fit into its frame")
    start = 9 + size
    rest = _LENGTH.unpack_from(payload, start)[0]
    if rest != len(payload) - start - 8:
        raise WireError("not-periodic", "the token does not fit into its frame")
    return payload[9:start], payload[start + 8 :]


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
        # A large payload is copied once, without what stands in front of it.
        if crc32(memoryview(data)[start + 12 : end]) != crc:
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


def sole_payload(data: bytes) -> bytes | None:
    """The payload of a frame that came whole and alone, if this is one; else who knows."""
    size = len(data)
    if not SOLE_BYTES_MIN <= size <= SOLE_BYTES_MAX:
        return None
    magic, length, crc = _CRC_HEAD.unpack_from(data)
    payload = data[12:]
    if magic != REQUEST or length != size - 12 or crc32(payload) != crc:
        return None
    return payload


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
