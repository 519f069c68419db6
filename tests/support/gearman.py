"""A small blocking Gearman client and worker, and nothing of a library: what is sent is what the test says.

Written from the protocol's description alone, not from the server's code, so that the two can
disagree. `Gearman` is one connection, which may be a client, a worker and an operator at once.
"""

from __future__ import annotations

import struct
import time
from enum import IntEnum
from typing import NamedTuple, Self

from tests.support.connection import Connection

_HEADER = struct.Struct(">4sII")


class GearmanError(RuntimeError):
    """The server answered with an ERROR packet."""


class Type(IntEnum):
    """The packets that tests name."""

    CAN_DO = 1
    CANT_DO = 2
    RESET_ABILITIES = 3
    PRE_SLEEP = 4
    NOOP = 6
    SUBMIT_JOB = 7
    JOB_CREATED = 8
    GRAB_JOB = 9
    NO_JOB = 10
    JOB_ASSIGN = 11
    WORK_STATUS = 12
    WORK_COMPLETE = 13
    WORK_FAIL = 14
    GET_STATUS = 15
    ECHO_REQ = 16
    ECHO_RES = 17
    SUBMIT_JOB_BG = 18
    ERROR = 19
    STATUS_RES = 20
    SUBMIT_JOB_HIGH = 21
    SET_CLIENT_ID = 22
    CAN_DO_TIMEOUT = 23
    ALL_YOURS = 24
    WORK_EXCEPTION = 25
    OPTION_REQ = 26
    OPTION_RES = 27
    WORK_DATA = 28
    WORK_WARNING = 29
    GRAB_JOB_UNIQ = 30
    JOB_ASSIGN_UNIQ = 31
    SUBMIT_JOB_HIGH_BG = 32
    SUBMIT_JOB_LOW = 33
    SUBMIT_JOB_LOW_BG = 34
    SUBMIT_JOB_SCHED = 35
    SUBMIT_JOB_EPOCH = 36
    SUBMIT_REDUCE_JOB = 37
    SUBMIT_REDUCE_JOB_BACKGROUND = 38
    GRAB_JOB_ALL = 39
    JOB_ASSIGN_ALL = 40
    GET_STATUS_UNIQUE = 41
    STATUS_RES_UNIQUE = 42


ENDS = (Type.WORK_COMPLETE, Type.WORK_FAIL, Type.WORK_EXCEPTION)
"""What ends a job for the client that waits for it."""
_ASSIGNS = {Type.JOB_ASSIGN: 3, Type.JOB_ASSIGN_UNIQ: 4, Type.JOB_ASSIGN_ALL: 5}


class Packet(NamedTuple):
    """One packet from the server."""

    type: Type
    body: bytes

    @property
    def handle(self) -> bytes:
        """The first argument."""
        return self.body.partition(b"\0")[0]

    @property
    def data(self) -> bytes:
        """All behind the first argument."""
        return self.body.partition(b"\0")[2]

    def checked(self, *wanted: Type) -> Packet:
        """Itself; `GearmanError` for an ERROR, `ValueError` for any packet but those wanted."""
        if self.type is Type.ERROR:
            raise GearmanError(self.body.replace(b"\0", b": ").decode("utf-8", "replace"))
        if wanted and self.type not in wanted:
            raise ValueError(f"expected {wanted}, not {self}")
        return self


class Work(NamedTuple):
    """A job as its worker sees it."""

    handle: bytes
    function: bytes
    body: bytes
    unique: bytes = b""
    reducer: bytes = b""


def request(kind: int, *arguments: bytes) -> bytes:
    """The bytes of a packet to the server."""
    body = b"\0".join(arguments)
    return _HEADER.pack(b"\0REQ", kind, len(body)) + body


def take_packet(unread: bytearray) -> Packet | None:
    """Take a whole packet of the server's off the front; None until it is there."""
    if len(unread) < _HEADER.size:
        return None
    magic, kind, size = _HEADER.unpack_from(unread)
    if magic != b"\0RES":
        raise ValueError(f"not a packet: {bytes(unread[:60])!r}")
    end = _HEADER.size + size
    if len(unread) < end:
        return None
    packet = Packet(Type(kind), bytes(unread[_HEADER.size : end]))
    del unread[:end]
    return packet


def work_in(packet: Packet) -> Work | None:
    """The job in the answer to a GRAB_JOB*; None for NO_JOB."""
    if packet.type is Type.NO_JOB:
        return None
    parts = packet.checked(*_ASSIGNS).body.split(b"\0", _ASSIGNS[packet.type] - 1)
    handle, function, *rest = parts
    return Work(handle, function, rest[-1], *rest[:-1])


