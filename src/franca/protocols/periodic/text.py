"""The dialects that separate their arguments by 00 01: the document's, whose jobs are JSON objects,
and the one after it, whose jobs are a few fields of text.

A job is understood in either form by both, as only what is sent tells them apart.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from franca.core.errors import TooMuch
from franca.core.limits import Limits
from franca.core.names import text_of
from franca.protocols.bodies import is_utf8
from franca.protocols.periodic.crc import Shared
from franca.protocols.periodic.dialect import BaseDialect
from franca.protocols.periodic.messages import EOF, JOB_ASSIGN, Assignment, Unreadable, WireJob
from franca.protocols.periodic.wire import SEPARATOR, TextFrames

NAME_BYTES_MAX: Final = Limits().name_bytes_max
JSON_BYTES_MAX: Final = 4 * 1024 * 1024
"""A job in JSON: it is read and written in one go, and as text takes several times the room."""
DUMP_JOBS: Final = 100
"""Jobs in one answer of a dump."""
# What anybody sent may be millions of bytes long: no pattern looks at more than a few of them.
_HANDLE: Final = re.compile(rb"([0-9]{1,20})(?:\x00\x01|\x00|$)")
_LIST: Final = re.compile(rb'\s{0,64}\{\s{0,64}"jobs"\s{0,64}:\s{0,64}\[')
_SPACE_MAX: Final = 64
_NUMBER_BYTES: Final = 64
"""What is looked at of a number in text."""
_TOKEN: Final = re.compile(rb'["{}\]]')
_REST_OF_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NUMBER: Final = re.compile(rb"\s{0,9}(-?[0-9]{1,18})")
TOKENS_MAX: Final = 1_000
"""Texts and brackets in one job; more is no job."""
_SECONDS_MAX: Final = 1 << 62
_QUOTE, _OPEN, _CLOSE = b'"{}'


class _Job(Struct):
    """A job as clients write it: a part of these, and what else is there does not matter."""

    name: str = ""
    func: str = ""
    workload: Raw = Raw(b'""')
    timeout: int | float | None = 0
    sched_at: int | float | None = 0
    counter: int | float | None = 0


_JOB: Final = msgspec.json.Decoder(_Job)
_TEXT: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode


class TextDialect(BaseDialect):
    """The dialect between the document's and today's: jobs are fields, handles are names.

    Nothing in it says how long a field is, so it is known here how long a name may be: only so much
    is looked at.
    """

    name = "text"
    frames = TextFrames
    before_command = before_data = SEPARATOR

    def __init__(self, name_bytes_max: int = NAME_BYTES_MAX) -> None:
        self._name_max = name_bytes_max
        self._handle_look = 2 * name_bytes_max + 4
        self._fields_look = 2 * name_bytes_max + 2 * _NUMBER_BYTES + 8

    # -- reading ----------------------------------------------------------------------------------

    def read_job(self, args: bytes) -> WireJob:
        """The job of a SUBMIT_JOB or a REMOVE_JOB."""
        if args[:1] == b"{":
            return self._read_json(args)
        fields = args[: self._fields_look].split(SEPARATOR, 4)
        if len(fields) < 2 or not fields[0] or not fields[1]:
            raise Unreadable("a job without a name")
        if len(fields) < 5 and len(args) > self._fields_look:
            raise Unreadable("a job with a field that is too long")
        job = WireJob(self.read_func(fields[0]), self.read_func(fields[1]))
        job.sched_at, job.count = _number(fields, 2), _number(fields, 3)
        if len(fields) > 4:
            job.workload = args[sum(map(len, fields[:4])) + 4 * len(SEPARATOR) :]
        return job

    def _read_json(self, args: bytes) -> WireJob:
        if len(args) > JSON_BYTES_MAX:
            raise TooMuch(f"a job in {len(args)} bytes of JSON, at most {JSON_BYTES_MAX}")
        try:
            job = _JOB.decode(args)
            workload = bytes(job.workload)
            if workload == b"null":
                workload = b""
            elif workload[0] == _QUOTE:
                workload = _TEXT.decode(workload).encode()
            func_said, name_said = job.func.encode(), job.name.encode()
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise Unreadable("not a job") from None
        func, name = self.read_func(func_said), self.read_func(name_said)
        at, count, timeout = _whole(job.sched_at), _whole(job.counter), _whole(job.timeout)
        return WireJob(func, name, workload, at, count, timeout, in_json=True, size=len(args))

    def read_jobs(self, args: bytes) -> Iterable[WireJob]:
        """The jobs of a LOAD: a JSON object with all of them, or one in fields."""
        opening = _LIST.match(args)
        if opening is not None:
            return map(self.read_job, _objects(args, opening.end()))
        if args[:_SPACE_MAX].lstrip()[:1] == b"{":
            raise Unreadable("not a list of jobs")
        return [self.read_job(args)]

    def read_func(self, args: bytes) -> str:
        """A name alone. What is too long to be one is not made text, which would take long."""
        if not 0 < len(args) <= self._name_max:
            raise Unreadable(f"a name must have from 1 to {self._name_max} bytes")
        return text_of(args)

    def read_removal(self, args: bytes) -> tuple[str, str]:
        """The function and the name of a job to be removed."""
        job = self.read_job(args)
        return job.func, job.name

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what follows it."""
        at = args.find(SEPARATOR, 0, self._handle_look + len(SEPARATOR))
        if at >= 0:
            return args[:at], args[at + len(SEPARATOR) :]
        if len(args) > self._handle_look:
            raise Unreadable("a handle is too long")
        return args, b""

    def read_later(self, args: bytes) -> tuple[bytes, int, int]:
        """A handle, a delay in seconds, and how much is added to the job's counter."""
        handle, rest = TextDialect.read_handle(self, args)
        numbers = rest[: 2 * _NUMBER_BYTES].split(SEPARATOR, 1)
        return handle, _number(numbers, 0), _number(numbers, 1)

    # -- writing ----------------------------------------------------------------------------------

    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration."""
        return self.frame(b"OK")

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """What a worker will call a job: its function and its name."""
        handle = func + b"::" + name
        return handle if SEPARATOR not in handle else b"%d" % job_id

    def around(self, assignment: Assignment) -> tuple[bytes, bytes]:
        """What precedes an assigned job's workload; nothing follows it."""
        return SEPARATOR.join((b"", assignment.handle, *_fields(assignment))), b""

    def carries(self, name: bytes) -> bool:
        """Whether a name arrives as it is."""
        return SEPARATOR not in name

    def dumped(self, job: Assignment) -> bytes:
        """One job as a LOAD would take it."""
        is_whole = self.carries(job.func) and self.carries(job.name)
        if not is_whole or job.func.lstrip()[:1] == b"{":
            raise Unreadable("a name that fields cannot carry")
        return SEPARATOR.join(_fields(job)) + job.workload

    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """An answer for each job."""
        return b"".join([self.data(msgid, job) for job in jobs])

    def dump_around(self, msgid: bytes, count: int, pages: Shared) -> tuple[bytes, bytes]:
        """An end that follows all answers."""
        return b"", self.data(msgid, EOF)


