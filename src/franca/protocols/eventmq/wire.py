"""eMQP/1.0 in bytes: what a broker says, as whole messages of the transport.

Every message is an empty frame, the protocol's name, a command, an id of its own, and what the
command carries. The ids of one broker begin alike and end in a count: unique, and cheaper than
chance.
"""

from __future__ import annotations

from random import Random
from typing import Final

from franca.protocols.eventmq.zmtp import (
    LAST_HEADS,
    MORE_HEADS,
    SHORT_MAX,
    last,
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


class Voice:
    """Says what a broker says, each with a new id."""

    __slots__ = ("_count", "_stem")

    def __init__(self, rng: Random) -> None:
        stem = f"{rng.getrandbits(96):024x}"
        self._stem = f"{stem[:8]}-{stem[8:12]}-4{stem[13:16]}-{stem[16:20]}-".encode()
        self._count = 0

    @property
    def name(self) -> bytes:
        """What this broker's sockets are called."""
        return self._stem + b"0" * 12

    def _id(self) -> bytes:
        self._count += 1
        return b"%b%012x" % (self._stem, self._count)

    def handed_over(self, msgid: bytes) -> bytes:
        """REPLY to a client: its request is with a worker now."""
        self._count += 1
        return b"%b%b%012x%b" % (_REPLY, self._stem, self._count, last(msgid))

    def result(self, result: bytes, msgid: bytes) -> list[bytes]:
        """REPLY to a client: what came of its request."""
        size, id_size = len(result), len(msgid)
        if size <= SHORT_MAX and id_size <= SHORT_MAX:
            heads = MORE_HEADS[size], LAST_HEADS[id_size]
            return [b"".join((_REPLY, self._id(), heads[0], result, heads[1], msgid))]
        return pieces(_REPLY + self._id(), [result, msgid])

    def report(self, text: bytes) -> list[bytes]:
        """REPLY to an administrator, in pieces."""
        return pieces(_REPLY + self._id(), [text])

    def ack(self, msgid: bytes) -> bytes:
        """ACK: this message was taken."""
        return b"".join((_ACK, self._id(), last(msgid[:ECHO_BYTES_MAX])))

    def heartbeat(self, stamp: bytes) -> bytes:
        """HEARTBEAT, with the time in seconds."""
        return b"".join((_HEARTBEAT, self._id(), last(stamp)))

    def kbye(self) -> bytes:
        """KBYE: the broker is leaving. (The document's KBAI is a word that no peer knows.)"""
        return _KBYE + self._id()


def request(msgid: bytes, queue: bytes, headers: bytes, body: bytes) -> bytes:
    """REQUEST: a worker is given this job."""
    size = len(body)
    if size > SHORT_MAX or len(msgid) > SHORT_MAX or len(queue) > SHORT_MAX:
        return b"".join((_REQUEST, more(msgid), more(queue), more(headers), last(body)))
    return b"%b%b%b%b%b%b%b%b" % (
        _REQUEST,
        MORE_HEADS[len(msgid)],
        msgid,
        MORE_HEADS[len(queue)],
        queue,
        more(headers),
        LAST_HEADS[size],
        body,
    )


def long_request(frames: list[bytes]) -> list[bytes]:
    """REQUEST with more frames than the usual ones, or with long ones, in pieces."""
    return pieces(_REQUEST, frames)