class Gearman(Connection):
    """One connection. Packets that were not asked for wait in `aside` until they are."""

    def __init__(
        self, port: int = 0, host: str = "127.0.0.1", *, timeout: float = 10.0, path: str = ""
    ) -> None:
        super().__init__(path or port, host, timeout=timeout)
        self.aside: list[Packet] = []

    # -- raw -------------------------------------------------------------------------------

    def send(self, kind: int, *arguments: bytes) -> None:
        """Send one packet, without waiting for anything."""
        self._socket.sendall(request(kind, *arguments))

    def read(self) -> Packet:
        """The next packet; `OSError` when the connection ends or the timeout passes before it."""
        while (packet := take_packet(self._unread)) is None:
            self._fill()
        return packet

    def wait_for(self, *wanted: Type) -> Packet:
        """The next of these (or an ERROR); what comes before it is put aside, in order."""
        wanted = (*wanted, Type.ERROR)
        for place, packet in enumerate(self.aside):
            if packet.type in wanted:
                return self.aside.pop(place)
        while (packet := self.read()).type not in wanted:
            self.aside.append(packet)
        return packet

    def call(self, kind: int, *arguments: bytes, wanted: tuple[Type, ...]) -> Packet:
        """Send a packet and wait for its answer."""
        self.send(kind, *arguments)
        return self.wait_for(*wanted)

    def line(self, text: str) -> bytes:
        """Send a line of text; the one line that answers it."""
        self.send_bytes(text.encode() + b"\r\n")
        return self._take_line()

    def lines(self, text: str) -> list[bytes]:
        """Send a line of text; the lines that answer it, up to the dot."""
        self.send_bytes(text.encode() + b"\r\n")
        found: list[bytes] = []
        while (line := self._take_line()) != b".\n":
            if line.startswith(b"ERR "):
                raise GearmanError(line.decode().strip())
            found.append(line)
        return found

    # -- a client's words --------------------------------------------------------------------

    def submit(
        self,
        function: str | bytes,
        body: bytes = b"",
        unique: bytes = b"",
        kind: Type = Type.SUBMIT_JOB_BG,
        *more: bytes,
    ) -> bytes:
        """Submit a job and return its handle; `more` is what some kinds have before the body."""
        name = function.encode() if isinstance(function, str) else function
        answer = self.call(kind, name, unique, *more, body, wanted=(Type.JOB_CREATED,))
        return answer.checked().body

    def result(self, handle: bytes) -> Packet:
        """The packet that ends this job for us; what else is said of it is put aside."""
        for place, packet in enumerate(self.aside):
            if packet.type in ENDS and packet.handle == handle:
                return self.aside.pop(place)
        while (packet := self.read()).type not in ENDS or packet.handle != handle:
            self.aside.append(packet)
        return packet

    def status(self, handle: bytes) -> tuple[bytes, ...]:
        """known, running, numerator, denominator."""
        answer = self.call(Type.GET_STATUS, handle, wanted=(Type.STATUS_RES,)).checked()
        return tuple(answer.body.split(b"\0")[1:])

    def echo(self, data: bytes = b"still there?") -> list[Packet]:
        """Say something and hear it back; the errors that came before it."""
        self.send(Type.ECHO_REQ, data)
        errors: list[Packet] = []
        while (packet := self.wait_for(Type.ECHO_RES)).type is Type.ERROR:
            errors.append(packet)
        if packet.body != data:
            raise ValueError(f"said {data!r}, heard {packet.body!r}")
        return errors

    # -- a worker's words ----------------------------------------------------------------------

    def can_do(self, *functions: str, timeout_ms: int = 0) -> Self:
        for function in functions:
            name = function.encode()
            if timeout_ms:
                self.send(Type.CAN_DO_TIMEOUT, name, str(timeout_ms).encode())
            else:
                self.send(Type.CAN_DO, name)
        return self

    def grab(self, kind: Type = Type.GRAB_JOB) -> Work | None:
        """A job, or None; a NOOP that was on its way is forgotten."""
        answer = self.call(kind, wanted=(Type.NO_JOB, *_ASSIGNS))
        self.aside = [packet for packet in self.aside if packet.type is not Type.NOOP]
        return work_in(answer)

    def sleep(self, seconds: float) -> bool:
        """PRE_SLEEP, and wait for the NOOP; False if none came in time."""
        self.send(Type.PRE_SLEEP)
        before = self._socket.gettimeout()
        self.set_timeout(seconds)
        try:
            self.wait_for(Type.NOOP)
        except TimeoutError:
            return False
        finally:
            self.set_timeout(before or 0)
        return True

    def next_job(self, seconds: float, kind: Type = Type.GRAB_JOB) -> Work | None:
        """Grab, sleep, grab, as workers do; None if nothing came in time."""
        deadline = time.monotonic() + seconds
        while (work := self.grab(kind)) is None:
            left = deadline - time.monotonic()
            if left <= 0 or not self.sleep(left):
                return None
        return work

    def complete(self, handle: bytes, result: bytes = b"") -> None:
        self.send(Type.WORK_COMPLETE, handle, result)

    def fail(self, handle: bytes) -> None:
        self.send(Type.WORK_FAIL, handle)

    # -- inside ----------------------------------------------------------------------------

    def _take_line(self) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            self._fill()
        line = bytes(self._unread[: end + 1])
        del self._unread[: end + 1]
        return line
