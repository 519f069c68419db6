"""A world with one broker, its engine and Periodic peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out. The peers write
and read frames with the code of `tests/support/periodic.py`, which shares none with the server.
"""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any
from zlib import crc32

from franca.core.limits import Limits
from franca.protocols.conversation import Link, Peer
from franca.protocols.periodic.conversation import PeriodicConversation
from franca.protocols.periodic.dialect import Listening
from franca.protocols.periodic.service import PeriodicService, PeriodicSettings
from tests.protocols.world import START, AnyPuppet, AnyWorld
from tests.support import periodic as p
from tests.support.periodic import CRC, Assigned, Message, packed, str8, unpacked

NOW_S = START // 1000
BIN = "bin"


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: PeriodicSettings | None = None,
        seed: int = 1,
        **listening: str,
    ) -> None:
        super().__init__(limits, seed=seed)
        self.stops = 0
        if listening:
            settings = PeriodicSettings(listening=Listening(**listening))
        self.settings = settings or PeriodicSettings()
        self._start()

    def _start(self) -> None:
        self.service = PeriodicService(self.broker, self.settings, Random(1), self._note_stop)
        self.serve({"periodic": self.service})

    def _note_stop(self) -> None:
        self.stops += 1

    def connect(self, dialect: str = CRC, *, local: bool = True, listener: str = "") -> Puppet:
        """A peer that has said nothing yet."""
        peer = Peer("127.0.0.1" if local else "10.0.0.9", local=local, listener=listener)
        return self.add(Puppet(self, self.open_link("periodic", peer), dialect))

    def client(self, dialect: str = CRC, **kind: Any) -> Puppet:
        """A registered client."""
        return self.connect(dialect, **kind).register(p.CLIENT)

    def worker(self, *funcs: str, dialect: str = CRC, **kind: Any) -> Puppet:
        """A registered worker of these functions."""
        worker = self.connect(dialect, **kind).register(p.WORKER)
        for func in funcs:
            worker.say(p.CAN_DO, worker.func(func))
        worker.heard()
        return worker

    def crash(self) -> None:
        """A new server that remembers what the store was told; everybody is disconnected."""
        self.remember(seed=2)
        self._start()
        self.run()

    @property
    def now_s(self) -> int:
        return self.now // 1000


