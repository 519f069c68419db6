"""EventMQ: what is no ZMTP is hung up on; what is no command is counted, and what comes behind it is answered.

Behind every case comes a PING of the transport, which must be answered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from random import Random

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, FRAME_BYTES, Case, Heavy, Probe
from tests.prove.hostile.strangers import foreign, web_pages
from tests.support.eventmq import _GREETING, _command, encoded, handshake, said

_HANDSHAKE = handshake()
_PING = _command(b"PING", b"\0\0last")
_PONG = _command(b"PONG", b"last")


def _answers(data: bytes) -> Iterator[bytes]:
    return map(b"|".join, said(data))


PROBE = Probe(_HANDSHAKE, _PING, _PONG, _answers, halves_wait=True)
_COMMANDS = (
    b"REQUEST", b"READY", b"REPLY", b"HEARTBEAT", b"INFORM", b"SCHEDULE", b"UNSCHEDULE", b"PUBLISH", b"HELLO", b"ACK", b"STATUS",
    b"ROUTER_SHOW_WORKERS", b"ROUTER_SHOW_SCHEDULERS", b"", b"\xff", b"request", b"x" * 300,
)  # fmt: skip
_PARTS = (
    b"", b"worker", b"scheduler", b"hostile", b"\xff\xfe", b'[[10,"hostile"]]', b"[[" * 500, b"[]", b"[[1]]", b'[["a","b"]]', b"10", b"(10, 'hostile')", b"{'a': ",
    b"reply-requested", b"retry-count:-1", b"retry-count:99999999999999999999", b"timeout:x", b"{'timeout': 1e999}", b'{"a":' * 300, b"-1", b"* * * * *", b"61 25 * * *", b"\0",
    b"x" * 3_000, b'["run", {}]', b'["run", {"path": 1, "callable": []}]', b"[" * 5_000, b'{"error": NaN}', b"id",
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


# -- small ones --------------------------------------------------------------------------------


def cases(rng: Random) -> Iterator[Case]:
    yield from web_pages(_SMUGGLED)
    yield from foreign(_SMUGGLED)
    for table in (_greetings(), _readies(), _frames(), _messages(), _garbage(rng)):
        yield from table


def _greetings() -> Iterator[Case]:
    def changed(at: int, to: bytes) -> bytes:
        return _GREETING[:at] + to + _GREETING[at + len(to) :]

    for name, greeting in {
        "version 2": changed(10, b"\x02"), "version 1": changed(10, b"\x01"), "version 0": changed(10, b"\x00"), "PLAIN": changed(12, b"PLAIN"), "CURVE": changed(12, b"CURVE"),
        "no mechanism": changed(12, bytes(20)), "a mechanism of noise": changed(12, b"\xff" * 20),
    }.items():  # fmt: skip
        yield Case(greeting + _SMUGGLED[64:], CLOSED, known=False, name=f"greeting of {name}")
    yield Case(changed(0, b"\xfe") + _SMUGGLED[64:], CLOSED, known=False, name="no signature")
    yield Case(changed(32, b"\x01") + _SMUGGLED[64:], EITHER, known=False, name="a server")
    yield Case(b"\x01\x00" + b"\x02\x00x" + _SMUGGLED, CLOSED, known=False, name="ZMTP 1")


def _readies() -> Iterator[Case]:
    """In place of the READY command behind the greeting."""
    for name, command in {
        "another command": _command(b"HELLO", b""), "an error": _command(b"ERROR", b"\x03bad"), "no properties": _command(b"READY", b""), "half a property": _command(b"READY", b"\x0bSocket-Ty"),
        "a value of 4 GiB": _command(b"READY", b"\x08Identity" + b"\xff" * 4), "a wrong type": handshake("PUB")[64:], "no type": handshake("")[64:],
        "an unknown type": handshake("x" * 100)[64:], "a message": encoded([b"", b"x"]), "a name of nothing": _command(b"READY", b"\0\0\0\0\0"),
    }.items():  # fmt: skip
        yield Case(_GREETING + command, EITHER, known=False, name=f"READY: {name}")


def _frames() -> Iterator[Case]:
    # A frame that is too large is dropped as it comes; one above 1 GiB can only be rubbish.
    sizes = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, (1 << 30) + 1)
    for size, flags in [*product(sizes, (2, 3, 6)), (FRAME_BYTES + 1, 6)]:
        data = struct.pack(">BQ", flags, size) + b"x" * 50
        yield Case(data, CLOSED)
    for flags in (8, 16, 128, 255, 5, 7):
        yield Case(bytes([flags, 1]) + b"x", EITHER)
    for name in (b"", b"PING", b"PONG", b"SUBSCRIBE", b"CANCEL", b"ERROR", b"x" * 200):
        for data in (b"", b"\0", b"\xff" * 40):
            yield Case(_command(name, data), EITHER)
    yield Case(bytes([4, 0]), EITHER, name="a command without a name")
    yield Case(bytes([4, 2, 200, 65]), EITHER, name="a name longer than its command")


def _messages() -> Iterator[Case]:
    for count in range(5):
        yield Case(encoded([b""] * count) if count else b"\0\0", ANSWERED)
    yield Case(encoded([b"x", b"eMQP/1.0", b"STATUS", b"id"]), ANSWERED, name="no empty frame")
    yield Case(encoded([b"", b"eMQP/9", b"STATUS", b"id"]), ANSWERED, name="another version")
    yield Case(
        encoded([b"", b"eMQP/1.0", b"REQUEST", b"id", *[b"x"] * 1_000]),
        CLOSED,
        name="a thousand frames",
    )
    for command in _COMMANDS:
        for msgid in (b"id", b"", b"\xff", b"x" * 2_000):
            yield Case(_say(command, msgid), ANSWERED)
        if command in (b"SCHEDULE",):
            continue  # a good one among them would go on for ever
        for part in _PARTS:
            yield Case(_say(command, b"id", part), ANSWERED)
            yield Case(_say(command, b"id", b"hostile", part), ANSWERED)
            yield Case(_say(command, b"id", b"hostile", b"", part), ANSWERED)
    for place in range(5):
        for part in (
            b"\xff",
            b"[" * 300,
            b"61 25 * * *",
            b"99999999999999999999",
            b"-5",
            b"x" * 3_000,
        ):
            frames = [b"hostile", b"nohaste", b"x", b"[]", b"y"]
            frames[place] = part
            yield Case(_say(b"SCHEDULE", b"id", *frames), ANSWERED)


def _garbage(rng: Random) -> Iterator[Case]:
    for _ in range(40):
        data = b"x" + rng.randbytes(rng.choice((9, 70, 3_000)))
        yield Case(data, CLOSED, known=False)
    for _ in range(60):
        yield Case(rng.randbytes(rng.choice((1, 9, 300))), EITHER)
    for _ in range(60):
        frames = [rng.randbytes(rng.choice((0, 3, 40))) for _ in range(rng.randrange(7))]
        yield Case(_say(rng.choice(_COMMANDS), b"id", *frames), ANSWERED)


# -- large ones --------------------------------------------------------------------------------


def heavies(*, short: bool) -> Iterator[Heavy]:
    """Floods and the largest messages; in a short run the most telling."""
    yield Heavy("20,000 requests", _say(b"REQUEST", b"id", b"hostile", b"", b"[]"), 20_000)
    queues = b"[%b]" % b",".join(b'[10,"hostile-%d"]' % n for n in range(1_000))
    yield Heavy("1,000 queues, 300 times", _say(b"INFORM", b"id", queues, b"worker"), 300)
    yield Heavy("STATUS, 2,000 times", _say(b"STATUS", b"admin:x"), 2_000)
    yield Heavy(
        "a frame too large",
        struct.pack(">BQ", 2, FRAME_BYTES + 1) + b"x" * FRAME_BYTES,
        closes=True,
    )
    if short:
        return
    yield Heavy("a message of a million frames", encoded([b""] * 1_000_000), closes=True)
    yield Heavy(
        "50,000 slots",
        _say(b"INFORM", b"id", b'[[10,"hostile"]]', b"worker") + _say(b"READY", b"id") * 50_000,
    )
    yield Heavy("100,000 unknown words", _say(b"WHAT", b"id", b"x" * 50), 100_000)
    yield Heavy("100,000 empty messages", b"\0\0", 100_000)
    yield Heavy(
        "large requests",
        _say(b"REQUEST", b"id", b"hostile", b"", b"x" * (FRAME_BYTES // 2 - 200)),
        4,
    )
    yield Heavy("20,000 publications", _say(b"PUBLISH", b"id", b"topic", b"", b"x" * 100), 20_000)
