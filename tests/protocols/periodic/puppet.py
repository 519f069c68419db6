"""A world with one broker, its engine and Periodic peers, in which time is a number.

No sockets and no threads: bytes go into the engine and what links say comes out. The peers write
and read frames with the code of `tests/support/periodic.py`, which shares none with the server.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from franca.core.limits import Limits
from franca.protocols.conversation import Link, Peer
from franca.protocols.periodic.service import PeriodicService
from franca.protocols.periodic.settings import Listening, PeriodicSettings
from tests.protocols.world import START, AnyPuppet, AnyWorld
from tests.support import periodic as p
from tests.support.periodic import CRC, Assigned, Message, packed, str8

NOW_S = START // 1000


class World(AnyWorld["Puppet"]):
    """The server and everybody who speaks to it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        settings: PeriodicSettings | None = None,
        **listening: str,
    ) -> None:
        super().__init__(limits)
        self.settings = settings or PeriodicSettings(listening=Listening(**listening))
        self._start()

    def _start(self) -> None:
        self.service = PeriodicService(self.broker, self.settings, Random(1), self.note_stop)
        self.serve({"periodic": self.service})

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

    # -- bytes -------------------------------------------------------------------------------

    def framed(self, payload: bytes) -> bytes:
        return p.framed(self.dialect, payload)

    def message(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        return p.message(self.dialect, command, args, msgid)

    def next_id(self) -> bytes:
        self._ids += 1
        return b"%d" % self._ids if self.dialect == p.DOC else b"A" + self._ids.to_bytes(3, "big")

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
            found.append(p.parsed(self.dialect, payload))
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
        payload = p.take_payload(self.dialect, self.unread)
        assert payload is not None or not self.unread, (
            f"half an answer: {bytes(self.unread[:80])!r}"
        )
        return payload

    # -- commands ----------------------------------------------------------------------------

    def func(self, func: str) -> bytes:
        return p.named(self.dialect, func)

    def submit(
        self, func: str = "f", name: str = "n", workload: bytes = b"", **numbers: int
    ) -> int:
        """The command that answers."""
        job = p.encoded_job(self.dialect, func, name, workload, **numbers)
        return self.word(p.SUBMIT_JOB, job)

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
        return p.assigned(self.dialect, message)

    def done(self, job: Assigned, result: bytes = b"") -> None:
        self.say(p.WORK_DONE, job.handle + result)

    def fail(self, job: Assigned) -> None:
        self.say(p.WORK_FAIL, job.handle)

    def later(self, job: Assigned, delay: int, step: int = 0) -> None:
        self.say(p.SCHED_LATER, p.put_off(self.dialect, job.handle, delay, step))

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
