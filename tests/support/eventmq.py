"""An EventMQ client, worker and subscriber on one blocking socket, small enough to see through.

It speaks ZMTP and eMQP by itself. It is a witness, not a library: it never reconnects, retries or
hides a message. A lost connection and a timeout come out as `OSError`: the outcome is unknown.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.support.connection import Connection

HANDED_OVER = 5
RESULT = 6
"""How many frames a REPLY has: one that says who has the job, one that says what came of it."""

GREETING_SIZE = 64
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_BEAT_S = 2.0


class Given(NamedTuple):
    """A job as a worker is given it."""

    msgid: str
    queue: str
    headers: str
    body: bytes


class Zmtp(Connection):
    """One connection as a socket of this type; frames in, frames out."""

    def __init__(
        self,
        address: int | Path,
        socket_type: str = "DEALER",
        *,
        identity: bytes = b"",
        timeout: float = 10.0,
    ) -> None:
        super().__init__(address, timeout=timeout)
        self.pings = 0
        self._socket.sendall(handshake(socket_type, identity))
        greeting = self._take(GREETING_SIZE)
        if greeting[0] != 0xFF or greeting[9] & 1 != 1 or greeting[10] < 3:
            raise ValueError(f"not a greeting: {greeting!r}")
        _, ready = self._frame()
        if not ready.startswith(b"\x05READY"):
            raise ValueError(f"not READY: {ready!r}")

    # -- frames ----------------------------------------------------------------------------

    def send_frames(self, *frames: bytes) -> None:
        """Send one message."""
        self._socket.sendall(encoded(frames))

    def ping(self, context: bytes = b"") -> None:
        """Ask whether the transport lives; `pings` counts the answers as they are read."""
        self._socket.sendall(_command(b"PING", b"\0\0" + context))

    def read_frames(self) -> list[bytes]:
        """The next message; `OSError` when the connection ends or the timeout passes before it."""
        frames: list[bytes] = []
        while True:
            flags, data = self._frame()
            if flags & 4:
                self.pings += data.startswith(b"\x04PONG")
                continue
            frames.append(data)
            if not flags & 1:
                return frames

    # -- inside ----------------------------------------------------------------------------

    def _frame(self) -> tuple[int, bytes]:
        while len(self._unread) < 2:
            self._fill()
        flags = self._unread[0]
        if flags & 2:
            head = self._need(9)
            size, start = int.from_bytes(head[1:9], "big"), 9
        else:
            size, start = self._unread[1], 2
        return flags, self._take(start + size)[start:]


class EventMQ(Zmtp):
    """A DEALER that speaks eMQP: a client, a worker or an administrator, as it is used."""

    def __init__(
        self,
        address: int | Path,
        socket_type: str = "DEALER",
        *,
        identity: bytes = b"",
        timeout: float = 10.0,
    ) -> None:
        super().__init__(address, socket_type, identity=identity, timeout=timeout)
        self._aside: deque[list[bytes]] = deque()
        self._said_at = time.monotonic()

    def say(self, command: str, *parts: str | bytes, msgid: str = "") -> str:
        """Send one command; returns its id."""
        msgid = msgid or str(uuid.uuid4())
        raw = [part.encode() if isinstance(part, str) else part for part in parts]
        self.send_frames(b"", b"eMQP/1.0", command.encode(), msgid.encode(), *raw)
        self._said_at = time.monotonic()
        return msgid

    def hear(self, *commands: str) -> list[bytes]:
        """The next message, or the next with one of these commands; others wait for their turn.

        Heartbeats are never returned unless asked for.
        """
        for frames in self._aside:
            if frames[2].decode() in commands or not commands:
                self._aside.remove(frames)
                return frames
        while True:
            frames = self.read_frames()
            command = frames[2].decode()
            if command in commands or (not commands and command != "HEARTBEAT"):
                return frames
            if command != "HEARTBEAT":
                self._aside.append(frames)

    # -- clients ---------------------------------------------------------------------------

    def request(
        self, body: bytes, queue: str = "default", headers: str = "", msgid: str = ""
    ) -> str:
        """Send a job without waiting for anything; returns its id."""
        return self.say("REQUEST", queue, headers, body, msgid=msgid)

    def handed_over(self) -> str:
        """The id of the next request that a worker has been given."""
        return self._reply(HANDED_OVER)[4].decode()

    def result(self) -> tuple[str, bytes]:
        """The id and the result of the next job that was asked for with `reply-requested`."""
        frames = self._reply(RESULT)
        return frames[5].decode(), frames[4]

    def _reply(self, size: int) -> list[bytes]:
        others: list[list[bytes]] = []
        try:
            while True:
                frames = self.hear("REPLY")
                if len(frames) == size:
                    return frames
                others.append(frames)
        finally:
            self._aside.extend(others)

    # -- workers ---------------------------------------------------------------------------

    def inform(self, *queues: tuple[int, str], slots: int = 0) -> Self:
        """Become a worker of these queues, and say READY for each slot."""
        names = json.dumps([list(queue) for queue in queues]) if queues else ""
        msgid = self.say("INFORM", names, "worker")
        acked = self.hear("ACK")[4].decode()
        if acked != msgid:
            raise ValueError(f"ACK of {acked!r}")
        for _ in range(slots):
            self.ready()
        return self

    def ready(self) -> None:
        """One more job would be taken."""
        self.say("READY")

    def next_job(self) -> Given:
        """The next job that this worker is given; heartbeats are sent only in between calls."""
        frames = self.hear("REQUEST")
        return Given(frames[3].decode(), frames[4].decode(), frames[5].decode(), frames[6])

    def reply(self, msgid: str, result: bytes = b'{"value": true}') -> None:
        """A job is done."""
        self.say("REPLY", result, msgid)

    def beat_if_due(self) -> None:
        """Say that one lives, if nothing was said for a while."""
        if time.monotonic() - self._said_at > _BEAT_S:
            self.say("HEARTBEAT", str(time.time()))

    # -- administrators -----------------------------------------------------------------------

    def ask(self, command: str) -> dict[str, object]:
        """STATUS, ROUTER_SHOW_WORKERS or ROUTER_SHOW_SCHEDULERS, and its answer."""
        self.say(command, msgid=f"admin:{uuid.uuid4()}")
        answer: dict[str, object] = json.loads(self.hear("REPLY")[4])
        return answer


class Subscriber(Zmtp):
    """A SUB socket that hears of these topics."""

    def __init__(self, address: int | Path, *topics: bytes, timeout: float = 10.0) -> None:
        super().__init__(address, "SUB", timeout=timeout)
        for topic in topics:
            self.subscribe(topic)

    def subscribe(self, topic: bytes) -> None:
        self.send_frames(b"\x01" + topic)

    def unsubscribe(self, topic: bytes) -> None:
        self.send_frames(b"\x00" + topic)


def call(path: str, name: str, *args: object, **kwargs: object) -> bytes:
    """The message that asks a job manager to call a function."""
    params = {
        "callable": name,
        "path": path,
        "args": list(args),
        "kwargs": kwargs,
        "class_args": [],
        "class_kwargs": {},
    }
    return json.dumps(["run", params]).encode()


def encoded(frames: Sequence[bytes]) -> bytes:
    """One message as bytes."""
    pieces: list[bytes] = []
    for index, data in enumerate(frames):
        more = index < len(frames) - 1
        if len(data) > 255:
            pieces.append(struct.pack(">BQ", 2 | more, len(data)) + data)
        else:
            pieces.append(struct.pack(">BB", more, len(data)) + data)
    return b"".join(pieces)


def take_frames(unread: bytearray) -> list[bytes] | None:
    """The next whole message, or a command as a single frame, taken off what was not read yet."""
    frames: list[bytes] = []
    at = 0
    while len(unread) >= at + 2:
        flags = unread[at]
        start = at + 9 if flags & 2 else at + 2
        if len(unread) < start:
            return None
        size = int.from_bytes(unread[at + 1 : start], "big")
        at = start + size
        if len(unread) < at:
            return None
        frames.append(bytes(unread[start:at]))
        if not flags & 1:
            del unread[:at]
            return frames
    return None


def handshake(socket_type: str = "DEALER", identity: bytes = b"") -> bytes:
    """All that a peer has to say before its first message."""
    properties = b"".join(
        struct.pack(">B", len(name)) + name + struct.pack(">I", len(value)) + value
        for name, value in ((b"Socket-Type", socket_type.encode()), (b"Identity", identity))
    )
    return _GREETING + _command(b"READY", properties)


def pairs(names: Iterable[str], weight: int = 10) -> list[tuple[int, str]]:
    """Queues of one weight."""
    return [(weight, name) for name in names]


def _command(name: bytes, data: bytes) -> bytes:
    body = bytes((len(name),)) + name + data
    return bytes((4, len(body))) + body
