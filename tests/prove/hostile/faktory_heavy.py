"""Frames that are as large as a frame may be, or larger, and floods of small ones.

Each is cheap to send and dear to take apart: many small things in one line, patterns that explode, commands
by the ten thousand. None may hold up anybody else for long or take much more memory than it has bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

from tests.prove.hostile import FRAME_BYTES, Heavy
from tests.support.faktory import Faktory, Reply

_ENDLESS_BYTES = 32 << 20
_CHUNK = 1 << 20
_ENTRIES = 100_000
_PATIENCE_S = 60.0


def endless(port: int, *, known: bool) -> Faktory:
    """Say a line that does not end until the server has had enough; the connection is left open."""
    client = Faktory(port, timeout=_PATIENCE_S)
    if known:
        client.hello()
    with suppress(ConnectionError):
        client.send_bytes(b"PUSH ")
        for _ in range(_ENDLESS_BYTES // _CHUNK):
            client.send_bytes(b"x" * _CHUNK)
    return client


def play_heavy(port: int, heavy: Heavy) -> str:
    """Send it and read all replies; what was wrong with them, or nothing."""
    with Faktory(port, timeout=_PATIENCE_S) as client:
        client.hello()
        heard: list[Reply] = []
        reader = threading.Thread(target=_read, args=(client, heavy.times, heard), daemon=True)
        reader.start()
        with suppress(ConnectionError):
            for start in range(0, heavy.times, 1_000):
                client.send_bytes((heavy.message + b"\r\n") * min(1_000, heavy.times - start))
        reader.join()
        if heavy.closes:
            closed = not heard or (len(heard) == 1 and heard[0].is_error)
            return "" if closed else f"answered {heard[0]}"
        return "" if len(heard) == heavy.times else f"{len(heard)} replies to {heavy.times} lines"


def _read(client: Faktory, times: int, heard: list[Reply]) -> None:
    with suppress(OSError, ValueError):
        while len(heard) < times:
            heard.append(client.read_reply())


def heavies(*, short: bool) -> Iterator[Heavy]:
    """The frames, each near the limit; in a short run the most telling."""
    yield Heavy("100,000 jobs", b"PUSHB [%b]" % b",".join(_minimal(n) for n in range(_ENTRIES)))
    yield Heavy("100,000 empty jobs", b"PUSHB [%b]" % b",".join([b"{}"] * _ENTRIES))
    yield Heavy("a frame of empty jobs", b"PUSHB [" + b"{}," * _fitting(3) + b"{}]")
    yield Heavy("a frame of tiny jobs", b"PUSHB [" + b'{"":0},' * _fitting(7) + b"{}]")
    yield Heavy("queues by the million", b"FETCH " + b"ab " * _fitting(3))
    yield Heavy("a pattern of classes", _mutate(b'"regexp":"%b"' % (b"[^a]" * 1_000)))
    yield Heavy("20,000 INFO", b"INFO", 20_000)
    yield Heavy("20,000 jobs in a row", _push(b'["x"]'), 20_000)
    if short:
        return
    yield Heavy("a frame of numbers", b"PUSHB [" + b"1," * _fitting(2) + b"1]")
    yield Heavy("100,000 queues", b"FETCH " + b" ".join(b"q%d" % n for n in range(_ENTRIES)))
    yield Heavy("pauses by the million", b"QUEUE PAUSE " + b"ab " * _fitting(3))
    yield Heavy("latencies", b"QUEUE LATENCY " + b" ".join(b"%d" % n for n in range(1_000_000)))
    yield Heavy("a pattern of stars", _mutate(b'"regexp":"%b"' % (b"*a" * 2_000)))
    yield Heavy(
        "many names", _mutate(b'"jids":[%b]' % b",".join(b'"j%d"' % n for n in range(500_000)))
    )
    yield Heavy("members", b"ACK {" + b'"a":"",' * _fitting(7) + b'"jid":"x"}')
    yield Heavy("a long trace", b'FAIL {"jid":"x","backtrace":[' + b'"",' * _fitting(3) + b'""]}')
    yield Heavy("brackets", _push(b"[" * (FRAME_BYTES - 200)))
    yield Heavy("zeros", _push(b"[" + b"0," * (1 << 20) + b"0]"))
    yield Heavy("empty arrays", _push(b"[" + b"[]," * (1 << 20) + b"0]"))
    yield Heavy("escapes", _push(b'["' + b"\\u0041" * (1 << 19) + b'"]'))
    yield Heavy("spaces", _push(b"[" + b" " * (3 << 20) + b"]"))
    yield Heavy("200,000 empty lines", b"", 200_000)
    yield Heavy("50,000 unknown words", b"WHAT " + b"x" * 100, 50_000)
    yield Heavy("too long a line", b"PUSH " + b"x" * (FRAME_BYTES + (1 << 20)), closes=True)


def _fitting(size: int) -> int:
    """How many pieces of this size a frame can hold."""
    return (FRAME_BYTES - 200) // size


def _minimal(number: int) -> bytes:
    return b'{"jid":"heavy-%06d","jobtype":"x","queue":"hostile","args":[]}' % number


def _push(args: bytes) -> bytes:
    return b'PUSH {"jid":"heavy-job","jobtype":"x","queue":"hostile","args":%b}' % args


def _mutate(members: bytes) -> bytes:
    return b'MUTATE {"cmd":"kill","target":"dead","filter":{%b}}' % members
