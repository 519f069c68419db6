"""A Periodic client and worker on one connection, in today's dialect or the document's.

It is a witness, not a library: it never reconnects, retries or hides an answer. A lost connection
and a timeout come out as `OSError` (the outcome is unknown), an answer other than the one that was
hoped for as `PeriodicError` (it is not). It shares no code with the server.
"""

import json
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple, Self
from zlib import crc32

from tests.prove.bodies import plain
from tests.support import peer
from tests.support.connection import Connection, messages_in

CRC, BIN, DOC = "crc", "bin", "doc"
"""Today's dialect, the same without a CRC, and the document's."""
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
    names = data[start + 1 : func_end].decode(), data[func_end + 1 : name_end].decode()
    at = name_end + 4 + int.from_bytes(data[name_end : name_end + 4])
    sched_at, version = struct.unpack_from(">qB", data, at)
    numbers = struct.unpack_from(f">{version.bit_count()}i", data, at + 9)
    count, timeout = numbers[0] if version & 1 else 0, numbers[-1] if version & 2 else 0
    job = Assigned(data[start:name_end], *names, data[name_end + 4 : at], sched_at, count, timeout)
    return job, at + 9 + 4 * len(numbers)


def listed(jobs: Sequence[bytes]) -> bytes:
    """The arguments of LOAD in today's dialect."""
    return struct.pack(">q", len(jobs)) + b"".join(jobs)


def framed(dialect: str, payload: bytes) -> bytes:
    """A frame as the dialect writes it."""
    crc = struct.pack(">I", crc32(payload)) if dialect == CRC else b""
    return b"\0REQ" + struct.pack(">I", len(payload)) + crc + payload


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


def said(data: bytes) -> Iterator[bytes]:
    """All that a server said, frame by frame, with a CRC or without; `ValueError` if it cannot be read."""
    return messages_in(_take_any, data)


def _take_any(unread: bytearray) -> bytes | None:
    with suppress(ValueError):
        if (payload := take_payload(CRC, unread)) is not None:
            return payload
    return take_payload(BIN, unread)


def parsed(dialect: str, payload: bytes) -> Message:
    """An answer's id, command and the rest."""
    if dialect != DOC:
        return Message(payload[:4], payload[4], payload[5:])
    msgid, _, rest = payload.partition(SEPARATOR)
    if len(rest) == 1 or rest[1:3] == SEPARATOR:
        return Message(msgid, rest[0], rest[3:])
    return Message(msgid, DATA, rest)


