"""Periodic: frames with a CRC that fits, or (`d`, `e`) the document's without one."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from zlib import crc32

from franca.protocols.conversation import Service
from tests.prove.fuzzing import RAW, Exchange, Message, Step
from tests.support import periodic as p
from tests.support.periodic import SEPARATOR, packed, str8

LINKS: dict[str, str] = {}
_PLAIN = b"<plain>"
"""The first part of a message in the document's dialect."""


def _say(command: int, *args: bytes, msgid: bytes = b"0001") -> Message:
    return (msgid, bytes([command]), *args)


def _tell(command: int, *args: bytes, msgid: bytes = b"1") -> Message:
    return (_PLAIN, msgid, bytes([command]), *args)


_CLIENT, _WORKER = (b"\x01",), (b"\x02",)
_HANDLE = str8("q") + str8("n")
_JOB = packed("q", "n", b"abc", at=1_790_000_060, count=2, timeout=3)
_DOC_JOB = json.dumps(
    {"func": "q", "name": "n", "workload": "abc", "sched_at": 1, "counter": 1, "timeout": 2}
).encode()
_DOC_HANDLE = b"q\0n"
EXCHANGES: tuple[Exchange, ...] = (
    (
        Step("c", (_CLIENT, _say(p.PING), _say(p.SUBMIT_JOB, packed("q", "n", b"abc")))),
        Step("w", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB, msgid=b"grab"), _say(p.SLEEP))),
        Step("w", (_say(p.JOB_ASSIGNED, msgid=b"grab"), _say(p.WORK_DATA, _HANDLE, b"part"), _say(p.WORK_DONE, _HANDLE, b"result"))),
        Step("c", (_say(p.STATUS), _say(p.DUMP), _say(p.DROP_FUNC, str8("q")))),
    ),
    (
        Step("w", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB, msgid=b"grab"))),
        Step("c", (_CLIENT, _say(p.RECV_DATA, packed("q", "n")), _say(p.RUN_JOB, packed("q", "n", b"abc", timeout=9), msgid=b"run1"))),
        Step("w", (_say(p.ACQUIRE, str8("lock"), b"\0\1", _HANDLE), _say(p.RELEASE, str8("lock"), _HANDLE), _say(p.WORK_FAIL, _HANDLE))),
        Step("w", (_say(p.GRAB_JOB, msgid=b"more"), _say(p.JOB_UNASSIGNED, msgid=b"more"), _say(p.CANT_DO, str8("q"))), pass_ms=2_000),
    ),
    (
        Step("c", (_CLIENT, _say(p.SUBMIT_JOB, _JOB), _say(p.CONFIG_GET, str8("timeout")), _say(p.CONFIG_SET, str8("timeout"), b"\0\0\0\x40"))),
        Step("w", (_WORKER, _say(p.BROADCAST, str8("q")), _say(p.GRAB_JOB, msgid=b"grab")), pass_ms=120_000),
        Step("w", (_say(p.SCHED_LATER, _HANDLE, struct.pack(">qh", 5, 1)),)),
        Step("c", (_say(p.REMOVE_JOB, packed("q", "n")), _say(p.LOAD, struct.pack(">q", 1), _JOB)), pass_ms=6_000),
    ),
    (
        Step("w", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB, msgid=b"grab"))),
        Step("w", (_say(p.SUBMIT_JOB, packed("q", "n")), _say(p.RUN_JOB, packed("q", "m")), _say(p.SLEEP))),
    ),
    (
        Step("d", ((_PLAIN, b"\x01"), _tell(p.PING), _tell(p.SUBMIT_JOB, _DOC_JOB))),
        Step("e", ((_PLAIN, b"\x02"), _tell(p.CAN_DO, b"q"), _tell(p.SLEEP), _tell(p.GRAB_JOB))),
        Step("e", (_tell(p.WORK_DONE, _DOC_HANDLE, b"result"), _tell(p.WORK_FAIL, _DOC_HANDLE), _tell(p.SCHED_LATER, _DOC_HANDLE, b"5", b"1")), pass_ms=3_000),
        Step("d", (_tell(p.STATUS), _tell(p.DUMP), _tell(p.LOAD, b'{"jobs":[' + _DOC_JOB + b"]}"), _tell(p.DROP_FUNC, b"q"))),
    ),
    (
        Step("w", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB, msgid=b"grab"), _say(p.SUBMIT_JOB, packed("q", "n")), _say(p.GRAB_JOB, msgid=b"more"))),
        Step("w", (_say(p.RUN_JOB, packed("q", "m"), msgid=b"run1"), _say(p.WORK_DONE, _HANDLE), _say(p.REMOVE_JOB, packed("q", "m")), _say(p.RUN_JOB, packed("q", "m"), msgid=b"run2"))),
    ),
    (
        Step("w", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB, msgid=b"grab"), _say(p.GRAB_JOB, msgid=b"more"))),
        Step("c", (_CLIENT, _say(p.SUBMIT_JOB, packed("q", "n")), _say(p.SUBMIT_JOB, packed("q", "m")), _say(p.REMOVE_JOB, packed("q", "m")), _say(p.STATUS))),
    ),
    (
        # Two workers fall silent: a lock of one opens for the other, which is hung up on at the same moment.
        Step("w", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB), _say(p.SUBMIT_JOB, packed("q", "n")), _say(p.ACQUIRE, str8("lock"), b"\0\1", _HANDLE))),
        Step("x", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB))),
        Step("v", (_WORKER, _say(p.CAN_DO, str8("q")), _say(p.GRAB_JOB))),
        Step("x", (_say(p.SUBMIT_JOB, packed("q", "m")), _say(p.ACQUIRE, str8("lock"), b"\0\1", str8("q"), str8("m"))), pass_ms=100_000),
        Step("x", (_say(p.STATUS),), pass_ms=60_000),
    ),
)  # fmt: skip


