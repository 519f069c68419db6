"""beanstalkd's bytes: a command is a line that ends with CRLF; a counted body follows a `put`.

The original finds a command by how its line begins, and skips a body that is too large, so that
the next command is read from its beginning. Both are done here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from franca.core.errors import WireError
from franca.core.model import JobId
from franca.protocols.beanstalkd import messages
from franca.protocols.beanstalkd.messages import Malformed, Put
from franca.protocols.buffer import HTTP_METHODS

LINE_BYTES_MAX: Final = 224
"""Of a line with its CRLF."""
LONG_BYTES: Final = 64 * 1024
"""A longer body is not copied only to be sent in one piece."""
U32_MAX: Final = (1 << 32) - 1
_U64_MAX: Final = (1 << 64) - 1
_I64_MAX: Final = (1 << 63) - 1

BAD_FORMAT: Final = Malformed(b"BAD_FORMAT\r\n")
UNKNOWN_COMMAND: Final = Malformed(b"UNKNOWN_COMMAND\r\n")
BAD_PUT: Final = Malformed(b"BAD_FORMAT\r\n", Put)
BAD_PAUSE: Final = Malformed(b"BAD_FORMAT\r\n", messages.PauseTube)
EXPECTED_CRLF: Final = Malformed(b"EXPECTED_CRLF\r\n", Put)
JOB_TOO_BIG: Final = Malformed(b"JOB_TOO_BIG\r\n", Put)

_Parser = Callable[[bytes], object]

# -- what peers send -----------------------------------------------------------------------------

TUBE: Final = rb"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}"
_is_tube = re.compile(TUBE).fullmatch
_put_line = re.compile(rb"put +([0-9]+) +([0-9]+) +([0-9]+) +([0-9]+)(.*)", re.DOTALL).fullmatch
_pause_line = re.compile(rb" *([^ ]+) +([0-9]+)").fullmatch
_leading_number = re.compile(rb"\s*([+-]?[0-9]+)").match


def _with_numbers(message: Callable[..., object], *maxima: int) -> _Parser:
    match_all = re.compile(rb" *" + rb" +".join([rb"([0-9]+)"] * len(maxima))).fullmatch

    def parse(text: bytes) -> object:
        match = match_all(text)
        if match is None:
            return BAD_FORMAT
        numbers = [int(number) for number in match.groups()]
        if any(number > most for number, most in zip(numbers, maxima, strict=True)):
            return BAD_FORMAT
        return message(*numbers)

    return parse


def _with_tube(message: Callable[[str], object]) -> _Parser:
    return lambda text: message(text.decode()) if _is_tube(text) else BAD_FORMAT


def _parse_pause(text: bytes) -> object:
    match = _pause_line(text)
    if match is None or int(match[2]) > U32_MAX:
        return BAD_FORMAT
    if not _is_tube(match[1]):
        return BAD_PAUSE
    return messages.PauseTube(match[1].decode(), int(match[2]))


def _parse_kick(text: bytes) -> object:
    """As the original reads it: whatever follows the number is ignored, and -1 is very many."""
    match = _leading_number(text)
    if match is None or abs(bound := int(match[1])) > _U64_MAX:
        return BAD_FORMAT
    return messages.Kick(min(bound, U32_MAX) if bound >= 0 else U32_MAX)


def _parse_timeout(text: bytes) -> object:
    """As the original reads it: no number is 0, and whatever follows one is ignored."""
    match = _leading_number(text)
    seconds = int(match[1]) if match is not None else 0
    return (
        BAD_FORMAT
        if abs(seconds) > _I64_MAX
        else messages.ReserveWithTimeout(min(seconds, U32_MAX))
    )


_WITH_ARGUMENTS: Final[dict[bytes, _Parser]] = {
    b"use": _with_tube(messages.Use),
    b"watch": _with_tube(messages.Watch),
    b"ignore": _with_tube(messages.Ignore),
    b"reserve-with-timeout": _parse_timeout,
    b"reserve-job": _with_numbers(messages.ReserveJob, _U64_MAX),
    b"delete": _with_numbers(messages.Delete, _U64_MAX),
    b"release": _with_numbers(messages.Release, _U64_MAX, U32_MAX, U32_MAX),
    b"bury": _with_numbers(messages.Bury, _U64_MAX, U32_MAX),
    b"touch": _with_numbers(messages.Touch, _U64_MAX),
    b"kick": _parse_kick,
    b"kick-job": _with_numbers(messages.KickJob, _U64_MAX),
    b"peek": _with_numbers(messages.Peek, _U64_MAX),
    b"stats-job": _with_numbers(messages.StatsJob, _U64_MAX),
    b"stats-tube": _with_tube(messages.StatsTube),
    b"pause-tube": _parse_pause,
}
_ALONE: Final[dict[bytes, object]] = {
    b"reserve": messages.Reserve(),
    b"peek-ready": messages.PeekReady(),
    b"peek-delayed": messages.PeekDelayed(),
    b"peek-buried": messages.PeekBuried(),
    b"stats": messages.Stats(),
    b"list-tubes": messages.ListTubes(),
    b"list-tube-used": messages.ListTubeUsed(),
    b"list-tubes-watched": messages.ListTubesWatched(),
    b"quit": messages.Quit(),
}
_BEGINNINGS: Final = (*_ALONE, b"pause-tube")
"""A line that begins with one of these is that command, badly written."""


def _parse(line: bytes) -> object:
    """The message of a line that is not a `put`."""
    alone = _ALONE.get(line)
    if alone is not None:
        return alone
    word, space, text = line.partition(b" ")
    parse = _WITH_ARGUMENTS.get(word) if space else None
    if b"\0" in line:
        return BAD_FORMAT
    if parse is not None:
        return parse(text)
    if line.startswith(b"quit"):
        return _ALONE[b"quit"]
    return BAD_FORMAT if line.startswith((b"put ", *_BEGINNINGS)) else UNKNOWN_COMMAND


class CommandReader:
    """Cuts bytes into commands. A `put` is handed out with its body.

    A body of more than `body_bytes_max` is skipped, and so is what is left of a line that is too
    long, before the peer is told.
    """

    __slots__ = ("_body_bytes_max", "_is_long_line", "_put", "_skip", "_unread", "has_input")

    def __init__(self, body_bytes_max: int) -> None:
        self.has_input = False
        self._body_bytes_max = body_bytes_max
        self._unread = bytearray()
        self._put: tuple[int, int, int, int] | None = None
        self._skip = 0
        self._is_long_line = False

    def __len__(self) -> int:
        return len(self._unread)

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        self._unread += data
        self.has_input = True

    def next_message(self, data: bytes = b"") -> object | None:
        """The next command, or None until all of it is there."""
        self._unread += data
        if self._skip:
            message = self._skip_body()
        else:
            message = self._take_line() if self._put is None else self._take_body(*self._put)
        self.has_input = message is not None and len(self._unread) > 0
        return message

    def _take_line(self) -> object | None:
        unread = self._unread
        if unread.startswith(HTTP_METHODS):
            raise WireError("http", "")  # a web page must not be able to speak to us
        end = unread.find(b"\r\n", 0, LINE_BYTES_MAX)
        if end < 0 or self._is_long_line:
            return (
                self._skip_line() if self._is_long_line or len(unread) >= LINE_BYTES_MAX else None
            )
        line = bytes(unread[:end])
        del unread[: end + 2]
        match = _put_line(line)
        if match is None:
            return _parse(line)
        priority, delay_s, ttr_s, size = map(int, match.groups()[:4])
        if max(priority, delay_s, ttr_s, size) > U32_MAX or b"\0" in line:
            return BAD_FORMAT
        if match[5] and size <= self._body_bytes_max:
            return BAD_PUT
        if size > self._body_bytes_max:
            self._skip = size + 2
            return self._skip_body()
        return self._take_body(priority, delay_s, ttr_s, size)

    def _take_body(self, priority: int, delay_s: int, ttr_s: int, size: int) -> object | None:
        unread = self._unread
        if len(unread) < size + 2:
            self._put = priority, delay_s, ttr_s, size
            return None
        with memoryview(unread) as view:  # without it a body would be copied twice
            body, end = bytes(view[:size]), bytes(view[size : size + 2])
        del unread[: size + 2]
        self._put = None
        return Put(priority, delay_s, ttr_s, body) if end == b"\r\n" else EXPECTED_CRLF

    def _skip_body(self) -> object | None:
        skipped = min(self._skip, len(self._unread))
        del self._unread[:skipped]
        self._skip -= skipped
        return None if self._skip else JOB_TOO_BIG

    def _skip_line(self) -> object | None:
        end = self._unread.find(b"\r\n")
        self._is_long_line = end < 0
        # A CR at the very end may be the first half of what is looked for.
        del self._unread[: -1 if end < 0 else end + 2]
        return BAD_FORMAT if end >= 0 else None

    def clear(self) -> None:
        """Let go of everything."""
        self._unread.clear()
        self.has_input = False


# -- what the server says ------------------------------------------------------------------------
NOT_FOUND: Final = b"NOT_FOUND\r\n"
OUT_OF_MEMORY: Final = b"OUT_OF_MEMORY\r\n"


def job_reply(word: bytes, job_id: JobId, body: bytes) -> tuple[bytes, ...]:
    """RESERVED or FOUND, with a job, in pieces if it is long."""
    if len(body) > LONG_BYTES:
        return b"%b %d %d\r\n" % (word, job_id, len(body)), body, b"\r\n"
    return (b"%b %d %d\r\n%b\r\n" % (word, job_id, len(body), body),)


def yaml_dict(members: Iterable[tuple[str, object]]) -> bytes:
    """OK, with a dictionary."""
    return _ok("".join(f"{name}: {value}\n" for name, value in members))


def yaml_list(items: Iterable[str]) -> bytes:
    """OK, with a list."""
    return _ok("".join(f"- {item}\n" for item in items))


def _ok(lines: str) -> bytes:
    data = f"---\n{lines}".encode()
    return b"OK %d\r\n%b\r\n" % (len(data), data)
