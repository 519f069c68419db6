"""EventMQ: what is no ZMTP is hung up on; what is no command is counted, and what comes behind it is answered.

Behind every case comes a PING of the transport, which must be answered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from random import Random

from tests.prove import hostile as h
from tests.prove.hostile import FRAME_BYTES, Case, Heavy, Probe, each, foreign, noise, web_pages
from tests.prove.tables import tables
from tests.support.eventmq import _GREETING, _command, encoded, handshake, said

_TABLES = tables(__file__)
_HANDSHAKE = handshake()
_PING = _command(b"PING", b"\0\0last")
_PONG = _command(b"PONG", b"last")


def _answers(data: bytes) -> Iterator[bytes]:
    return map(b"|".join, said(data))


PROBE = Probe(
    _HANDSHAKE, _PING, _PONG, _answers, halves_wait=True, small=_command(b"PING", b"\0\0"),
    large=lambda body: _say(b"REQUEST", b"large", b"q", b"", body),
)  # fmt: skip


def _say(*frames: bytes) -> bytes:
    return encoded([b"", b"eMQP/1.0", *frames])


_SMUGGLED = _HANDSHAKE + _say(b"REQUEST", b"id", b"smuggled", b"", b"[]")
SILENCES = {
    "nothing": b"", "half a greeting": _GREETING[:11], "a greeting alone": _GREETING,
    "half a frame": _HANDSHAKE + _say(b"STATUS", b"id")[:-1],
    "half a message": _HANDSHAKE + _say(b"HELLO", b"id") + b"\x01\x00\x01\x08eMQP/1.0",
}  # fmt: skip
ENDLESS = (_GREETING[:20], _HANDSHAKE + struct.pack(">BQ", 2, FRAME_BYTES - 100))


_READIES = {
    "another command": _command(b"HELLO", b""), "an error": _command(b"ERROR", b"\x03bad"), "no properties": _command(b"READY", b""), "half a property": _command(b"READY", b"\x0bSocket-Ty"),
    "a value of 4 GiB": _command(b"READY", b"\x08Identity" + b"\xff" * 4), "a wrong type": handshake("PUB")[64:], "no type": handshake("")[64:],
    "an unknown type": handshake("x" * 100)[64:], "a message": encoded([b"", b"x"]), "a name of nothing": _command(b"READY", b"\0\0\0\0\0"),
}  # fmt: skip
# In place of some bytes of a greeting: none of these may be heard.
_GREETINGS = {
    "version 2": (10, b"\x02"), "version 1": (10, b"\x01"), "version 0": (10, b"\x00"), "PLAIN": (12, b"PLAIN"), "CURVE": (12, b"CURVE"),
    "no mechanism": (12, bytes(20)), "a mechanism of noise": (12, b"\xff" * 20), "no signature": (0, b"\xfe"),
}  # fmt: skip
_SIZES = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, (1 << 30) + 1)
_SCHEDULE = (b"hostile", b"nohaste", b"x", b"[]", b"y")


# -- small ones --------------------------------------------------------------------------------


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from foreign(_SMUGGLED)
    greetings = {name: _greeting(*change) + _SMUGGLED[64:] for name, change in _GREETINGS.items()}
    greetings["ZMTP 1"] = b"\x01\x00" + b"\x02\x00x" + _SMUGGLED
    yield from each(h.CLOSED, greetings, known=False)
    others = {f"READY: {name}": _GREETING + command for name, command in _READIES.items()}
    others["a server"] = _greeting(32, b"\x01") + _SMUGGLED[64:]
    yield from each(h.EITHER, others, known=False)
    # A frame that is too large is dropped as it comes; one above 1 GiB can only be rubbish.
    frames = [*product((2, 3, 6), _SIZES), (6, FRAME_BYTES + 1)]
    yield from each(h.CLOSED, (struct.pack(">BQ", *frame) + b"x" * 50 for frame in frames))
    yield from each(h.EITHER, (bytes([flags, 1]) + b"x" for flags in (8, 16, 128, 255, 5, 7)))
    commands = product(_TABLES["transport"], (b"", b"\0", b"\xff" * 40))
    yield from each(h.EITHER, (_command(*command) for command in commands))
    # A command without a name, and one whose name is longer than itself.
    yield from each(h.EITHER, (bytes([4, 0]), bytes([4, 2, 200, 65])))
    yield from each(h.ANSWERED, _messages())
    thousand = _say(b"REQUEST", b"id", *[b"x"] * 1_000)
    yield Case(thousand, h.CLOSED, name="a thousand frames")
    garbage = (b"x" + noise(rng, 9, 70, 3_000) for _ in range(40))
    yield from each(h.CLOSED, garbage, known=False)
    yield from each(h.EITHER, (noise(rng, 1, 9, 300) for _ in range(60)))
    for _ in range(60):
        parts = [noise(rng, 0, 3, 40) for _ in range(rng.randrange(7))]
        yield Case(_say(rng.choice(_TABLES["commands"]), b"id", *parts), h.ANSWERED)


def _greeting(at: int, to: bytes) -> bytes:
    return _GREETING[:at] + to + _GREETING[at + len(to) :]


def _messages() -> Iterator[bytes]:
    yield b"\0\0"
    yield from (encoded([b""] * count) for count in range(1, 5))
    yield encoded([b"x", b"eMQP/1.0", b"STATUS", b"id"])  # no empty frame
    yield encoded([b"", b"eMQP/9", b"STATUS", b"id"])
    for words in product(_TABLES["commands"], (b"id", b"", b"\xff", b"x" * 2_000)):
        yield _say(*words)
    for command, part in product(_TABLES["commands"], _TABLES["parts"]):
        if command != b"SCHEDULE":  # a good one among them would go on for ever
            for before in ((), (b"hostile",), (b"hostile", b"")):
                yield _say(command, b"id", *before, part)
    for place, part in product(range(5), _TABLES["schedule parts"]):
        yield _say(b"SCHEDULE", b"id", *_SCHEDULE[:place], part, *_SCHEDULE[place + 1 :])


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest messages; in a short run the most telling."""
    yield Heavy("20,000 requests", _say(b"REQUEST", b"id", b"hostile", b"", b"[]"), 20_000)
    queues = b"[%b]" % b",".join(b'[10,"hostile-%d"]' % n for n in range(1_000))
    yield Heavy("1,000 queues, 300 times", _say(b"INFORM", b"id", queues, b"worker"), 300)
    yield Heavy("STATUS, 2,000 times", _say(b"STATUS", b"admin:x"), 2_000)
    too_large = struct.pack(">BQ", 2, FRAME_BYTES + 1) + b"x" * FRAME_BYTES
    yield Heavy("a frame too large", too_large, closes=True)
    if short:
        return
    yield Heavy("a message of a million frames", encoded([b""] * 1_000_000), closes=True)
    worker = _say(b"INFORM", b"id", b'[[10,"hostile"]]', b"worker")
    yield Heavy("50,000 slots", worker + _say(b"READY", b"id") * 50_000)
    yield Heavy("100,000 unknown words", _say(b"WHAT", b"id", b"x" * 50), 100_000)
    yield Heavy("100,000 empty messages", b"\0\0", 100_000)
    large = b"x" * (FRAME_BYTES // 2 - 200)
    yield Heavy("large requests", _say(b"REQUEST", b"id", b"hostile", b"", large), 4)
    yield Heavy("20,000 publications", _say(b"PUBLISH", b"id", b"topic", b"", b"x" * 100), 20_000)