def _fields(job: Assignment) -> tuple[bytes, ...]:
    """The fields of a job in front of its workload, and an empty one in its place."""
    return job.func, job.name, b"%d" % job.sched_at, b"%d" % job.count, b""


class DocDialect(TextDialect):
    """The document's dialect: jobs are JSON objects, handles are numbers."""

    name = "doc"
    columns = 4
    writes_anew = True
    workload_max = JSON_BYTES_MAX

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what follows it, separated by two bytes, or by one as it is written."""
        found = _HANDLE.match(args)
        if found is None:
            raise Unreadable("a handle is a number")
        return found[1], args[found.end() :]

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """What a worker will call a job."""
        return b"%d" % job_id

    def assign(
        self, msgid: bytes, assignment: Assignment, shared: Shared | None = None
    ) -> Sequence[bytes]:
        """A job for a worker, in one piece: its workload is written anew."""
        parts = (JOB_ASSIGN.to_bytes(), assignment.handle, _as_json(assignment, "processing"))
        return (self.data(msgid, SEPARATOR.join(parts)),)

    def carries(self, name: bytes) -> bool:
        """Whether a name arrives as it is."""
        return is_utf8(name)

    def dumped(self, job: Assignment) -> bytes:
        """One job as a LOAD would take it."""
        is_text = all(map(is_utf8, (job.func, job.name, job.workload)))
        if is_text and len(job.workload) <= JSON_BYTES_MAX:
            dumped = _as_json(job, "ready")
            if len(dumped) <= JSON_BYTES_MAX:
                return dumped
        raise Unreadable("a job that JSON cannot carry")

    def status(self, lines: Sequence[bytes]) -> bytes:
        """A listing of all functions, each with its line end."""
        return b"".join([line + b"\n" for line in lines])

    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """A hundred to an answer."""
        starts = range(0, len(jobs), DUMP_JOBS)
        lists = [b",".join(jobs[start : start + DUMP_JOBS]) for start in starts]
        return b"".join([self.data(msgid, b'{"jobs":[%b]}' % some) for some in lists])


def _as_json(job: Assignment, status: str) -> bytes:
    try:
        workload = job.workload.decode()
    except UnicodeDecodeError:
        workload = "base64:" + b64encode(job.workload).decode("ascii")
    return _encode(
        {
            "job_id": job.job_id,
            "name": job.name.decode("utf-8", "replace"),
            "func": job.func.decode("utf-8", "replace"),
            "workload": workload,
            "timeout": job.timeout,
            "sched_at": job.sched_at,
            "run_at": job.sched_at,
            "counter": job.count,
            "status": status,
        }
    )


def _objects(text: bytes, start: int) -> Iterator[bytes]:
    """The objects of a JSON array, one at a time: all at once they would take many times the room.

    Where each ends is found here, what it says by whoever reads it. More than one may have is not
    looked at, in whatever it consists.
    """
    depth = tokens = 0
    first = at = start
    while (found := _TOKEN.search(text, at, first + JSON_BYTES_MAX)) is not None:
        token, at = text[found.start()], found.end()
        tokens += 1
        if tokens > TOKENS_MAX:
            raise Unreadable("too much to be a job")
        if token == _QUOTE:
            rest = _REST_OF_TEXT.match(text, at, first + JSON_BYTES_MAX)
            if rest is None:
                break
            at = rest.end()
        elif token == _OPEN:
            if not depth:
                first = found.start()
            depth += 1
        elif token == _CLOSE:
            depth -= 1
            if depth < 0:
                break
            if not depth:
                tokens = 0
                yield text[first:at]
                first = at
        elif not depth:
            return
    raise Unreadable("a list without its end")


def _whole(number: int | float | None) -> int:
    """A number as far as it can be one here."""
    if not number or number != number:
        return 0
    return int(max(-_SECONDS_MAX, min(number, _SECONDS_MAX)))


def _number(fields: Sequence[bytes], index: int) -> int:
    """A number in text, as far as it is looked at; 0 where there is none."""
    found = _NUMBER.match(fields[index]) if index < len(fields) else None
    return int(found[1]) if found is not None else 0
