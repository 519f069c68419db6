"""The dialects whose arguments carry their lengths: today's, and that of 2018 without CRCs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Final
from zlib import crc32

from franca.core.names import text_of
from franca.protocols.periodic import messages, wire
from franca.protocols.periodic.crc import Shared
from franca.protocols.periodic.dialect import BaseDialect
from franca.protocols.periodic.messages import Assignment, Unreadable, WireJob

_TIMES: Final = Layout(">qB")
_NUMBER: Final = Layout(">i")
_ONE_MORE: Final = Layout(">qBi")
_TWO_MORE: Final = Layout(">qBii")
_OLD_NUMBERS: Final = Layout(">qi")
_BARE_HEAD: Final = b"\0RES\0\0\0\5"
_COUNT: Final = Layout(">q")
COUNTED: Final = 1
TIMED: Final = 2
HANDLE_BYTES_MAX: Final = 512
"""Two short texts with their lengths."""
JOB_BYTES_MIN: Final = 17
"""The shortest job: two names of one byte, no workload, a time and a version."""


def read_name(args: bytes, start: int = 0) -> tuple[str, int]:
    """A short text that is not empty, and where it ends."""
    first = start + 1
    end = first + int.from_bytes(args[start:first])
    raw = args[first:end]
    if not raw or end > len(args):
        raise Unreadable("a name is missing")
    return text_of(raw), end


def str8(text: bytes) -> bytes:
    """A short text with its length; `Unreadable` if it is not short."""
    try:
        return len(text).to_bytes() + text
    except OverflowError:
        raise Unreadable("a name is too long for this dialect") from None


def _handle_at(args: bytes, start: int) -> bytes:
    """All the rest, if that can be a handle."""
    if len(args) - start > HANDLE_BYTES_MAX:
        raise Unreadable("a handle is too long")
    return args[start:]


class CrcDialect(BaseDialect):
    """Today's dialect."""

    name = "crc"
    frames: type[wire.Frames] = wire.CrcFrames
    frame = staticmethod(wire.crc_frame)
    front = staticmethod(wire.crc_front)
    before_data = messages.DATA.to_bytes()
    columns = 6
    confirms_loads = True
    limits_runs = True
    step_bytes = 2
    """How many bytes the change of a counter takes."""

    # -- reading ----------------------------------------------------------------------------------

    def read_job(self, args: bytes) -> WireJob:
        """The job of a SUBMIT_JOB, a RUN_JOB or a RECV_DATA."""
        return self._job_at(args, 0)[0]

    def _job_at(self, args: bytes, start: int) -> tuple[WireJob, int]:
        try:
            func_end = start + 1 + args[start]
            name_end = func_end + 1 + args[func_end]
            body = name_end + 4
            end = body + int.from_bytes(args[name_end:body])
            # All of it is there if its end is.
            sched_at, version = _TIMES.unpack_from(args, end)
            func, name = args[start + 1 : func_end], args[func_end + 1 : name_end]
            if not func or not name:
                raise Unreadable("a job without a name")
            job = WireJob(text_of(func), text_of(name), args[body:end], sched_at)
            end += 9
            if version:
                end = _read_numbers(job, version, args, end)
        except (IndexError, LayoutError):
            raise Unreadable("a job is cut short") from None
        return job, end

    def read_jobs(self, args: bytes) -> Iterable[WireJob]:
        """The jobs of a LOAD; raises during the iteration if it is cut short."""
        count = int.from_bytes(args[: _COUNT.size], signed=True)
        if len(args) < _COUNT.size or not 0 <= count * JOB_BYTES_MIN <= len(args):
            raise Unreadable("a list longer than its frame")
        return self._jobs(args, count)

    def _jobs(self, args: bytes, count: int) -> Iterator[WireJob]:
        at = _COUNT.size
        for _ in range(count):
            job, at = self._job_at(args, at)
            yield job

    def read_func(self, args: bytes) -> str:
        """A function's name alone."""
        return read_name(args)[0]

    def read_removal(self, args: bytes) -> tuple[str, str]:
        """The function and the name of a job to be removed."""
        func, at = read_name(args)
        return func, read_name(args, at)[0]

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what follows it."""
        try:
            at = args[0] + 1
            at += args[at] + 1
        except IndexError:
            at = len(args) + 1
        if at > len(args):
            raise Unreadable("a handle is cut short")
        return args[:at], args[at:]

    def read_later(self, args: bytes) -> tuple[bytes, int, int]:
        """A handle, a delay in seconds, and how much is added to the job's counter."""
        handle, rest = self.read_handle(args)
        if len(rest) < 10:
            raise Unreadable("a delay is cut short")
        step = int.from_bytes(rest[8 : 8 + self.step_bytes], signed=True)
        return handle, int.from_bytes(rest[:8], signed=True), step

    def read_lock(self, args: bytes) -> tuple[str, int, bytes]:
        """A lock's name, how many may hold it, and the handle of the run that asks for it."""
        lock, at = read_name(args)
        most = int.from_bytes(args[at : at + 2], signed=True)
        return lock, most, _handle_at(args, at + 2)

    def read_unlock(self, args: bytes) -> tuple[str, bytes]:
        """A lock's name, and the handle of the run that held it."""
        lock, at = read_name(args)
        return lock, _handle_at(args, at)

    def read_setting(self, args: bytes) -> tuple[str, int]:
        """The name of a setting, and the number that follows it, if any."""
        key, at = read_name(args)
        return key, int.from_bytes(args[at : at + 4])

    # -- writing ----------------------------------------------------------------------------------

    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration: DATA and a part of the id, four bytes in all.

        Until the summer of 2019 it was the id alone, and one family of that time takes more than
        four bytes for an answer to nobody. Since then it is DATA and the id, of which nobody who
        speaks that dialect makes any use.
        """
        return self.frame(messages.DATA.to_bytes() + connection[1:])

    def bare(self, msgid: bytes, command: int) -> bytes:
        """A command without arguments, as nearly all answers are: without the calls of `frame`."""
        payload = msgid + command.to_bytes()
        return _BARE_HEAD + crc32(payload).to_bytes(4) + payload

    def number(self, msgid: bytes, value: int) -> bytes:
        """A setting's value."""
        return self.frame(msgid + messages.CONFIG.to_bytes() + value.to_bytes(4))

    def acquired(self, msgid: bytes, is_held: bool) -> bytes:
        """Whether a lock was given."""
        return self.frame(msgid + messages.ACQUIRED.to_bytes() + is_held.to_bytes())

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """What a worker will call a job: its function and its name."""
        return str8(func) + str8(name)

    def around(self, assignment: Assignment) -> tuple[bytes, bytes]:
        """What precedes an assigned job's workload, and what follows it."""
        return assignment.handle + len(assignment.workload).to_bytes(4), _numbers(assignment)

    def dumped(self, job: Assignment) -> bytes:
        """One job as a LOAD would take it."""
        return b"".join((_front(job), job.workload, _numbers(job)))

    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """Jobs one after the other."""
        return b"".join(jobs)

    def dump_around(self, msgid: bytes, count: int, pages: Shared) -> tuple[bytes, bytes]:
        """One answer that begins with the number of jobs."""
        return self.front(msgid + self.before_data + _COUNT.pack(count), pages), b""