VALUES: tuple[bytes, ...] = (
    packed("q", "n", b"abc", at=2**63 - 1, count=2**31 - 1, timeout=2**31 - 1), packed("q", "n", b"abc", at=-(2**63)), packed("\x80" * 120, "\x80" * 120), str8("q") + b"\xff" + b"\xff" * 255,
    b"\x02\xff\xfe" + str8("n") + struct.pack(">I", 2**32 - 1), packed("q", "n")[:-1] + b"\x03" + struct.pack(">ii", -1, -(2**31)), packed("q", "n")[:-1] + b"\xff", str8("") + str8(""), b"\xff" * 300,
    _HANDLE + struct.pack(">qh", 2**63 - 1, 2**15 - 1), _HANDLE + struct.pack(">qh", -(2**63), -(2**15)), struct.pack(">q", 2**63 - 1), struct.pack(">i", -1), b"\xff\xff" + _HANDLE,
    b'{"func":"q","name":"n","sched_at":1e400}', b'{"func":"q","name":"n","sched_at":' + b"9" * 5_000 + b"}", b'{"func":"q","name":"\\ud800","timeout":-1}', b'{"func":"q","counter":1e99,"name":"n"}',
    b'{"func":"\xff","name":"n"}', b'{"jobs":' + b"[" * 2_000, b"9" * 5_000, b"-1", b"1e400", b"q\0" + b"n" * 3_000, b"0x" + b"f" * 3_800,
)  # fmt: skip


def encode(message: Message) -> bytes:
    """A frame in one of the two dialects."""
    if message[:1] == (RAW,):
        return b"".join(message[1:])
    if message[:1] == (_PLAIN,):
        payload = SEPARATOR.join(message[1:])
        return b"\0REQ" + struct.pack(">I", len(payload)) + payload
    payload = b"".join(message)
    return b"\0REQ" + struct.pack(">II", len(payload), crc32(payload)) + payload


def fill(service: Service, data: bytes) -> bytes:
    """Clients choose all names themselves. None may stop the server."""
    return data


def answers(said: bytes) -> Iterator[bytes]:
    """Frames; with a CRC or without."""
    at = 0
    while at < len(said):
        if said[at : at + 4] != b"\0RES" or len(said) < at + 9:
            raise ValueError(f"no frame: {said[at : at + 40]!r}")
        (size,) = struct.unpack_from(">I", said, at + 4)
        payload = said[at + 12 : at + 12 + size]
        head = 12
        if len(said) < at + 12 or crc32(payload) != int.from_bytes(said[at + 8 : at + 12], "big"):
            payload, head = said[at + 8 : at + 8 + size], 8
        if len(payload) < size:
            raise ValueError(f"half a frame: {said[at : at + 40]!r}")
        yield payload
        at += head + size
