"""The dialects that part their arguments by 00 01: the document's, whose jobs are JSON objects,
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
from franca.protocols.periodic.shared import Shared
from franca.protocols.periodic.speech import Assignment, FuncStatus, Speech, Task, Unreadable
from franca.protocols.periodic.status import columns
from franca.protocols.periodic.wire import SEPARATOR, Frames, TextFrames, plain_frame, plain_head
from franca.protocols.periodic.words import EOF, JOB_ASSIGN

NAME_BYTES_MAX: Final = Limits().name_bytes_max
JSON_BYTES_MAX: Final = 4 * 1024 * 1024
"""A job in JSON: it is read and written in one go, and as text takes several times the room."""
DUMP_JOBS: Final = 100
"""Jobs in one answer of a dump."""
_BAD: Final = (msgspec.MsgspecError, RecursionError, UnicodeError)
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
_QUOTE: Final = ord('"')
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")


class _Job(Struct):
    """A job as clients write it: a part of these, and what else is there does not matter."""

    name: str = ""
    func: str = ""
    workload: Raw = Raw(b'""')
    timeout: int | float | None = 0
    sched_at: int | float | None = 0
    counter: int | float | None = 0


class _Shown(Struct):
    """A job as the server writes it."""

    job_id: int
    name: str
    func: str
    workload: str
    timeout: int
    sched_at: int
    run_at: int
    counter: int
    status: str


_JOB: Final = msgspec.json.Decoder(_Job)
_TEXT: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode


class TextSpeech(Speech):
    """The dialect between the document's and today's: jobs are fields, handles are names.

    Nothing in it says how long a field is, so it is known here how long a name may be: only so much
    is looked at.
    """

    name = "text"

    def __init__(self, name_bytes_max: int = NAME_BYTES_MAX) -> None:
        self._name_max = name_bytes_max
        self._handle_look = 2 * name_bytes_max + 4
        self._fields_look = 2 * name_bytes_max + 2 * _NUMBER_BYTES + 8

    def frames(self, size_max: int) -> Frames:
        """What cuts this dialect's messages."""
        return TextFrames(size_max)

    # -- the peer's words -------------------------------------------------------------------------

    def read_task(self, args: bytes) -> Task:
        """The job of a SUBMIT_JOB or a REMOVE_JOB."""
        if args[:1] == b"{":
            if len(args) > JSON_BYTES_MAX:
                raise TooMuch(f"a job in {len(args)} bytes of JSON, at most {JSON_BYTES_MAX}")
            try:
                return self._task_of(_JOB.decode(args), len(args))
            except _BAD:
                raise Unreadable("not a job") from None
        fields = args[: self._fields_look].split(SEPARATOR, 4)
        if len(fields) < 2 or not fields[0] or not fields[1]:
            raise Unreadable("a job without a name")
        if len(fields) < 5 and len(args) > self._fields_look:
            raise Unreadable("a job with a field that is too long")
        task = Task(self._name_of(fields[0]), self._name_of(fields[1]))
        task.sched_at, task.count = _number(fields, 2), _number(fields, 3)
        if len(fields) > 4:
            task.workload = args[sum(map(len, fields[:4])) + 4 * len(SEPARATOR) :]
        return task

    def _name_of(self, raw: bytes) -> str:
        """A name as text, which takes long to make of what is too long to be one."""
        if len(raw) > self._name_max:
            raise Unreadable(f"names cannot be longer than {self._name_max} bytes")
        return text_of(raw)

    def _task_of(self, job: _Job, size: int) -> Task:
        if not job.func or not job.name:
            raise Unreadable("a job without a name")
        if max(len(job.func), len(job.name)) > self._name_max:
            raise Unreadable(f"names cannot be longer than {self._name_max} bytes")
        raw = bytes(job.workload)
        workload = raw
        if raw[0] == _QUOTE:
            try:
                workload = _TEXT.decode(raw).encode()
            except _BAD:
                raise Unreadable("a workload that is no text") from None
        elif raw == b"null":
            workload = b""
        return Task(
            self._name_of(job.func.encode()),
            self._name_of(job.name.encode()),
            workload,
            _whole(job.sched_at),
            _whole(job.counter),
            _whole(job.timeout),
            in_json=True,
            size=size,
        )

    def read_tasks(self, args: bytes) -> Iterable[Task]:
        """The jobs of a LOAD: a JSON object with all of them, or one in fields."""
        opening = _LIST.match(args)
        if opening is not None:
            return map(self.read_task, _objects(args, opening.end()))
        if args[:_SPACE_MAX].lstrip()[:1] == b"{":
            raise Unreadable("not a list of jobs")
        return [self.read_task(args)]

    def read_func(self, args: bytes) -> str:
        """A function's name alone."""
        if not args:
            raise Unreadable("a name is missing")
        return self._name_of(args)

    def read_removal(self, args: bytes) -> tuple[str, str]:
        """The function and the name of a job to be removed."""
        task = self.read_task(args)
        return task.func, task.name

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what comes behind it."""
        return self._part_handle(args)

    def _part_handle(self, args: bytes) -> tuple[bytes, bytes]:
        at = args.find(SEPARATOR, 0, self._handle_look + len(SEPARATOR))
        if at >= 0:
            return args[:at], args[at + len(SEPARATOR) :]
        if len(args) > self._handle_look:
            raise Unreadable("a handle is too long")
        return args, b""

    def read_later(self, args: bytes) -> tuple[bytes, int, int]:
        """A handle, a delay in seconds, and how far the job's counter moves."""
        handle, rest = self._part_handle(args)
        numbers = rest[: 2 * _NUMBER_BYTES].split(SEPARATOR, 1)
        return handle, _number(numbers, 0), _number(numbers, 1)

    # -- the server's words -----------------------------------------------------------------------

    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration."""
        return plain_frame(b"OK")

    def word(self, msgid: bytes, command: int) -> bytes:
        """A bare command."""
        return self.data(msgid, command.to_bytes())

    def data(self, msgid: bytes, data: bytes) -> bytes:
        """A listing; there is no command in front of it."""
        return plain_frame(msgid + SEPARATOR + data)

    def data_front(self, msgid: bytes, shared: Shared) -> bytes:
        """What goes in front of data that is too large to be copied into a frame."""
        front = msgid + SEPARATOR
        return plain_head(len(front) + len(shared.data)) + front

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """How a worker will speak of a job: its function and its name."""
        handle = func + b"::" + name
        return handle if SEPARATOR not in handle else b"%d" % job_id

    def assign(self, msgid: bytes, assignment: Assignment) -> bytes:
        """A job for a worker, behind its handle."""
        parts = (JOB_ASSIGN.to_bytes(), assignment.handle, self._job(assignment, "processing"))
        return self.data(msgid, SEPARATOR.join(parts))

    def assign_in_pieces(
        self, msgid: bytes, assignment: Assignment, shared: Shared
    ) -> Sequence[bytes]:
        """A job with a large workload, which is not copied."""
        a = assignment
        names = (msgid, JOB_ASSIGN.to_bytes(), a.handle, a.func, a.name)
        front = SEPARATOR.join((*names, b"%d" % a.sched_at, b"%d" % a.count, b""))
        return plain_head(len(front) + len(a.workload)) + front, a.workload

    def _job(self, a: Assignment, status: str) -> bytes:
        numbers = (b"%d" % a.sched_at, b"%d" % a.count)
        return SEPARATOR.join((a.func, a.name, *numbers, a.workload))

    def status_line(self, status: FuncStatus) -> bytes:
        """Five columns; no line end behind the last."""
        return columns(status, 5)

    def carries(self, name: bytes) -> bool:
        """Whether a name arrives as it is."""
        return SEPARATOR not in name

    def dumped(self, task: Assignment) -> bytes:
        """One job as a LOAD would take it."""
        is_whole = self.carries(task.func) and self.carries(task.name)
        if not is_whole or task.func.lstrip()[:1] == b"{":
            raise Unreadable("a name that fields cannot carry")
        return self._job(task, "ready")

    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """An answer for each job."""
        return b"".join([self.data(msgid, job) for job in jobs])

    def dump_around(self, msgid: bytes, count: int, size: int, crc: int) -> tuple[bytes, bytes]:
        """An end behind all answers."""
        return b"", self.data(msgid, EOF)


class DocSpeech(TextSpeech):
    """The document's dialect: jobs are JSON objects, handles are numbers."""

    name = "doc"
    writes_anew = True
    workload_max = JSON_BYTES_MAX

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what comes behind it: two bytes part them, or one as it is written."""
        found = _HANDLE.match(args)
        if found is None:
            raise Unreadable("a handle is a number")
        return found[1], args[found.end() :]

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """How a worker will speak of a job."""
        return b"%d" % job_id

    def assign_in_pieces(
        self, msgid: bytes, assignment: Assignment, shared: Shared
    ) -> Sequence[bytes]:
        """The whole in one: the workload is written anew."""
        return (self.assign(msgid, assignment),)

    def _job(self, a: Assignment, status: str) -> bytes:
        return _encode(
            _Shown(
                a.job_id,
                a.name.decode("utf-8", "replace"),
                a.func.decode("utf-8", "replace"),
                _as_text(a.workload),
                a.timeout,
                a.sched_at,
                a.sched_at,
                a.count,
                status,
            )
        )

    def carries(self, name: bytes) -> bool:
        """Whether a name arrives as it is."""
        return is_utf8(name)

    def dumped(self, task: Assignment) -> bytes:
        """One job as a LOAD would take it."""
        is_text = all(map(is_utf8, (task.func, task.name, task.workload)))
        if not is_text or len(task.workload) > JSON_BYTES_MAX:
            raise Unreadable("a job that JSON cannot carry")
        dumped = self._job(task, "ready")
        if len(dumped) > JSON_BYTES_MAX:
            raise Unreadable("a job that JSON cannot carry")
        return dumped

    def status_line(self, status: FuncStatus) -> bytes:
        """Four columns."""
        return columns(status, 4)

    def status(self, lines: Sequence[bytes]) -> bytes:
        """A listing of all functions, each with its line end."""
        return b"".join([line + b"\n" for line in lines])

    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """A hundred to an answer."""
        answers = [
            self.data(msgid, b'{"jobs":[%b]}' % b",".join(jobs[start : start + DUMP_JOBS]))
            for start in range(0, len(jobs), DUMP_JOBS)
        ]
        return b"".join(answers)


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


def _as_text(workload: bytes) -> str:
    """A workload as a JSON string can carry it."""
    try:
        return workload.decode()
    except UnicodeDecodeError:
        return "base64:" + b64encode(workload).decode("ascii")