def _read_numbers(job: WireJob, version: int, args: bytes, at: int) -> int:
    """The counter and the timeout, where the version says that they are there."""
    if version > COUNTED | TIMED:
        raise Unreadable(f"version {version} of a job is not known")
    if version & COUNTED:
        job.count = _NUMBER.unpack_from(args, at)[0]
        at += _NUMBER.size
    if version & TIMED:
        job.timeout = _NUMBER.unpack_from(args, at)[0]
        at += _NUMBER.size
    return at


def _front(job: Assignment) -> bytes:
    """What precedes a job's workload."""
    return str8(job.func) + str8(job.name) + len(job.workload).to_bytes(4)


def _numbers(job: Assignment) -> bytes:
    """What follows a job's workload."""
    if not job.count:
        if not job.timeout:
            return _TIMES.pack(job.sched_at, 0)
        return _ONE_MORE.pack(job.sched_at, TIMED, job.timeout)
    if not job.timeout:
        return _ONE_MORE.pack(job.sched_at, COUNTED, job.count)
    return _TWO_MORE.pack(job.sched_at, COUNTED | TIMED, job.count, job.timeout)


class BinaryDialect(CrcDialect):
    """The dialect of 2018: the same without CRCs, and a handle precedes an assigned job.

    Jobs ended with a plain counter until August of that year, with a version byte after it; those
    that are sent have none. One client writes the change of a counter in four bytes.
    """

    name = "bin"
    frames = wire.BinaryFrames
    frame = staticmethod(wire.plain_frame)
    front = staticmethod(wire.plain_front)
    before_data = b""
    columns = 5
    limits_runs = False
    step_bytes = 4

    def _job_at(self, args: bytes, start: int) -> tuple[WireJob, int]:
        """Jobs ended with a plain counter at first, and with a version byte later."""
        _, at = read_name(args, start)
        _, at = read_name(args, at)
        at += 4 + int.from_bytes(args[at : at + 4]) + 8
        if len(args) - at != _NUMBER.size:
            return super()._job_at(args, start)
        job, _ = super()._job_at(args[:at] + b"\0", start)
        job.count = _NUMBER.unpack_from(args, at)[0]
        return job, len(args)

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what follows it."""
        _, at = read_name(args)
        return args[:at], args[at:]

    def bare(self, msgid: bytes, command: int) -> bytes:
        """A command without arguments."""
        return self.frame(msgid + command.to_bytes())

    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration: the connection's id alone."""
        return self.frame(connection)

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """What a worker will call a job: its function and its name in one text."""
        handle = func + b"::" + name
        return str8(handle if len(handle) < 256 else b"%d" % job_id)

    def around(self, assignment: Assignment) -> tuple[bytes, bytes]:
        """What precedes an assigned job's workload, and what follows it; not its timeout."""
        numbers = _OLD_NUMBERS.pack(assignment.sched_at, assignment.count)
        return assignment.handle + _front(assignment), numbers
