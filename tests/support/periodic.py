"""A Periodic client and worker on one blocking socket, in today's dialect or the document's.

It is a witness, not a library: it never reconnects, retries or hides an answer. A lost connection
and a timeout come out as `OSError` (the outcome is unknown), an answer other than the one that was
hoped for as `PeriodicError` (it is not). It shares no code with the server.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

from tests.support.connection import Connection

CRC = "crc"
DOC = "doc"
CLIENT, WORKER = 1, 2
NOOP, GRAB_JOB, SCHED_LATER, WORK_DONE, WORK_FAIL, JOB_ASSIGN, NO_JOB, CAN_DO, CANT_DO = range(9)
PING, PONG, SLEEP, UNKNOWN, SUBMIT_JOB, STATUS, DROP_FUNC, SUCCESS, REMOVE_JOB = range(9, 18)
DUMP, LOAD, SHUTDOWN, BROADCAST, CONFIG_GET, CONFIG_SET, CONFIG, RUN_JOB = range(18, 26)
ACQUIRED, ACQUIRE, RELEASE, NO_WORKER, DATA, RECV_DATA, WORK_DATA = range(26, 33)
JOB_ASSIGNED, JOB_UNASSIGNED = 33, 34
SEPARATOR = b"\0\1"


class PeriodicError(RuntimeError):
    """The server answered, and not what was hoped for."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A job in a worker's hands; `handle` is how to speak of it."""

    handle: bytes
    func: str
    name: str
    workload: bytes
    sched_at: int
    count: int
    timeout: int
    msgid: bytes = b""


class Message(NamedTuple):
    """One answer; in the document's dialect listings have no command, they come as DATA."""

    msgid: bytes
    command: int
    data: bytes


