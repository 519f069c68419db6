"""What each library says and hears, packet by packet, kept as files.

A difference is a failure; UPDATE_TRANSCRIPTS=1 writes the files anew, to be read before they are
committed.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator

import pytest

from franca.protocols.gearman.wire import Packet
from tests.real.gearman.clients import LibraryClient
from tests.real.gearman.kinds import KINDS, differs, need
from tests.real.gearman.kit import Peers
from tests.real.gearman.transcript import FOLDER, SAID
from tests.real.kit import compare
from tests.real.relay import CLIENT, SERVER, Relay, Side, Tape
from tests.support.shared import eventually

HEADINGS = {
    "gearman": "gearman, the tool, 1.1.20 from Debian (libgearman)",
    "gear": "gear 0.16.0 from PyPI",
    "python3-gearman": "python3-gearman 0.1.0 from PyPI",
    "aiogear": "aiogear 0.2.6 from PyPI",
    "gearmanode": "gearmanode 0.9.2 from npm",
    "abraxas": "abraxas 2.1.10 from npm",
    "node-gearman": "node-gearman 0.2.2 from npm",
    "perl": "Gearman::Client and Gearman::Worker 2.004.015 from Debian",
    "php": "PHP's gearman extension 2.1.0 from Debian (libgearman)",
}
VERSIONS = {
    "gearman": ("1.1.20", ["dpkg-query", "-W", "-f", "${Version}", "gearman-tools"]),
    "perl": (
        "v2.4.15",
        ["perl", "-MGearman::Client", "-e", "print $Gearman::Client::VERSION->normal"],
    ),
    "php": ("2.1.0 1.1.20", ["php", "-r", "echo phpversion('gearman'), ' ', gearman_version();"]),
}
"""What the machine brings may be another version than the one that was heard."""
PRE_SLEEP = b"\0REQ" + struct.pack(">II", 4, 0)


@differs("its handles and its answers to exceptions are its own")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_is_what_was_said(shared: Peers, kind: str) -> None:
    _need_version(kind)
    acts = [_client_act(shared, kind)]
    acts.append(_worker_act(shared, kind, "progress" if KINDS[kind].tells else "reverse"))
    acts.append(_worker_act(shared, kind, "raise" if KINDS[kind].raises else "fail"))
    compare(FOLDER / f"{kind}.txt", _text(HEADINGS[kind], acts))


def _need_version(kind: str) -> None:
    need(kind)
    if kind in VERSIONS:
        wanted, argv = VERSIONS[kind]
        known = shutil.which(argv[0]) is not None
        found = subprocess.run(argv, capture_output=True, text=True).stdout if known else ""
        if not found.startswith(wanted):
            pytest.skip(f"recorded with {kind} {wanted}; here is {found}")


def _client_act(peers: Peers, kind: str) -> Act:
    act = Act("A client: a job that is done, one that is not, one in the background")
    peers.shared_worker("gear")
    with Relay(peers.port) as proxy:
        client = peers.client(kind, port=proxy.port)
        assert client.do("gear.reverse", b"abc").result == b"cba"
        assert client.do("gear.raise", b"abc").outcome != "complete"
        handle = client.background("nobody", b"later", "given", priority="low")
        if KINDS[kind].asks_status:
            assert isinstance(client, LibraryClient)
            assert client.status(handle) == [1, 0, 0, 0]
        eventually(lambda: proxy.said(SERVER).count(b"\0RES") >= 5, "all answers")
        if isinstance(client, LibraryClient):
            client.close()
    act.note(proxy)
    return act


def _worker_act(peers: Peers, kind: str, does: str) -> Act:
    act = Act(f"A worker, and a job: {does}")
    function = f"told.{does}"
    with Relay(peers.port) as proxy:
        worker = peers.worker(kind, {function: does}, port=proxy.port)
        eventually(lambda: proxy.said(CLIENT).count(PRE_SLEEP) == 1, "its sleep")
        peers.shared_client("gear").do(function, b"abc", unique="given")
        eventually(lambda: proxy.said(CLIENT).count(PRE_SLEEP) == 2, "its next sleep")
        worker.close()
    act.note(proxy)
    return act


def test_every_kind_has_its_file() -> None:
    names = {path.stem for path in FOLDER.glob("*.txt")}
    assert names == set(KINDS)
    for path in FOLDER.glob("*.txt"):
        assert not re.search(r"H:\w", path.read_text(encoding="utf-8")), "a handle in it"


# -- what was said, as text ---------------------------------------------------------------------------

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


def _text(heading: str, acts: list[Act]) -> str:
    blocks = [f"# {heading}\n{_INTRODUCTION}"]
    blocks += ["\n".join([f"== {act.title}", *act.lines]) for act in acts]
    return "\n\n".join(blocks) + "\n"


_INTRODUCTION = """\
#
# A line is a packet: its name and its arguments. <handle N> is a job, <unique> what the library
# made up for one. Recorded by tests/real/gearman/test_transcripts.py, which UPDATE_TRANSCRIPTS=1
# makes write it anew; said again by tests/protocols/gearman/test_recorded.py."""
