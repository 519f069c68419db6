"""The dialects whose arguments carry their lengths: today's, and that of 2018 without CRCs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Final
from zlib import crc32

from franca.core.names import text_of
from franca.protocols.periodic.shared import Shared, factor_of, joined
from franca.protocols.periodic.speech import Assignment, FuncStatus, Speech, Task, Unreadable
from franca.protocols.periodic.status import columns
from franca.protocols.periodic.wire import (
    BinaryFrames,
    CrcFrames,
    Frames,
    crc_frame,
    crc_head,
    plain_frame,
    plain_head,
)
from franca.protocols.periodic.words import ACQUIRED, CONFIG

_TIMES: Final = Layout(">qB")
_NUMBER: Final = Layout(">i")
_NUMBERS: Final = Layout(">ii")
_ONE_MORE: Final = Layout(">qBi")
_TWO_MORE: Final = Layout(">qBii")
_LATER: Final = Layout(">qh")
_COUNT: Final = Layout(">q")
_WORD_HEAD: Final = b"\0RES\0\0\0\5"
_BAD: Final = (IndexError, LayoutError)
COUNTED: Final = 1
TIMED: Final = 2
HANDLE_BYTES_MAX: Final = 512
"""Two short texts with their lengths."""
TASK_BYTES_MIN: Final = 17
"""The shortest job: two names of one byte, no workload, a time and a version."""


def read_str8(args: bytes, start: int) -> tuple[bytes, int]:
    """A short text that is not empty, and where it ends."""
    first = start + 1
    end = first + args[start]
    text = args[first:end]
    if not text or end > len(args):
        raise Unreadable("a name is missing")
    return text, end


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


class CrcSpeech(Speech):
    """Today's dialect."""

    name = "crc"
    confirms_loads = True
    limits_runs = True

    def frames(self, size_max: int) -> Frames:
        """What cuts this dialect's messages."""
        return CrcFrames(size_max)

    # -- the peer's words -------------------------------------------------------------------------

    def read_task(self, args: bytes) -> Task:
        """The job of a SUBMIT_JOB, a RUN_JOB or a RECV_DATA."""
        return self._task_at(args, 0)[0]

    def _task_at(self, args: bytes, start: int) -> tuple[Task, int]:
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
            task = Task(text_of(func), text_of(name), args[body:end], sched_at)
            end += 9
            if version:
                end = _read_extras(task, version, args, end)
        except _BAD:
            raise Unreadable("a job is cut short") from None
        return task, end

    def read_tasks(self, args: bytes) -> Iterable[Task]:
        """The jobs of a LOAD; raises while it is walked through if it is cut short."""
        try:
            count = _COUNT.unpack_from(args)[0]
        except LayoutError:
            raise Unreadable("a list without its length") from None
        if not 0 <= count * TASK_BYTES_MIN <= len(args):
            raise Unreadable("a list longer than its frame")
        return self._walk(args, count)

    def _walk(self, args: bytes, count: int) -> Iterator[Task]:
        at = 8
        for _ in range(count):
            task, at = self._task_at(args, at)
            yield task

    def read_func(self, args: bytes) -> str:
        """A function's name alone."""
        try:
            return text_of(read_str8(args, 0)[0])
        except IndexError:
            raise Unreadable("a name is missing") from None

    def read_removal(self, args: bytes) -> tuple[str, str]:
        """The function and the name of a job to be removed."""
        try:
            func, at = read_str8(args, 0)
            return text_of(func), text_of(read_str8(args, at)[0])
        except IndexError:
            raise Unreadable("a name is missing") from None

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what comes behind it."""
        try:
            at = args[0] + 1
            at += args[at] + 1
        except IndexError:
            raise Unreadable("a handle is cut short") from None
        if at > len(args):
            raise Unreadable("a handle is cut short")
        return args[:at], args[at:]

    def read_later(self, args: bytes) -> tuple[bytes, int, int]:
        """A handle, a delay in seconds, and how far the job's counter moves."""
        handle, rest = self.read_handle(args)
        try:
            delay, step = _LATER.unpack_from(rest)
        except LayoutError:
            raise Unreadable("a delay is cut short") from None
        return handle, delay, step

    def read_lock(self, args: bytes) -> tuple[str, int, bytes]:
        """A lock's name, how many may hold it, and the handle of who asks."""
        try:
            lock, at = read_str8(args, 0)
        except IndexError:
            raise Unreadable("a lock's name is missing") from None
        most = int.from_bytes(args[at : at + 2], signed=True)
        return text_of(lock), most, _handle_at(args, at + 2)

    def read_unlock(self, args: bytes) -> tuple[str, bytes]:
        """A lock's name, and the handle of who held it."""
        try:
            lock, at = read_str8(args, 0)
        except IndexError:
            raise Unreadable("a lock's name is missing") from None
        return text_of(lock), _handle_at(args, at)

    def read_setting(self, args: bytes) -> tuple[str, int]:
        """The name of a setting, and the number behind it, if any."""
        try:
            key, at = read_str8(args, 0)
        except IndexError:
            raise Unreadable("a setting's name is missing") from None
        return text_of(key), int.from_bytes(args[at : at + 4])

    # -- the server's words -----------------------------------------------------------------------

    def frame(self, payload: bytes) -> bytes:
        """An answer as it goes out."""
        return crc_frame(payload)

    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration: DATA and a part of the id, four bytes in all.

        Until the summer of 2019 it was the id alone, and one family of that time takes more than
        four bytes for an answer to nobody. Since then it is DATA and the id, of which nobody who
        speaks that dialect makes any use.
        """
        return self.frame(b"\x1e" + connection[1:])

    def word(self, msgid: bytes, command: int) -> bytes:
        """A bare command."""
        payload = msgid + command.to_bytes()
        return _WORD_HEAD + crc32(payload).to_bytes(4) + payload

    def data(self, msgid: bytes, data: bytes) -> bytes:
        """A result, a listing, a piece of a stream."""
        return self.frame(msgid + b"\x1e" + data)

    def data_front(self, msgid: bytes, shared: Shared) -> bytes:
        """What goes in front of data that is too large to be copied into a frame."""
        front = msgid + b"\x1e"
        return crc_head(len(front) + len(shared.data), shared.crc_behind(front)) + front

    def number(self, msgid: bytes, value: int) -> bytes:
        """A setting's value."""
        return self.frame(msgid + CONFIG.to_bytes() + value.to_bytes(4))

    def acquired(self, msgid: bytes, is_held: bool) -> bytes:
        """Whether a lock was given."""
        return self.frame(msgid + ACQUIRED.to_bytes() + is_held.to_bytes())

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """How a worker will speak of a job: its function and its name."""
        return str8(func) + str8(name)

    def assign(self, msgid: bytes, assignment: Assignment) -> bytes:
        """A job for a worker, with the time it has, if that has an end."""
        a = assignment
        head = msgid + b"\x05" + a.handle + len(a.workload).to_bytes(4)
        return self.frame(head + a.workload + _numbers(a))

    def assign_in_pieces(
        self, msgid: bytes, assignment: Assignment, shared: Shared
    ) -> Sequence[bytes]:
        """A job with a large workload, which is not copied."""
        a = assignment
        head = msgid + b"\x05" + a.handle + len(a.workload).to_bytes(4)
        tail = _numbers(a)
        crc = crc32(tail, shared.crc_behind(head))
        size = len(head) + len(a.workload) + len(tail)
        return crc_head(size, crc) + head, a.workload, tail

    def status_line(self, status: FuncStatus) -> bytes:
        """Six columns; no line end behind the last."""
        return columns(status, 6)

    def dumped(self, task: Assignment) -> bytes:
        """One job as a LOAD would take it."""
        front = str8(task.func) + str8(task.name) + len(task.workload).to_bytes(4)
        return b"".join((front, task.workload, _numbers(task)))  # in one copy

    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """Jobs as they stand one behind the other."""
        return b"".join(jobs)

    def dump_around(self, msgid: bytes, count: int, size: int, crc: int) -> tuple[bytes, bytes]:
        """One answer with the number of jobs in front."""
        front = msgid + b"\x1e" + _COUNT.pack(count)
        whole = joined(crc32(front), crc, factor_of(size))
        return crc_head(len(front) + size, whole) + front, b""


