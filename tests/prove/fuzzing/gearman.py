"""Gearman: packets of a type and arguments, and lines of text. `@1` is the first handle of the server."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from franca.protocols.conversation import Service
from franca.protocols.gearman.service import GearmanService
from tests.prove.fuzzing import RAW, Exchange, Message, Step
from tests.support.gearman import Type, take_packet

LINKS: dict[str, str] = {}


def _packet(kind: Type, *arguments: bytes) -> Message:
    return (bytes([kind]), *arguments)


def _line(text: bytes) -> Message:
    return (RAW, text, b"\n")


T = Type
_NOW = b"1790000400"
EXCHANGES: tuple[Exchange, ...] = (
    (
        Step("c", (_packet(T.OPTION_REQ, b"exceptions"), _packet(T.SUBMIT_JOB, b"q", b"u1", b"hello"))),
        Step("w", (_packet(T.SET_CLIENT_ID, b"me"), _packet(T.CAN_DO, b"q"), _packet(T.GRAB_JOB_UNIQ))),
        Step("w", (_packet(T.WORK_STATUS, b"@1", b"1", b"2"), _packet(T.WORK_DATA, b"@1", b"part"))),
        Step("c", (_packet(T.GET_STATUS, b"@1"), _packet(T.GET_STATUS_UNIQUE, b"u1"))),
        Step("w", (_packet(T.WORK_WARNING, b"@1", b"w"), _packet(T.WORK_COMPLETE, b"@1", b"olleh"), _packet(T.ECHO_REQ, b"x"))),
    ),
    (
        Step("w", (_packet(T.CAN_DO_TIMEOUT, b"q", b"5000"), _packet(T.PRE_SLEEP))),
        Step("c", (_packet(T.SUBMIT_JOB_HIGH_BG, b"q", b"", b"a"), _packet(T.SUBMIT_JOB_LOW, b"q", b"-", b"b"))),
        Step("w", (_packet(T.GRAB_JOB), _packet(T.GRAB_JOB_ALL))),
        Step("w", (_packet(T.WORK_EXCEPTION, b"@2", b"oh"), _packet(T.WORK_FAIL, b"@2"), _packet(T.WORK_FAIL, b"@1"))),
        Step("w", (_packet(T.CANT_DO, b"q"), _packet(T.RESET_ABILITIES), _packet(T.PRE_SLEEP)), pass_ms=6_000),
    ),
    (
        Step("c", (_packet(T.SUBMIT_JOB_EPOCH, b"q", b"e", _NOW, b"later"),)),
        Step("c", (_packet(T.SUBMIT_JOB_SCHED, b"q", b"s", b"*", b"3", b"", b"12", b"0", b"cron"),)),
        Step("c", (_packet(T.SUBMIT_REDUCE_JOB_BACKGROUND, b"q", b"r", b"red", b"0", b"map"),)),
        Step("c", (_line(b"status"), _line(b"prioritystatus"), _line(b"workers"), _line(b"show jobs"))),
        Step("w", (_packet(T.CAN_DO, b"q"), _packet(T.GRAB_JOB_ALL)), pass_ms=600_000),
    ),
    (
        Step("c", (_line(b"maxqueue q 1 2 3"), _packet(T.SUBMIT_JOB_BG, b"q", b"a", b"1"), _packet(T.SUBMIT_JOB, b"q", b"a", b"1"))),
        Step("d", (_packet(T.SUBMIT_JOB_LOW_BG, b"q", b"b", b"2"), _line(b"show unique jobs"), _line(b"cancel job @1"))),
        Step("d", (_line(b"create function x\r"), _line(b"drop function x"), _line(b"jobs"), _line(b"clients"), _line(b"version"))),
        Step("c", (_packet(T.ALL_YOURS), _line(b"nonsense"), _packet(T.ECHO_REQ, b""))),
    ),
)  # fmt: skip


VALUES: tuple[bytes, ...] = (
    b"9" * 5_000, b"-1", b"-" + b"9" * 500, b"0x10", b"1e9", b" 12", b"1_0", b"\xef\xbc\x91", b"18446744073709551616", b"9223372036854775807", b"\xff" * 64, b"u" * 65, b"u" * 2_000,
    b"f\xff", b"\xed\xa0\x80", b"", b"-", b"@999999999", b"@-1", b"@" + b"9" * 400, b"*", b"60", b"7", b"exceptions\0", b"\0" * 200, b"x" * 200_000,
)  # fmt: skip


def encode(message: Message) -> bytes:
    """A packet with the size of its arguments, or a line."""
    if message[:1] == (RAW,):
        return b"".join(message[1:])
    kind, *arguments = message or (b"\x10",)
    body = b"\0".join(arguments)
    return struct.pack(">4sII", b"\0REQ", int.from_bytes(kind[:4], "big"), len(body)) + body


def fill(service: Service, data: bytes) -> bytes:
    """Handles are the server's."""
    assert isinstance(service, GearmanService)
    return data.replace(b"@", service.prefix.encode())


def answers(said: bytes) -> Iterator[bytes]:
    """Packets and lines; but a NOOP may or may not overtake the word that makes it needless."""
    unread = bytearray(said)
    while unread:
        if unread[0]:
            end = unread.find(b"\n")
            if end < 0:
                raise ValueError(f"half a line: {bytes(unread[:60])!r}")
            yield bytes(unread[:end])
            del unread[: end + 1]
        else:
            packet = take_packet(unread)
            if packet is None:
                raise ValueError(f"half a packet: {bytes(unread[:60])!r}")
            if packet.type is not T.NOOP:
                yield bytes([packet.type]) + packet.body
