"""EventMQ: what is no ZMTP is hung up on; what is no command is counted, and what comes behind it is answered.

Behind every case comes a PING of the transport, which must be answered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from random import Random

from tests.prove.hostile import ANSWERED, CLOSED, EITHER, FRAME_BYTES, Case, Heavy, Silence
from tests.prove.hostile.raw import Probe, Raw, Silent, shuffled, without_end
from tests.prove.hostile.strangers import FIRST_WORDS, foreign, web_pages
from tests.support.eventmq import _GREETING, _command, encoded, handshake

_HANDSHAKE = handshake()
_PING = _command(b"PING", b"\0\0last")
_PONG = _command(b"PONG", b"last")
_PROBE = Probe(_HANDSHAKE, _PING, _PONG)
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


# -- small ones --------------------------------------------------------------------------------


def cases(seed: int) -> list[Case]:
    """All of them, in an order of chance."""
    rng = Random(seed)
    return shuffled(
        rng,
        web_pages(_SMUGGLED), foreign(_SMUGGLED, ("tls", CLOSED), *((n, CLOSED) for n in FIRST_WORDS)),
        _greetings(), _readies(), _frames(), _messages(), _garbage(rng),
    )  # fmt: skip


def _greetings() -> Iterator[Case]:
    def changed(at: int, to: bytes) -> bytes:
        return _GREETING[:at] + to + _GREETING[at + len(to) :]

    for name, greeting in {
        "version 2": changed(10, b"\x02"), "version 1": changed(10, b"\x01"), "version 0": changed(10, b"\x00"), "PLAIN": changed(12, b"PLAIN"), "CURVE": changed(12, b"CURVE"),
        "no mechanism": changed(12, bytes(20)), "a mechanism of noise": changed(12, b"\xff" * 20),
    }.items():  # fmt: skip
        yield Case(f"greeting of {name}", greeting + _SMUGGLED[64:], CLOSED, known=False)
    yield Case("no signature", changed(0, b"\xfe") + _SMUGGLED[64:], CLOSED, known=False)
    yield Case("a server", changed(32, b"\x01") + _SMUGGLED[64:], EITHER, known=False)
    yield Case("ZMTP 1", b"\x01\x00" + b"\x02\x00x" + _SMUGGLED, CLOSED, known=False)


def _readies() -> Iterator[Case]:
    """In place of the READY command behind the greeting."""
    for name, command in {
        "another command": _command(b"HELLO", b""), "an error": _command(b"ERROR", b"\x03bad"), "no properties": _command(b"READY", b""), "half a property": _command(b"READY", b"\x0bSocket-Ty"),
        "a value of 4 GiB": _command(b"READY", b"\x08Identity" + b"\xff" * 4), "a wrong type": handshake("PUB")[64:], "no type": handshake("")[64:],
        "an unknown type": handshake("x" * 100)[64:], "a message": encoded([b"", b"x"]), "a name of nothing": _command(b"READY", b"\0\0\0\0\0"),
    }.items():  # fmt: skip
        yield Case(f"READY: {name}", _GREETING + command, EITHER, known=False)


def _frames() -> Iterator[Case]:
    # A frame that is too large is dropped as it comes; one above 1 GiB can only be rubbish.
    sizes = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, (1 << 30) + 1)
    for size, flags in [*product(sizes, (2, 3, 6)), (FRAME_BYTES + 1, 6)]:
        data = struct.pack(">BQ", flags, size) + b"x" * 50
        yield Case(f"frame of {size}, flags {flags}", data, CLOSED)
    for flags in (8, 16, 128, 255, 5, 7):
        yield Case(f"flags {flags}", bytes([flags, 1]) + b"x", EITHER)
    for name in (b"", b"PING", b"PONG", b"SUBSCRIBE", b"CANCEL", b"ERROR", b"x" * 200):
        for data in (b"", b"\0", b"\xff" * 40):
            yield Case(f"command {name[:9]!r} {data[:3]!r}", _command(name, data), EITHER)
    yield Case("a command without a name", bytes([4, 0]), EITHER)
    yield Case("a name longer than its command", bytes([4, 2, 200, 65]), EITHER)


def _messages() -> Iterator[Case]:
    for count in range(5):
        yield Case(f"{count} frames", encoded([b""] * count) if count else b"\0\0", ANSWERED)
    yield Case("no empty frame", encoded([b"x", b"eMQP/1.0", b"STATUS", b"id"]), ANSWERED)
    yield Case("another version", encoded([b"", b"eMQP/9", b"STATUS", b"id"]), ANSWERED)
    yield Case(
        "a thousand frames",
        encoded([b"", b"eMQP/1.0", b"REQUEST", b"id", *[b"x"] * 1_000]),
        CLOSED,
    )
    for command in _COMMANDS:
        for msgid in (b"id", b"", b"\xff", b"x" * 2_000):
            yield Case(f"{command[:12]!r} of {msgid[:5]!r}", _say(command, msgid), ANSWERED)
        if command in (b"SCHEDULE",):
            continue  # a good one among them would go on for ever
        for part in _PARTS:
            yield Case(f"{command[:12]!r} {part[:12]!r}", _say(command, b"id", part), ANSWERED)
            yield Case(
                f"{command[:12]!r} 2 {part[:12]!r}",
                _say(command, b"id", b"hostile", part),
                ANSWERED,
            )
            yield Case(
                f"{command[:12]!r} 3 {part[:12]!r}",
                _say(command, b"id", b"hostile", b"", part),
                ANSWERED,
            )
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
            yield Case(
                f"SCHEDULE {place} {part[:9]!r}", _say(b"SCHEDULE", b"id", *frames), ANSWERED
            )


def _garbage(rng: Random) -> Iterator[Case]:
    for number in range(40):
        data = b"x" + rng.randbytes(rng.choice((9, 70, 3_000)))
        yield Case(f"stranger's garbage {number}", data, CLOSED, known=False)
    for number in range(60):
        yield Case(f"garbage {number}", rng.randbytes(rng.choice((1, 9, 300))), EITHER)
    for number in range(60):
        frames = [rng.randbytes(rng.choice((0, 3, 40))) for _ in range(rng.randrange(7))]
        yield Case(
            f"frames of garbage {number}", _say(rng.choice(_COMMANDS), b"id", *frames), ANSWERED
        )


def play(port: int, case: Case) -> str:
    """Send the case behind a handshake or without one, and a PING behind it."""
    return _PROBE.play(port, case, either_waits=True)


# -- silence -----------------------------------------------------------------------------------


def silences(port: int) -> list[Silence]:
    """Strangers and peers that stop in the middle."""
    return [
        Silent(port, "nothing", b""),
        Silent(port, "half a greeting", _GREETING[:11]),
        Silent(port, "a greeting alone", _GREETING),
        Silent(port, "half a frame", _HANDSHAKE + _say(b"STATUS", b"id")[:-1]),
        Silent(
            port, "half a message", _HANDSHAKE + _say(b"HELLO", b"id") + b"\x01\x00\x01\x08eMQP/1.0"
        ),
    ]


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


def play_heavy(port: int, heavy: Heavy) -> str:
    """Send it, and a PING at its end."""
    return _PROBE.play_heavy(port, heavy)


def endless(port: int, *, known: bool) -> Raw:
    """A greeting, or a frame of the greatest size, and more behind it."""
    if not known:
        return without_end(port, [_GREETING[:20]])
    return without_end(port, [_HANDSHAKE, struct.pack(">BQ", 2, FRAME_BYTES - 100)])
