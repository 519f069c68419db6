"""What peers said, packet by packet, as text that people can read and programs can say again.

A line is a packet: its name, then its arguments, in which anything but plain characters is
escaped as in Python, `|` between two of them. What the peer sent and what the server sent stand
apart: which of two packets on their way to each other came first is chance. `<handle 1>` is the
first job that is spoken of; `<unique>` one that a library made up.
"""

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from franca.protocols.gearman.wire import Packet
from tests.real.relay import CLIENT, SERVER, Relay, Side, Tape
from tests.support.gearman import request

FOLDER = Path(__file__).with_name("transcripts")
SAID = {CLIENT: "it says", SERVER: "it hears"}

_HEADER = struct.Struct(">4sII")
_ARGUMENTS = {"SUBMIT_JOB": 3, "JOB_ASSIGN_": 4, "JOB_ASSIGN": 3, "STATUS_RES": 5, "WORK_STATUS": 3}
_ARGUMENTS |= {"WORK_FAIL": 1, "WORK_": 2, "ERROR": 2, "CAN_DO_TIMEOUT": 2}
"""By the beginning of its name, the first that fits: how many arguments a packet has, where it is not one.

The last goes to its end.
"""
_HANDLE = re.compile(rb"H:[^\0|]+:\d+$")
_GIVEN = (b"", b"given")
"""The uniques that tests give; others are the library's own."""


class Act:
    """What was said under one title."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[str] = []
        self._handles: dict[bytes, str] = {}

    def note(self, proxy: Relay) -> None:
        """All connections that came through it, in order."""
        for number, tape in enumerate(proxy.tapes, 1):
            for side in (CLIENT, SERVER):
                packets = [self._shown(*each) for each in _packets(tape, side)]
                self.lines += [f"-- connection {number}, {SAID[side]}", *packets]

    def _shown(self, number: Packet, body: bytes) -> str:
        count = next((n for name, n in _ARGUMENTS.items() if number.name.startswith(name)), 1)
        arguments = body.split(b"\0", count - 1) if body else []
        if number.name.startswith("SUBMIT_JOB") and arguments[1] not in _GIVEN:
            arguments[1] = b"<unique>"
        if number == Packet.JOB_ASSIGN_UNIQ and arguments[2] not in _GIVEN:
            arguments[2] = b"<unique>"
        return " ".join([number.name, " | ".join(map(self._argument, arguments))]).strip()

    def _argument(self, argument: bytes) -> str:
        if _HANDLE.match(argument):
            return self._handles.setdefault(argument, f"<handle {len(self._handles) + 1}>")
        return repr(argument)[2:-1]


def _packets(tape: Tape, side: Side) -> Iterator[tuple[Packet, bytes]]:
    data = tape.said(side)
    while data:
        _, number, size = _HEADER.unpack_from(data)
        end = _HEADER.size + size
        assert len(data) >= end, "half a packet at the end"
        yield Packet(number), data[_HEADER.size : end]
        data = data[end:]


def text(heading: str, acts: list[Act]) -> str:
    blocks = [f"# {heading}\n{_INTRODUCTION}"]
    blocks += ["\n".join([f"== {act.title}", *act.lines]) for act in acts]
    return "\n\n".join(blocks) + "\n"


_INTRODUCTION = """\
#
# A line is a packet: its name and its arguments. <handle N> is a job, <unique> what the library
# made up for one. Recorded by tests/real/gearman/test_transcripts.py, which UPDATE_TRANSCRIPTS=1
# makes write it anew; said again by tests/protocols/gearman/test_recorded.py."""


def said(path: Path, handle: Callable[[str], bytes]) -> list[tuple[str, bytes]]:
    """What its connections sent, each with its act's title, and with these acts' handles."""
    found: list[tuple[str, bytes]] = []
    title, is_clients = "", False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            title = line.removeprefix("== ")
        elif line.startswith("-- "):
            is_clients = line.endswith(SAID[CLIENT])
            if is_clients:
                found.append((title, b""))
        elif line and is_clients:
            found[-1] = (title, found[-1][1] + _packed(line, handle(title)))
    return found


def _packed(line: str, handle: bytes) -> bytes:
    name, _, rest = line.partition(" ")
    return request(Packet[name], *(_unescaped(each, handle) for each in rest.split(" | ")))


def _unescaped(argument: str, handle: bytes) -> bytes:
    if argument.startswith("<handle"):
        return handle
    return argument.encode("latin-1").decode("unicode_escape").encode("latin-1")
