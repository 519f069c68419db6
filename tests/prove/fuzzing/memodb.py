"""MemoDB: requests of SP with CBOR headers. `worker-1` is the first worker that the server knows."""

from __future__ import annotations

import struct
from random import Random

from franca.protocols.service import Service
from tests.prove.fuzzing import RAW, Exchange, Message, Seeds, Step
from tests.support import memodb as m
from tests.support.memodb import heartbeat, job, leaving, ready, result

_HELLO: Message = (RAW, m.HELLO)


def _ask(number: int, message: bytes, *payload: bytes) -> Message:
    return (struct.pack(">I", number | 1 << 31), message, *payload)


def _worker(number: int) -> bytes:
    return b"worker-%d" % number


def _ids() -> list[bytes]:
    """The ids of workers are drawn from the chance that a stage hands in, and counted from there."""
    rng = Random(1)
    boot, number = rng.getrandbits(32), rng.getrandbits(31)
    return [struct.pack(">II", boot, number + n + 1 & 0xFFFFFFFF) for n in range(4)]


_IDS = _ids()
_EXCHANGES: tuple[Exchange, ...] = (
    (
        Step("c", (_HELLO, _ask(1, job("q", b"", 5_000), b"payload"))),
        Step("w", (_HELLO, _ask(7, ready("q", "t")))),
        Step("w", (_ask(8, result(_worker(1)), b"answer"),)),
        Step("c", (_ask(1, job("q", b"", 5_000), b"payload"), _ask(2, job("t", b"more", 100)))),
    ),
    (
        Step("w", (_HELLO, _ask(1, ready("q")), _ask(2, ready("t")), _ask(3, heartbeat(_worker(1))))),
        Step("c", (_HELLO, _ask(1, job("q", b"one", 2_000)), _ask(2, job("q", b"two", 2_000)))),
        Step("w", (_ask(4, result(_worker(1), b"first", leaving=True)), _ask(5, leaving(_worker(2))))),
        Step("w", (_ask(6, heartbeat(_worker(1))),), pass_ms=12_000),
    ),
    (
        Step("c", (_HELLO, (b"\0\0\0\5", *_ask(1, job("q", b"through a device", 0))))),
        Step("w", (_HELLO, _ask(1, ready("q")))),
        Step("v", (_HELLO, _ask(1, result(_worker(1), b"from elsewhere"))), pass_ms=3_000),
        Step("c", (_ask(9, m._header(m.RESULT, b"12345678")), _ask(10, m._cbor(["memo01", 2, b"", "s", 1])))),
    ),
    (
        Step("w", (_HELLO, _ask(1, ready("q")), _ask(2, job("q", b"for itself", 1_000)))),
        Step("w", (_ask(3, result(_worker(1), b"by itself")),), pass_ms=25_000),
    ),
    (Step("w", (_HELLO, _ask(1, ready("q")), _ask(2, job("q", b"for itself", 1_000)), _ask(1, ready("q")))),),
)  # fmt: skip


_VALUES: tuple[bytes, ...] = (
    job("q", b"", 2**64 - 1), job("\x80" * 400, b""), m._cbor(["memo01", 2, b"", "q" * 3_000, 1]), ready(*map(str, range(300))), ready(*["q"] * 300), m._cbor(["memo01", 1, b"", [[]]]),
    m._cbor(["memo01", 2**64 - 1, b"", "q", 1]), m._cbor(["memo01", 2, b"", "q", True]), m._header(m.RESULT, b"x" * 3_000), m._header(m.RESULT, b""), b"\x84fmemo01\x02@b\xc3\x28\x01", b"\x9f" * 400, b"\x81" * 400,
    b"\xbb" + b"\xff" * 8, b"\x9b" + b"\xff" * 8, b"\x84fmemo01\x02@aq\xc2\x59\x10\0" + b"\xff" * 4_096, b"\x84fmemo01\x02@aq\xf9\x7c\0", b"\x84fmemo01\x02@aq\xfb\x7f\xf0\0\0\0\0\0\0",
    b"\x84fmemo01\x02@aq\x3b" + b"\xff" * 8, b"\xd8\x40" * 400, b"\x5f" * 300, b"\x84fmemo01\x02@\x7faqaq\xff\x01", b"", b"\0" * 64,
)  # fmt: skip


def _encode(message: Message) -> bytes:
    """A frame of SP."""
    body = b"".join(message)
    return struct.pack(">Q", len(body)) + body


def _fill(service: Service, data: bytes) -> bytes:
    """Workers are called by ids of the same size."""
    for number, worker_id in enumerate(_IDS):
        data = data.replace(_worker(number + 1), worker_id)
    return data


SEEDS = Seeds(_EXCHANGES, _VALUES, _encode, m.said, fill=_fill)
