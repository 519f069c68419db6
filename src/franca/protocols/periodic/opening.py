"""The first frame of a connection: who registers, and whether its frames carry CRCs."""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final
from zlib import crc32

from msgspec import Struct

from franca.core.errors import WireError
from franca.protocols.periodic.commands import (
    TYPE_CLIENT,
    TYPE_NAMED_CLIENT,
    TYPE_NAMED_WORKER,
    TYPE_WORKER,
)

REQUEST: Final = b"\0REQ"
_NAME_BYTES_MAX: Final = 1024
_LENGTH: Final = Layout(">q")
_NAMED_MIN: Final = 17
_NAMED_MAX: Final = _NAMED_MIN + 2 * _NAME_BYTES_MAX


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
