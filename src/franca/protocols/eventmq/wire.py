"""eMQP/1.0 in bytes: what a broker sends, as whole messages of the transport.

Every message is an empty frame, the protocol's name, a command, an id of its own, and what the
command carries. The ids of one broker begin alike and end in a count: unique, and cheaper than
random ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Final

from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.zmtp import LAST_HEADERS, MORE_HEADERS, SHORT_MAX, last, more

VERSION: Final = b"eMQP/1.0"
VERSIONS: Final = b"eMQP/"
"""What the second frame of every version begins with."""
FRAMES_MIN: Final = 4
ENVELOPE_BYTES_MAX: Final = 1_024
"""What sockets between a client and us may put around its messages, all of them together."""
ECHO_BYTES_MAX: Final = 1_024
"""How much of a peer's own text is sent back to it where that is no request's id."""
_START: Final = more(b"") + more(VERSION)
_ID_SIZE: Final = 36
_REQUEST: Final = _START + more(b"REQUEST")
_REPLY: Final = _START + more(b"REPLY") + MORE_HEADERS[_ID_SIZE]
_ACK: Final = _START + more(b"ACK") + MORE_HEADERS[_ID_SIZE]
_HEARTBEAT: Final = _START + more(b"HEARTBEAT") + MORE_HEADERS[_ID_SIZE]
_KBYE: Final = _START + more(b"KBYE") + LAST_HEADERS[_ID_SIZE]
_LAST_DIGITS: Final = [b"%03x" % number for number in range(16**3)]


def _ids(stem: bytes) -> Iterator[bytes]:
    """Ids that begin with `stem` and count from 1. Most of each is written once for many."""
    for high in count():
        start = b"%b%09x" % (stem, high)
        for digits in _LAST_DIGITS if high else _LAST_DIGITS[1:]:
            yield start + digits


def unwrap(frames: list[bytes]) -> tuple[bytes, list[bytes]] | None:
    """A message, and the envelope around it, as sockets between a client and us put it on.

    The envelope is put on every answer. None if there is no message inside.
    """
    size = 0
    for at in range(len(frames) - FRAMES_MIN + 1):
        if not frames[at] and frames[at + 1].startswith(VERSIONS):
            return b"".join(map(more, frames[:at])), frames[at:]
        size += len(frames[at])
        if size > ENVELOPE_BYTES_MAX:
            break
    return None


class Encoder:
    """Writes what a broker sends, each message with a new id."""

    def __init__(self, rng: Random) -> None:
        digits = f"{rng.getrandbits(96):024x}"
        stem = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{digits[16:20]}-".encode()
        self.name = stem + b"0" * 12
        """What this broker's sockets are called."""
        self._ids = _ids(stem)

    def handed_over(self, msgid: bytes) -> bytes:
        """REPLY to a client: its request is with a worker now."""
        size = len(msgid)
        start = LAST_HEADERS[size] if size <= SHORT_MAX else zmtp.header(0, size)
        return b"".join((_REPLY, next(self._ids), start, msgid))

    def result(self, result: bytes, msgid: bytes, envelope: bytes) -> list[bytes]:
        """REPLY to a client: what came of its request, in pieces."""
        size, id_size = len(result), len(msgid)
        if size > SHORT_MAX or id_size > SHORT_MAX or envelope:
            return zmtp.pieces(envelope + _REPLY + next(self._ids), [result, msgid])
        start, middle = MORE_HEADERS[size], LAST_HEADERS[id_size]
        return [b"".join((_REPLY, next(self._ids), start, result, middle, msgid))]

    def report(self, text: bytes, envelope: bytes) -> list[bytes]:
        """REPLY to an administrator, in pieces."""
        return zmtp.pieces(envelope + _REPLY + next(self._ids), [text])

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
    return b"".join((_REQUEST, MORE_HEADERS[id_size], msgid, middle, LAST_HEADERS[size], body))


def request_in_pieces(msgid: bytes, middle: bytes, body: Sequence[bytes]) -> list[bytes]:
    """REQUEST with a long body that is there in pieces."""
    return [b"".join((_REQUEST, more(msgid), middle, zmtp.header(0, sum(map(len, body))))), *body]


def long_request(msgid: bytes, middle: bytes, frames: Sequence[bytes]) -> list[bytes]:
    """REQUEST with frames behind its body, in pieces."""
    return zmtp.pieces(_REQUEST + more(msgid) + middle, frames)