class Puppet(AnyPuppet):
    """One peer on its link."""

    world: World

    def __init__(self, world: World, link: Link, dialect: str) -> None:
        super().__init__(world, link)
        self.dialect = dialect
        self._ids = 0

    @property
    def conversation(self) -> PeriodicConversation:
        assert isinstance(self.link.conversation, PeriodicConversation)
        return self.link.conversation

    # -- bytes -------------------------------------------------------------------------------

    def framed(self, payload: bytes) -> bytes:
        """A frame as this dialect writes it."""
        crc = struct.pack(">I", crc32(payload)) if self.dialect == CRC else b""
        return b"\0REQ" + struct.pack(">I", len(payload)) + crc + payload

    def message(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """The bytes of a command."""
        if self.dialect in (CRC, BIN):
            return self.framed(msgid + bytes([command]) + args)
        tail = p.SEPARATOR + args if args else b""
        return self.framed(msgid + p.SEPARATOR + bytes([command]) + tail)

    def next_id(self) -> bytes:
        self._ids += 1
        if self.dialect in (CRC, BIN):
            return struct.pack(">I", 0x41000000 + self._ids)
        return b"%d" % self._ids

    # -- messages ----------------------------------------------------------------------------

    def register(self, role: int) -> Puppet:
        """Say what one is; today's dialect is answered."""
        self.send(self.framed(bytes([role])))
        if self.dialect == CRC:
            assert self.take_payload() is not None
        return self

    def say(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """Say a command; returns its id."""
        msgid = msgid or self.next_id()
        self.send(self.message(command, args, msgid))
        return msgid

    def heard(self) -> list[Message]:
        """Every answer that was not read yet."""
        found: list[Message] = []
        while (payload := self.take_payload()) is not None:
            found.append(self._parsed(payload))
        return found

    def words(self) -> list[int]:
        """The commands of all answers."""
        return [message.command for message in self.heard()]

    def ask(self, command: int, args: bytes = b"", msgid: bytes = b"") -> Message:
        """Say one command and hear its answer, which must be there without time passing."""
        msgid = self.say(command, args, msgid)
        heard = self.heard()
        assert len(heard) == 1, f"not one answer to {command}: {heard}"
        assert heard[0].msgid == msgid
        return heard[0]

    def word(self, command: int, args: bytes = b"") -> int:
        """The command that answers."""
        return self.ask(command, args).command

    def take_payload(self) -> bytes | None:
        head = 12 if self.dialect == CRC else 8
        if len(self.unread) < head:
            assert not self.unread, f"not an answer: {bytes(self.unread)!r}"
            return None
        assert self.unread[:4] == b"\0RES", f"not an answer: {bytes(self.unread[:80])!r}"
        end = head + int.from_bytes(self.unread[4:8])
        assert len(self.unread) >= end, "half an answer"
        payload = bytes(self.unread[head:end])
        if self.dialect == CRC:
            assert crc32(payload) == int.from_bytes(self.unread[8:12]), "a wrong CRC"
        del self.unread[:end]
        return payload

    def _parsed(self, payload: bytes) -> Message:
        if self.dialect in (CRC, BIN):
            return Message(payload[:4], payload[4], payload[5:])
        msgid, _, rest = payload.partition(p.SEPARATOR)
        if len(rest) == 1 or rest[1:3] == p.SEPARATOR:
            return Message(msgid, rest[0], rest[3:])
        return Message(msgid, p.DATA, rest)

    # -- commands ----------------------------------------------------------------------------

    def func(self, func: str) -> bytes:
        """A function's name as an argument."""
        return str8(func) if self.dialect in (CRC, BIN) else func.encode()

    def submit(
        self, func: str = "f", name: str = "n", workload: bytes = b"", **numbers: int
    ) -> int:
        """The command that answers."""
        if self.dialect == CRC:
            return self.word(p.SUBMIT_JOB, packed(func, name, workload, **numbers))
        job: dict[str, object] = {"func": func, "name": name, "workload": workload.decode()}
        names = {"at": "sched_at", "count": "counter", "timeout": "timeout"}
        job |= {names[key]: value for key, value in numbers.items()}
        return self.word(p.SUBMIT_JOB, json.dumps(job).encode())

    def run_job(
        self, func: str = "f", name: str = "n", workload: bytes = b"", **numbers: int
    ) -> bytes:
        """The id to which the result will be the answer."""
        return self.say(p.RUN_JOB, packed(func, name, workload, **numbers))

    def grab(self, msgid: bytes = b"") -> Assigned:
        """Ask for a job that must be there."""
        self.say(p.GRAB_JOB, msgid=msgid)
        jobs = self.assigned()
        assert len(jobs) == 1, f"{len(jobs)} jobs"
        return jobs[0]

    def assigned(self) -> list[Assigned]:
        """The jobs among what was heard; SUCCESS beside them is passed over."""
        found: list[Assigned] = []
        for message in self.heard():
            if message.command == p.JOB_ASSIGN:
                found.append(self.job_in(message))
            else:
                assert message.command == p.SUCCESS, message
        return found

    def job_in(self, message: Message) -> Assigned:
        """The job that an answer brings."""
        if self.dialect == CRC:
            return unpacked(message.data)[0]
        handle, _, text = message.data.partition(p.SEPARATOR)
        job = json.loads(text)
        numbers = (job["sched_at"], job["counter"], job["timeout"])
        return Assigned(handle, job["func"], job["name"], job["workload"].encode(), *numbers)

    def done(self, job: Assigned, result: bytes = b"") -> None:
        self.say(p.WORK_DONE, job.handle + result)

    def fail(self, job: Assigned) -> None:
        self.say(p.WORK_FAIL, job.handle)

    def later(self, job: Assigned, delay: int, step: int = 0) -> None:
        if self.dialect == CRC:
            self.say(p.SCHED_LATER, job.handle + struct.pack(">qh", delay, step))
        else:
            parts = (job.handle, b"%d" % delay, b"%d" % step)
            self.say(p.SCHED_LATER, p.SEPARATOR.join(parts))

    def acquire(self, job: Assigned, lock: str, most: int = 1) -> bool:
        args = str8(lock) + struct.pack(">h", most) + job.handle
        answer = self.ask(p.ACQUIRE, args)
        assert answer.command == p.ACQUIRED
        return answer.data == b"\x01"

    def status(self) -> dict[str, list[int]]:
        """By function, the numbers of its line."""
        text = self.ask(p.STATUS).data.decode()
        lines = [line.split(",") for line in text.split("\n") if line]
        return {line[0]: [int(number) for number in line[1:]] for line in lines}