class Speaker:
    """What a peer writes and reads in its dialect."""

    dialect = CRC
    _last_id = 0

    def next_id(self) -> bytes:
        """A message's id. Without a CRC, one with the document's separator would pass for text."""
        self._last_id += 1
        if self.dialect == CRC:
            return struct.pack(">I", self._last_id)
        return b"%d" % self._last_id if self.dialect == DOC else b"A%03d" % self._last_id

    def framed(self, payload: bytes) -> bytes:
        return framed(self.dialect, payload)

    def message(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """The bytes of a command."""
        if self.dialect != DOC:
            return self.framed(msgid + bytes([command]) + args)
        tail = SEPARATOR + args if args else b""
        return self.framed(msgid + SEPARATOR + bytes([command]) + tail)

    def func(self, func: str) -> bytes:
        """A function's name as an argument."""
        return func.encode() if self.dialect == DOC else str8(func)

    def encoded_job(
        self, func: str = "f", name: str = "n", workload: bytes = b"", **numbers: int
    ) -> bytes:
        """A job; the numbers are `at`, `count` and `timeout`."""
        if self.dialect != DOC:
            return packed(func, name, workload, **numbers)
        keys = {"at": "sched_at", "count": "counter", "timeout": "timeout"}
        job: dict[str, object] = {"func": func, "name": name, "workload": workload.decode()}
        return json.dumps(job | {keys[key]: value for key, value in numbers.items()}).encode()

    def put_off(self, handle: bytes, delay: int, step: int) -> bytes:
        """The arguments of SCHED_LATER."""
        if self.dialect == DOC:
            return SEPARATOR.join((handle, b"%d" % delay, b"%d" % step))
        return handle + struct.pack(">qh", delay, step)

    def result(self, handle: bytes, result: bytes = b"") -> bytes:
        """The arguments of WORK_DONE."""
        return handle + (SEPARATOR if result and self.dialect == DOC else b"") + result

    def job_in(self, message: Message) -> Assigned:
        """The job that a JOB_ASSIGN brings."""
        if self.dialect != DOC:
            return replace(unpacked(message.data)[0], msgid=message.msgid)
        handle, _, text = message.data.partition(SEPARATOR)
        job = json.loads(text)
        texts = job["func"], job["name"], job["workload"].encode()
        return Assigned(
            handle, *texts, job["sched_at"], job["counter"], job["timeout"], message.msgid
        )


class Periodic(Speaker, Connection[Message]):
    """One connection, registered. Answers are matched by their ids; jobs that come are kept."""

    def __init__(
        self, port: int, *, role: int = CLIENT, dialect: str = CRC, name: str | None = None,
        token: str = "", timeout: float = 10.0,
    ) -> None:  # fmt: skip
        super().__init__(port, timeout=timeout)
        self.dialect = dialect
        self.register(role, name, token)

    def register(self, role: int, name: str | None = None, token: str = "") -> Self:
        """Say what one is, and who; only today's dialect is answered at once."""
        said = bytes([role])
        if name is not None:
            words = (struct.pack(">q", len(word)) + word.encode() for word in (name, token))
            said = bytes([role + 2]) + b"".join(words)
        self.send_bytes(self.framed(said))
        while self.dialect == CRC and self.take_payload() is None:
            self.fill()
        return self

    # -- raw -------------------------------------------------------------------------------

    def say(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """Send a command, and return its id, without waiting for an answer."""
        msgid = msgid or self.next_id()
        self.send_bytes(self.message(command, args, msgid))
        return msgid

    def take_payload(self) -> bytes | None:
        return take_payload(self.dialect, self.unread)

    def cut(self) -> Message | None:
        payload = self.take_payload()
        return None if payload is None else parsed(self.dialect, payload)

    def words(self) -> list[int]:
        """The commands of all answers that have come."""
        return [message.command for message in self.heard()]

    def answer(self, msgid: bytes) -> Message:
        """The next answer to that id that brings no job; what else comes is kept for later."""
        return self.next_of(lambda got: got.msgid == msgid and got.command != JOB_ASSIGN)

    def call(self, command: int, args: bytes = b"") -> Message:
        """Send a command and return its answer, whatever it is; what else comes is kept for later."""
        return self.answer(self.say(command, args))

    def ask(self, command: int, args: bytes = b"", msgid: bytes = b"") -> Message:
        """Send a command and return its answer; nothing else may come."""
        msgid = self.say(command, args, msgid)
        answer, *more = self.read(), *self.heard()
        assert (answer.msgid, more) == (msgid, []), f"not the one answer: {answer}"
        return answer

    def word(self, command: int, args: bytes = b"") -> int:
        """The command of the one answer to this one."""
        return self.ask(command, args).command

    # -- clients ---------------------------------------------------------------------------

    def ping(self) -> None:
        self._expect(self.call(PING), PONG)

    def offer(self, *job: Any, **more: Any) -> int:
        """The command that answers a SUBMIT_JOB of a job as `encoded_job` takes it."""
        return self.call(SUBMIT_JOB, self.encoded_job(*job, **more)).command

    def submit(self, *job: Any, **more: Any) -> None:
        """Returns once the server said that it is kept."""
        if (answer := self.offer(*job, **more)) != SUCCESS:
            raise PeriodicError(f"answered {answer}")

    def submit_many(self, count: int, workload: bytes = b"", **numbers: int) -> None:
        """So many jobs of `f`: `n0`, `n1`, and so on."""
        for number in range(count):
            self.submit("f", f"n{number}", workload, **numbers)

    def run_job(self, *job: Any, **more: Any) -> bytes:
        """The id to which the result will be the answer."""
        return self.say(RUN_JOB, self.encoded_job(*job, **more))

    def remove(self, func: str = "f", name: str = "n") -> None:
        args = str8(func) + str8(name)
        if self.dialect == DOC:
            args = json.dumps({"func": func, "name": name}).encode()
        self._expect(self.call(REMOVE_JOB, args), SUCCESS)

    def drop(self, func: str) -> None:
        self._expect(self.call(DROP_FUNC, self.func(func)), SUCCESS)

    def status(self) -> dict[str, list[int]]:
        """By function: workers, jobs, running, and what else the dialect tells."""
        lines = [line.split(",") for line in self.call(STATUS).data.decode().split("\n") if line]
        return {line[0]: [int(number) for number in line[1:]] for line in lines}

    def dump(self) -> list[bytes]:
        """Every job there is in today's dialect, as `load` takes it."""
        data = self.call(DUMP).data
        at, found = 8, []
        for _ in range(int.from_bytes(data[:8])):
            start, at = at, unpacked(data, at)[1]
            found.append(data[start:at])
        assert at == len(data)
        return found

    def load(self, jobs: Sequence[bytes]) -> None:
        """Take in jobs of today's dialect, as `packed` makes them."""
        self._expect(self.call(LOAD, listed(jobs)), SUCCESS)

    # -- workers ---------------------------------------------------------------------------

    def can_do(self, func: str) -> None:
        """Register a function; only today's dialect says that it is."""
        msgid = self.say(CAN_DO, self.func(func))
        if self.dialect == CRC:
            self._expect(self.answer(msgid), SUCCESS)

    def grab(self, msgid: bytes = b"") -> Assigned:
        """Ask for a job and wait for it; `TimeoutError` if none comes."""
        self.say(GRAB_JOB, msgid=msgid)
        return self.next_job()

    def try_grab(self) -> list[Assigned]:
        """Ask for a job; those that have come then."""
        self.say(GRAB_JOB)
        return self.assigned()

    def grab_many(self, count: int) -> None:
        """So many GRAB_JOBs, with ids from `0000` on."""
        for number in range(count):
            self.say(GRAB_JOB, msgid=b"%04d" % number)

    def next_job(self) -> Assigned:
        """The next job that comes for any GRAB_JOB."""
        return self.job_in(self.next_of(lambda got: got.command == JOB_ASSIGN))

    def assigned(self) -> list[Assigned]:
        """The jobs that have come; SUCCESS beside them is passed over."""
        heard = [message for message in self.heard() if message.command != SUCCESS]
        assert {message.command for message in heard} <= {JOB_ASSIGN}, heard
        return [self.job_in(message) for message in heard]

    def done(self, job: Assigned, result: bytes = b"") -> None:
        self.say(WORK_DONE, self.result(job.handle, result))

    def fail(self, job: Assigned) -> None:
        self.say(WORK_FAIL, job.handle)

    def later(self, job: Assigned, delay: int, step: int = 0) -> None:
        self.say(SCHED_LATER, self.put_off(job.handle, delay, step))

    def acquire(self, job: Assigned, lock: str, most: int = 1) -> bool:
        answer = self.ask(ACQUIRE, str8(lock) + struct.pack(">h", most) + job.handle)
        self._expect(answer, ACQUIRED)
        return answer.data == b"\x01"

    def _expect(self, answer: Message, command: int) -> None:
        if answer.command != command:
            raise PeriodicError(f"answered {answer.command}, not {command}: {answer.data[:80]!r}")


# -- in common words -------------------------------------------------------------------------------

_SLOTS = 3
"""Names that a producer submits again and again."""
_FOR_EVER = 1_000_000


class Peer(Speaker, peer.Peer):
    """Answers are matched by their ids. The variant is the dialect.

    In the document's, a worker's reports have no answer: a PING behind each says that it was heard.
    """

    protocol = "periodic"
    held_as = "periodic {link}"

    def open(self) -> None:
        self.dialect = DOC if self.variant == DOC else CRC
        self._asked: dict[bytes, peer.Offer | peer.Grant] = {}
        self._grab = b""
        self._pinged: deque[peer.Grant] = deque()
        self.say(self.framed(bytes([WORKER if self.queues else CLIENT])))
        if self.dialect == DOC:
            self.peer_rules = "periodic-doc"
            self._send(PING)  # it must say more before a second is over
            self._begin()

    def _begin(self) -> None:
        self.is_open = True
        for queue in self.queues:
            self._send(CAN_DO, self.func(queue))

    def _send(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        msgid = msgid or self.next_id()
        self.say(self.message(command, args, msgid))
        return msgid

    def cut(self) -> Message | None:
        payload = take_payload(self.dialect, self.unread)
        if payload is not None and not self.is_open:
            assert len(payload) == 4, payload
            self._begin()
            return self.cut()
        return None if payload is None else parsed(self.dialect, payload)

    def answers(self, message: Message) -> Iterable[peer.Answer]:
        if message.command == JOB_ASSIGN:
            yield peer.Granted(self._grant(message))
            return
        asked = self._asked.pop(message.msgid, None)
        if isinstance(asked, peer.Offer):
            yield self._about(asked, message)
        elif message.command == PONG and self._pinged:
            yield peer.Done(self._pinged.popleft())
        else:
            assert message.command in (SUCCESS, PONG), message
            if asked is not None:
                yield peer.Done(asked)

    def _about(self, offer: peer.Offer, message: Message) -> peer.Answer:
        if message.command == SUCCESS and not offer.waits:
            return peer.Accepted(offer, _name(offer))
        if message.command == NO_WORKER:
            return peer.Refused(offer, "no worker")
        assert message.command == DATA, message
        return peer.Result(offer, message.data, message.data in (b"failed", b"expired", b"removed"))

    def _grant(self, message: Message) -> peer.Grant:
        job = self.job_in(message)
        workload = plain(job.workload) if self.dialect == DOC else job.workload
        reserve = float(job.timeout) if job.timeout else None
        return peer.Grant(job.handle, job.name, job.func, workload, reserve, at=job.sched_at)

    def submit(self, *offers: peer.Offer) -> None:
        for offer in offers:
            command = RUN_JOB if offer.waits else SUBMIT_JOB
            numbers = {"at": offer.at, "timeout": offer.reserve}
            job = self.encoded_job(offer.queue, _name(offer), offer.body, **numbers)
            self._asked[self._send(command, job)] = offer

    def serve(self, queue: str) -> None:
        for old in self.queues:
            self._send(CANT_DO, self.func(old))
        super().serve(queue)
        self._send(CAN_DO, self.func(queue))

    @staticmethod
    def handle_of(name: str) -> bytes:
        return str8(name) + str8(name)

    def take(self) -> None:
        self._grab = self._send(GRAB_JOB)

    def take_again(self) -> bool:
        if self.dialect == CRC:
            self._send(GRAB_JOB, msgid=self._grab)
        return self.dialect == CRC

    def report(self, grant: peer.Grant, word: str, result: bytes = b"") -> None:
        if word == "ack":
            msgid = self._send(WORK_DONE, self.result(grant.handle, result))
        elif word == "fail":
            msgid = self._send(WORK_FAIL, grant.handle)
        else:
            msgid = self._send(SCHED_LATER, self.put_off(grant.handle, self.rng.randrange(3), 1))
        if self.dialect == CRC:
            self._asked[msgid] = grant
        else:
            self._pinged.append(grant)
            self._send(PING)

    def beat(self) -> None:
        self._send(PING)


def _name(offer: peer.Offer) -> str:
    return offer.name or offer.jid


def _vary(offer: peer.Offer, rng: Random) -> None:
    offer.reserve = 60 if offer.waits else rng.choice((0, 0, 12, 12, 30))
    if not offer.waits and rng.random() < 0.3:
        number = rng.randrange(_SLOTS)
        offer.name = f"{offer.jid[:-8]}-slot{number}"
        offer.queue = peer.QUEUES[number % len(peer.QUEUES)]


Peer.behaviour = peer.Behaviour(
    vary=_vary,
    later=0.15,
    variants={"producer": (CRC, CRC, DOC), "worker": (CRC, CRC, DOC)},
    waiters=(0, 3),
    words={"ack": 70, "fail": 14, "release": 8, "vanish": 8},
    spans=((1, 3_000), (11_000, 26_000), (60_000, 100_000)),
    usual=(88, 10, 2),
    sleepy=(40, 55, 5),
    ways=(("many", ""), ("wait", ""), ("one", DOC)),
    consumers=(CRC, DOC),
    volatile_waits=True,
    reports_promise=True,
    retry=_FOR_EVER,
    has_reserve=True,
    peer_rules={
        "periodic": peer.PeerRules(expiry_fails=True),
        # The document's dialect answers no report; a PING behind it says that it was heard, not that it lasts.
        "periodic-doc": peer.PeerRules(ack_lasts=False, expiry_fails=True),
    },
)