def _numbers(a: Assignment) -> bytes:
    """What stands behind a job's workload."""
    if not a.count:
        if not a.timeout:
            return _TIMES.pack(a.sched_at, 0)
        return _ONE_MORE.pack(a.sched_at, TIMED, a.timeout)
    if not a.timeout:
        return _ONE_MORE.pack(a.sched_at, COUNTED, a.count)
    return _TWO_MORE.pack(a.sched_at, COUNTED | TIMED, a.count, a.timeout)


class BinarySpeech(CrcSpeech):
    """The dialect of 2018: the same without CRCs, and a handle in front of an assigned job.

    Jobs ended with a plain counter until August of that year, with a version byte after it; those
    that are sent carry none.
    """

    name = "bin"
    confirms_loads = True
    limits_runs = False

    def frames(self, size_max: int) -> Frames:
        """What cuts this dialect's messages."""
        return BinaryFrames(size_max)

    def frame(self, payload: bytes) -> bytes:
        """An answer as it goes out."""
        return plain_frame(payload)

    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration: the connection's id alone."""
        return self.frame(connection)

    def word(self, msgid: bytes, command: int) -> bytes:
        """A bare command."""
        return self.frame(msgid + command.to_bytes())

    def data(self, msgid: bytes, data: bytes) -> bytes:
        """A result, a listing: there was no command in front of it yet."""
        return self.frame(msgid + data)

    def data_front(self, msgid: bytes, shared: Shared) -> bytes:
        """What goes in front of data that is too large to be copied into a frame."""
        return plain_head(len(msgid) + len(shared.data)) + msgid

    def _task_at(self, args: bytes, start: int) -> tuple[Task, int]:
        """Jobs ended with a plain counter at first, and with a version byte later."""
        try:
            _, at = read_str8(args, start)
            _, at = read_str8(args, at)
        except IndexError:
            raise Unreadable("a job is cut short") from None
        at += 4 + int.from_bytes(args[at : at + 4]) + 8
        if len(args) - at != _NUMBER.size:
            return super()._task_at(args, start)
        task, _ = super()._task_at(args[:at] + b"\0", start)
        task.count = _NUMBER.unpack_from(args, at)[0]
        return task, len(args)

    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what comes behind it."""
        try:
            at = read_str8(args, 0)[1]
        except IndexError:
            raise Unreadable("a handle is cut short") from None
        return args[:at], args[at:]

    def read_later(self, args: bytes) -> tuple[bytes, int, int]:
        """A handle, a delay in seconds, and a counter that one client writes in four bytes."""
        handle, rest = self.read_handle(args)
        if len(rest) < 10:
            raise Unreadable("a delay is cut short")
        return handle, _COUNT.unpack_from(rest)[0], int.from_bytes(rest[8:12], signed=True)

    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """How a worker will speak of a job: its function and its name in one text."""
        handle = func + b"::" + name
        return str8(handle if len(handle) < 256 else b"%d" % job_id)

    def assign(self, msgid: bytes, assignment: Assignment) -> bytes:
        """A job for a worker, behind its handle; what has no room in a job is not told."""
        return self.frame(msgid + b"\x05" + assignment.handle + self._old_task(assignment))

    def assign_in_pieces(
        self, msgid: bytes, assignment: Assignment, shared: Shared
    ) -> Sequence[bytes]:
        """The same with a large workload, which is not copied."""
        a = assignment
        head = msgid + b"\x05" + a.handle + self._old_head(a)
        tail = self._old_tail(a)
        size = len(head) + len(a.workload) + len(tail)
        return plain_head(size) + head, a.workload, tail

    def _old_task(self, a: Assignment) -> bytes:
        return self._old_head(a) + a.workload + self._old_tail(a)

    def _old_head(self, a: Assignment) -> bytes:
        return str8(a.func) + str8(a.name) + len(a.workload).to_bytes(4)

    def _old_tail(self, a: Assignment) -> bytes:
        return _COUNT.pack(a.sched_at) + _NUMBER.pack(a.count)

    def status_line(self, status: FuncStatus) -> bytes:
        """Five columns; no line end behind the last."""
        return columns(status, 5)

    def dump_around(self, msgid: bytes, count: int, size: int, crc: int) -> tuple[bytes, bytes]:
        """One answer with the number of jobs in front."""
        front = msgid + _COUNT.pack(count)
        return plain_head(len(front) + size) + front, b""


def _read_extras(task: Task, version: int, args: bytes, at: int) -> int:
    """The counter and the timeout, where the version says that they are there."""
    if version == COUNTED:
        task.count = _NUMBER.unpack_from(args, at)[0]
        return at + 4
    if version == TIMED:
        task.timeout = _NUMBER.unpack_from(args, at)[0]
        return at + 4
    if version == COUNTED | TIMED:
        task.count, task.timeout = _NUMBERS.unpack_from(args, at)
        return at + 8
    raise Unreadable(f"version {version} of a job is not known")
