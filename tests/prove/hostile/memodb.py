"""MemoDB: what is no frame of SP is hung up on; what is no message is not answered, and what comes behind it is.

`worker-1` is the first worker that the server knows; a worker that it does not know is told DISCONNECT.
"""

import struct
from random import Random

from franca.protocols.service import Service
from tests.prove.hostile import RAW, Hostility, Message, tables
from tests.support import memodb as m


def _message(command: bytes, *words: bytes) -> Message:
    """`verb@id` and its words, in `ask` as bytes; the ids of devices on the way stand before that of the request."""
    verb, _, ids = command.partition(b"@")
    *devices, request = map(int, (ids or b"1").split(b"/"))
    header, *payload = words or (b"",)
    match verb:
        case b"hello":
            return (RAW, m.HELLO)
        case b"frame":
            return words
        case b"job":
            header, payload = m.job(header.decode(), b"", int(payload[0])), payload[1:]
        case b"ready":
            header, payload = m.ready(*(word.decode() for word in words)), []
        case b"result" | b"last-result":
            header = m.result(header, leaving=True if verb == b"last-result" else None)
        case b"heartbeat" | b"leaving":
            header = m.heartbeat(header) if verb == b"heartbeat" else m.leaving(header)
    path = [*devices, request | 1 << 31]
    return (*(struct.pack(">I", number) for number in path), header, *payload)


def _frame(message: Message) -> bytes:
    body = b"".join(message)
    return struct.pack(">Q", len(body)) + body


def _fill(service: Service, data: bytes) -> bytes:
    """Ids of workers are drawn from the chance that a world hands in, and counted from there."""
    rng = Random(1)
    boot, number = rng.getrandbits(32), rng.getrandbits(31)
    for worker in range(1, 5):
        worker_id = struct.pack(">II", boot, number + worker & 0xFFFFFFFF)
        data = data.replace(b"worker-%d" % worker, worker_id)
    return data


HOSTILITY = Hostility(
    tables(__file__), _message, _frame, m.said,
    answer=_frame((b"\xff\xff\xff\xff", m.leaving(b"nobody"))), fill=_fill,
)  # fmt: skip