def str8(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return bytes([len(raw)]) + raw


def packed(
    func: str, name: str, workload: bytes = b"", *, at: int = 0, count: int = 0, timeout: int = 0
) -> bytes:
    """A job in today's dialect."""
    version = (count > 0) + 2 * (timeout > 0)
    job = str8(func) + str8(name) + struct.pack(">I", len(workload)) + workload
    numbers = ([count] if count > 0 else []) + ([timeout] if timeout > 0 else [])
    return job + struct.pack(f">qB{len(numbers)}i", at, version, *numbers)


def unpacked(data: bytes, start: int = 0) -> tuple[Assigned, int]:
    """A job of today's dialect, and where it ends; its handle is its function and name."""
    func_end = start + 1 + data[start]
    name_end = func_end + 1 + data[func_end]
    size = int.from_bytes(data[name_end : name_end + 4])
    at = name_end + 4 + size
    sched_at, version = struct.unpack_from(">qB", data, at)
    at += 9
    count = timeout = 0
    if version & 1:
        count = struct.unpack_from(">i", data, at)[0]
        at += 4
    if version & 2:
        timeout = struct.unpack_from(">i", data, at)[0]
        at += 4
    job = Assigned(
        data[start:name_end], data[start + 1 : func_end].decode(),
        data[func_end + 1 : name_end].decode(), data[name_end + 4 : name_end + 4 + size],
        sched_at, count, timeout,
    )  # fmt: skip
    return job, at


def framed(dialect: str, payload: bytes) -> bytes:
    """A frame as the dialect writes it."""
    crc = struct.pack(">I", crc32(payload)) if dialect == CRC else b""
    return b"\0REQ" + struct.pack(">I", len(payload)) + crc + payload


def message(dialect: str, command: int, args: bytes, msgid: bytes) -> bytes:
    """The bytes of a command."""
    if dialect == CRC:
        return framed(dialect, msgid + bytes([command]) + args)
    tail = SEPARATOR + args if args else b""
    return framed(dialect, msgid + SEPARATOR + bytes([command]) + tail)


def take_payload(dialect: str, unread: bytearray) -> bytes | None:
    """Take the first answer off `unread`, or None until all of it is there."""
    head = 12 if dialect == CRC else 8
    if len(unread) < head:
        return None
    if unread[:4] != b"\0RES":
        raise ValueError(f"no answer: {bytes(unread[:80])!r}")
    end = head + int.from_bytes(unread[4:8])
    if len(unread) < end:
        return None
    payload = bytes(unread[head:end])
    if dialect == CRC and crc32(payload) != int.from_bytes(unread[8:12]):
        raise ValueError("an answer with a wrong CRC")
    del unread[:end]
    return payload


def parsed(dialect: str, payload: bytes) -> Message:
    """An answer's id, command and the rest."""
    if dialect == CRC:
        return Message(payload[:4], payload[4], payload[5:])
    msgid, _, rest = payload.partition(SEPARATOR)
    if len(rest) == 1 or rest[1:3] == SEPARATOR:
        return Message(msgid, rest[0], rest[3:])
    return Message(msgid, DATA, rest)


def assigned(dialect: str, message: Message) -> Assigned:
    """The job that a JOB_ASSIGN brings."""
    if dialect == CRC:
        return replace(unpacked(message.data)[0], msgid=message.msgid)
    handle, _, job = message.data.partition(SEPARATOR)
    return _of_json(handle, message.msgid, json.loads(job))


class Periodic(Connection):
    """One connection, registered. Answers are matched by their ids; jobs that come are kept."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        role: int = CLIENT,
        dialect: str = CRC,
        name: str = "",
        token: str = "",
        timeout: float = 10.0,
    ) -> None:
        super().__init__(port, host, timeout=timeout)
        self.dialect = dialect
        self._ids = 0
        self._early: deque[Message] = deque()
        registration = bytes([role])
        if name:
            said = [struct.pack(">q", len(word)) + word.encode() for word in (name, token)]
            registration = bytes([role + 2]) + b"".join(said)
        self.send_payload(registration)
        if dialect == CRC:
            self.connection_id = self._read_payload()

    # -- raw -------------------------------------------------------------------------------

    def send_payload(self, payload: bytes) -> None:
        """Send one frame."""
        self._socket.sendall(self.framed(payload))

    def framed(self, payload: bytes) -> bytes:
        """A frame as this dialect writes it."""
        return framed(self.dialect, payload)

    def send(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """Send a command, and return its id, without waiting for an answer."""
        msgid = msgid or self._next_id()
        self._socket.sendall(self.message(command, args, msgid))
        return msgid

    def message(self, command: int, args: bytes, msgid: bytes) -> bytes:
        """The bytes of a command."""
        return message(self.dialect, command, args, msgid)

    def read(self) -> Message:
        """The next answer, whatever it is about."""
        return self._early.popleft() if self._early else self._read()

    def answer(self, msgid: bytes) -> Message:
        """The next answer to that id that brings no job; what else comes is kept for later."""
        for index, message in enumerate(self._early):
            if message.msgid == msgid and message.command != JOB_ASSIGN:
                del self._early[index]
                return message
        while True:
            message = self._read()
            if message.msgid == msgid and message.command != JOB_ASSIGN:
                return message
            self._early.append(message)

    def call(self, command: int, args: bytes = b"") -> Message:
        """Send a command and return its answer, whatever it is."""
        return self.answer(self.send(command, args))

    # -- clients ---------------------------------------------------------------------------

    def ping(self) -> None:
        self._expect(self.call(PING), PONG)

    def submit(
        self, func: str, name: str, workload: bytes = b"", *, at: int = 0, count: int = 0,
        timeout: int = 0,
    ) -> None:  # fmt: skip
        """Returns once the server said that it is kept."""
        args = self._job(func, name, workload, at, count, timeout)
        self._expect(self.call(SUBMIT_JOB, args), SUCCESS)

    def run(self, func: str, name: str, workload: bytes = b"", *, timeout: int = 0) -> bytes:
        """The result; `PeriodicError` if nobody runs such jobs."""
        answer = self.call(RUN_JOB, packed(func, name, workload, timeout=timeout))
        self._expect(answer, DATA)
        return answer.data

    def remove(self, func: str, name: str) -> None:
        args = str8(func) + str8(name)
        if self.dialect == DOC:
            args = json.dumps({"func": func, "name": name}).encode()
        self._expect(self.call(REMOVE_JOB, args), SUCCESS)

    def drop(self, func: str) -> None:
        self._expect(self.call(DROP_FUNC, self._func(func)), SUCCESS)

    def status(self) -> dict[str, tuple[int, ...]]:
        """By function: workers, jobs, running, and what else the dialect tells."""
        text = self.call(STATUS).data.decode()
        lines = [line.split(",") for line in text.split("\n") if line]
        return {line[0]: tuple(map(int, line[1:])) for line in lines}

    def dump(self) -> list[Assigned]:
        """Every job there is."""
        msgid = self.send(DUMP)
        if self.dialect == DOC:
            jobs: list[Assigned] = []
            while (data := self.answer(msgid).data) != b"EOF":
                jobs += [_of_json(b"", msgid, job) for job in json.loads(data)["jobs"]]
            return jobs
        data = self.answer(msgid).data
        found, at = [], 8
        for _ in range(int.from_bytes(data[:8])):
            job, at = unpacked(data, at)
            found.append(job)
        return found

    def load(self, jobs: list[bytes]) -> None:
        """Jobs as `packed` (or JSON objects) makes them; the document's dialect has no answer."""
        if self.dialect == DOC:
            self.send(LOAD, b'{"jobs":[%b]}' % b",".join(jobs))
        else:
            args = struct.pack(">q", len(jobs)) + b"".join(jobs)
            self._expect(self.call(LOAD, args), SUCCESS)

    # -- workers ---------------------------------------------------------------------------

    def can_do(self, func: str) -> None:
        """Register a function; only today's dialect says that it is."""
        self._confirmed(CAN_DO, self._func(func))

    def cant_do(self, func: str) -> None:
        self._confirmed(CANT_DO, self._func(func))

    def broadcast(self, func: str) -> None:
        self._confirmed(BROADCAST, self._func(func))

    def grab(self, msgid: bytes = b"") -> Assigned:
        """Ask for a job and wait for it; `TimeoutError` if none comes."""
        self.send(GRAB_JOB, msgid=msgid)
        return self.next_job()

    def next_job(self) -> Assigned:
        """The next job that comes for any GRAB_JOB."""
        for index, message in enumerate(self._early):
            if message.command == JOB_ASSIGN:
                del self._early[index]
                return assigned(self.dialect, message)
        while True:
            message = self._read()
            if message.command == JOB_ASSIGN:
                return assigned(self.dialect, message)
            self._early.append(message)

    def done(self, handle: bytes, result: bytes = b"") -> None:
        data = SEPARATOR + result if result and self.dialect == DOC else result
        self._confirmed(WORK_DONE, handle + data)

    def fail(self, handle: bytes) -> None:
        self._confirmed(WORK_FAIL, handle)

    def later(self, handle: bytes, delay: int, step: int = 0) -> None:
        args = handle + struct.pack(">qh", delay, step)
        if self.dialect == DOC:
            args = SEPARATOR.join((handle, b"%d" % delay, b"%d" % step))
        self._confirmed(SCHED_LATER, args)

    def data(self, handle: bytes, piece: bytes) -> None:
        self._confirmed(WORK_DATA, handle + piece)

    def acquire(self, lock: str, most: int, handle: bytes) -> bool:
        answer = self.call(ACQUIRE, str8(lock) + struct.pack(">h", most) + handle)
        self._expect(answer, ACQUIRED)
        return answer.data == b"\x01"

    def release(self, lock: str, handle: bytes) -> None:
        self._confirmed(RELEASE, str8(lock) + handle)

    # -- inside ----------------------------------------------------------------------------

    def _next_id(self) -> bytes:
        self._ids += 1
        return struct.pack(">I", self._ids) if self.dialect == CRC else b"%d" % self._ids

    def _func(self, func: str) -> bytes:
        return str8(func) if self.dialect == CRC else func.encode()

    def _job(
        self, func: str, name: str, workload: bytes, at: int, count: int, timeout: int
    ) -> bytes:
        if self.dialect == CRC:
            return packed(func, name, workload, at=at, count=count, timeout=timeout)
        job: dict[str, object] = {"func": func, "name": name, "workload": workload.decode()}
        job |= {"sched_at": at, "counter": count, "timeout": timeout}
        return json.dumps(job).encode()

    def _confirmed(self, command: int, args: bytes) -> None:
        msgid = self.send(command, args)
        if self.dialect == CRC:
            self._expect(self.answer(msgid), SUCCESS)

    def _expect(self, answer: Message, command: int) -> None:
        if answer.command != command:
            raise PeriodicError(f"answered {answer.command}, not {command}: {answer.data[:80]!r}")

    def _read(self) -> Message:
        return parsed(self.dialect, self._read_payload())

    def _read_payload(self) -> bytes:
        while (payload := take_payload(self.dialect, self._unread)) is None:
            self._fill()
        return payload


def _of_json(handle: bytes, msgid: bytes, job: dict[str, object]) -> Assigned:
    at, count, timeout = (int(str(job.get(key, 0))) for key in ("sched_at", "counter", "timeout"))
    func, name, workload = (str(job.get(key, "")) for key in ("func", "name", "workload"))
    return Assigned(handle, func, name, workload.encode(), at, count, timeout, msgid)
