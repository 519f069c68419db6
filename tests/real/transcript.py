"""Conversations between a client and the server as text that people can read and diff.

`C:` is a command and `S:` its answer, as they were sent, but for three liberties. What differs from
run to run stands as `<...>`. A worker that has nothing to do asks again and again: of the FETCHes
in a row that brought nothing, one is shown. And long lines are wrapped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.real.proxy import CLIENT, Proxy, Side, Tape

_DIFFERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
        (r"\d\d:\d\d:\d\d UTC", "<time> UTC"),
        (r'("(?:uptime|connections|command_count|used_memory_mb)":)\d+', r"\1<number>"),
        (r'("pid": ?)\d+', r"\1<pid>"),
        (r'("hostname": ?)"[^"]*"', r'\1"<host>"'),
        (r'("i":)\d+', r"\1<rounds>"),
        (r'("s":)"[0-9a-f]+"', r'\1"<salt>"'),
        (r'("pwdhash": ?)"[0-9a-f]{64}"', r'\1"<hash>"'),
    )
)
_FIXED_TIME = "2099-01-01T00:00:00Z"
"""The one moment that clients name themselves, so it is shown."""
_IDLE = "S: $-1"
_WIDTH = 100


class Transcript:
    """The acts of one client, each with its connections."""

    def __init__(self, heading: str) -> None:
        self._blocks = [f"# {heading}\n#\n{_INTRODUCTION}"]

    @contextmanager
    def act(self, title: str, server_port: int) -> Iterator[Proxy]:
        """Write down what passes through this proxy under a title."""
        with Proxy(server_port) as proxy:
            yield proxy
        self._blocks.append(f"== {title}")
        for number, tape in enumerate(proxy.tapes, 1):
            label = f"-- connection {number}\n" if len(proxy.tapes) > 1 else ""
            self._blocks.append(label + "\n".join(wrapped(line) for line in shown(tape)))

    def text(self) -> str:
        return "\n\n".join(self._blocks) + "\n"


_INTRODUCTION = """\
# C: is what the client sent, S: what the server answered; a bulk answer is one line, its size
# and its text. <...> stands for what differs from run to run. Of the FETCHes that bring nothing
# in a row, one is shown. A long line goes on in the next one, behind three spaces.
# Recorded by tests/real/test_transcripts.py; UPDATE_TRANSCRIPTS=1 writes it anew."""


_REFUSED = "S: -ERR Invalid password"


def shown(tape: Tape) -> list[str]:
    """The lines of one connection."""
    return [normal(line) for line in _without_idling(list(_lines(tape.pieces)))]


def wrapped(line: str) -> str:
    """A long line in pieces, cut behind commas where there are some."""
    pieces = []
    while len(line) > _WIDTH:
        cut = line.rfind(",", _WIDTH // 2, _WIDTH) + 1 or _WIDTH
        pieces.append(line[:cut])
        line = "   " + line[cut:]
    return "\n".join([*pieces, line])


def normal(line: str) -> str:
    """A line without what differs from run to run."""
    changed = _without_trace(line).replace(_FIXED_TIME, "<fixed>")
    for pattern, text in _DIFFERS:
        changed = pattern.sub(text, changed)
    changed = changed.replace("<fixed>", _FIXED_TIME)
    if changed != line:
        changed = re.sub(r"^S: \$\d+ ", "S: $<size> ", changed)
    return changed


def _lines(pieces: Iterable[tuple[Side, bytes]]) -> Iterator[str]:
    """Whole commands and whole answers, in the order in which they were complete."""
    unread = {"C": bytearray(), "S": bytearray()}
    for side, data in pieces:
        rest = unread[side]
        rest += data
        if side == CLIENT:
            *commands, rest[:] = rest.split(b"\r\n")
            yield from (f"C: {command.decode()}" for command in commands)
        elif (end := _end_of_answer(rest)) is not None:
            # Some clients take one read for one answer and lose what comes with it.
            assert end == len(rest), f"more than one answer at once: {bytes(rest)!r}"
            yield "S: " + rest[:-2].decode().replace("\r\n", " ", 1)
            rest.clear()
    assert not any(unread.values()), f"half a line at the end: {unread}"


def _end_of_answer(data: bytes | bytearray) -> int | None:
    """Where the first answer ends, or None while it has not come whole."""
    line_end = data.find(b"\r\n") + 2
    if line_end < 2:
        return None
    if not data.startswith(b"$") or data.startswith(b"$-1"):
        return line_end
    end = line_end + int(data[1 : line_end - 2]) + 2
    if len(data) < end:
        return None
    assert data[end - 2 : end] == b"\r\n", f"a wrong size: {bytes(data[:line_end])!r}"
    return end


def _without_idling(lines: list[str]) -> list[str]:
    """Only the first of several idle FETCHes; one that was left unanswered at the end is idle."""
    kept: list[str] = []
    for index, line in enumerate(lines):
        after_idle = len(kept) >= 2 and kept[-1] == _IDLE and kept[-2] == line
        answer = lines[index + 1] if index + 1 < len(lines) else "C:"
        if after_idle and (answer == _IDLE or answer.startswith("C:")):
            continue
        if line == _IDLE and kept and kept[-1] in (_IDLE, "C: END"):
            continue
        if line == "C: END" and kept and kept[-1] == _REFUSED:
            continue  # the server hangs up at once: the client's last word may come too late
        kept.append(line)
    return kept


def _without_trace(line: str) -> str:
    """A backtrace names files and lines that are nobody's business here; that it is a list is."""
    match = re.search(r'"backtrace": ?(?=\[)', line)
    if match is None:
        return line
    trace, size = json.JSONDecoder().raw_decode(line[match.end() :])
    assert all(isinstance(each, str) for each in trace), line
    return f"{line[: match.end()]}[<trace>]{line[match.end() + size :]}" if trace else line
