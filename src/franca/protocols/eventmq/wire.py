"""eMQP/1.0 in bytes: what a broker says, as whole messages of the transport.

Every message is an empty frame, the protocol's name, a command, an id of its own, and what the
command carries. The ids of one broker begin alike and end in a count: unique, and cheaper than
chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Final

from franca.protocols.eventmq.zmtp import (
    LAST_HEADS,
    MORE_HEADS,
    SHORT_MAX,
    last,
    last_in_pieces,
    more,
    pieces,
)

VERSION: Final = b"eMQP/1.0"
VERSIONS: Final = b"eMQP/"
"""What the second frame of every version begins with."""
ECHO_BYTES_MAX: Final = 1_024
"""How much of a peer's words is said back to it where they are no request's id."""
_HEAD: Final = more(b"") + more(VERSION)
_ID_SIZE: Final = 36
_ID_MORE: Final = bytes((1, _ID_SIZE))
_ID_LAST: Final = bytes((0, _ID_SIZE))
_REQUEST: Final = _HEAD + more(b"REQUEST")
_REPLY: Final = _HEAD + more(b"REPLY") + _ID_MORE
_ACK: Final = _HEAD + more(b"ACK") + _ID_MORE
_HEARTBEAT: Final = _HEAD + more(b"HEARTBEAT") + _ID_MORE
_KBYE: Final = _HEAD + more(b"KBYE") + _ID_LAST
_LAST_DIGITS: Final = [b"%03x" % number for number in range(16**3)]


def _ids(stem: bytes) -> Iterator[bytes]:
    """Ids that begin with `stem` and count from 1. Most of each is written once for many."""
    for high in count():
        head = b"%b%09x" % (stem, high)
        for digits in _LAST_DIGITS if high else _LAST_DIGITS[1:]:
            yield head + digits


class Voice:
    """Says what a broker says, each with a new id."""

    __slots__ = ("_ids", "_stem")

    def __init__(self, rng: Random) -> None:
        stem = f"{rng.getrandbits(96):024x}"
        self._stem = f"{stem[:8]}-{stem[8:12]}-4{stem[13:16]}-{stem[16:20]}-".encode()
        self._ids = _ids(self._stem)

    @property
    def name(self) -> bytes:
        """What this broker's sockets are called."""
        return self._stem + b"0" * 12

    def handed_over(self, msgid: bytes) -> bytes:
        """REPLY to a client: its request is with a worker now."""
        size = len(msgid)
        if size > SHORT_MAX:
            return b"".join((_REPLY, next(self._ids), last(msgid)))
        return b"".join((_REPLY, next(self._ids), LAST_HEADS[size], msgid))

    def result(self, result: bytes, msgid: bytes) -> list[bytes]:
        """REPLY to a client: what came of its request."""
        size, id_size = len(result), len(msgid)
        if size <= SHORT_MAX and id_size <= SHORT_MAX:
            own_id, head, id_head = next(self._ids), MORE_HEADS[size], LAST_HEADS[id_size]
            return [b"".join((_REPLY, own_id, head, result, id_head, msgid))]
        return pieces(_REPLY + next(self._ids), [result, msgid])

    def report(self, text: bytes) -> list[bytes]:
        """REPLY to an administrator, in pieces."""
        return pieces(_REPLY + next(self._ids), [text])

    def ack(self, msgid: bytes) -> bytes:
        """ACK: this message was taken."""
        return b"".join((_ACK, next(self._ids), last(msgid[:ECHO_BYTES_MAX])))

    def heartbeat(self, stamp: bytes) -> bytes:
        """HEARTBEAT, with the time in seconds."""
        return b"".join((_HEARTBEAT, next(self._ids), last(stamp)))

    def kbye(self) -> bytes:
        """KBYE: the broker is leaving. (The document's KBAI is a word that no peer knows.)"""
        return _KBYE + next(self._ids)


def request(msgid: bytes, middle: bytes, body: bytes) -> bytes:
    """REQUEST: a worker is given this job; `middle` are the frames of its queue and headers."""
    size, id_size = len(body), len(msgid)
    if size > SHORT_MAX or id_size > SHORT_MAX:
        return b"".join((_REQUEST, more(msgid), middle, last(body)))
    return b"".join((_REQUEST, MORE_HEADS[id_size], msgid, middle, LAST_HEADS[size], body))


def long_request(frames: list[bytes]) -> list[bytes]:
    """REQUEST with more frames than the usual ones, or with long ones, in pieces."""
    return pieces(_REQUEST, frames)


def request_in_pieces(msgid: bytes, middle: bytes, body: Sequence[bytes]) -> list[bytes]:
    """REQUEST with a long body that is there in pieces."""
    front, *rest = last_in_pieces(body)
    return [b"".join((_REQUEST, more(msgid), middle, front)), *rest]
