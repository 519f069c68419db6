"""A small blocking Gearman client and worker, and nothing of a library: what is sent is what the test says.

Written from the protocol's description alone, not from the server's code, so that the two can
disagree. `Gearman` is one connection, which may be a client, a worker and an operator at once.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from enum import IntEnum
from random import Random
from typing import NamedTuple, Self

from tests.support import peer
from tests.support.connection import Connection, messages_in, taken

_HEADER = struct.Struct(">4sII")


class GearmanError(RuntimeError):
    """The server answered with an ERROR packet."""


class Type(IntEnum):
    """The packets that tests name."""

    TEXT = 0
    """No packet but a line of text."""
    CAN_DO, CANT_DO, RESET_ABILITIES, PRE_SLEEP = range(1, 5)
    NOOP, SUBMIT_JOB, JOB_CREATED, GRAB_JOB, NO_JOB, JOB_ASSIGN = range(6, 12)
    WORK_STATUS, WORK_COMPLETE, WORK_FAIL, GET_STATUS, ECHO_REQ, ECHO_RES = range(12, 18)
    SUBMIT_JOB_BG, ERROR, STATUS_RES, SUBMIT_JOB_HIGH, SET_CLIENT_ID, CAN_DO_TIMEOUT = range(18, 24)
    ALL_YOURS, WORK_EXCEPTION, OPTION_REQ, OPTION_RES, WORK_DATA, WORK_WARNING = range(24, 30)
    GRAB_JOB_UNIQ, JOB_ASSIGN_UNIQ, SUBMIT_JOB_HIGH_BG, SUBMIT_JOB_LOW = range(30, 34)
    SUBMIT_JOB_LOW_BG, SUBMIT_JOB_SCHED, SUBMIT_JOB_EPOCH, SUBMIT_REDUCE_JOB = range(34, 38)
    SUBMIT_REDUCE_JOB_BACKGROUND, GRAB_JOB_ALL, JOB_ASSIGN_ALL = range(38, 41)
    GET_STATUS_UNIQUE, STATUS_RES_UNIQUE = range(41, 43)


ENDS = (Type.WORK_COMPLETE, Type.WORK_FAIL, Type.WORK_EXCEPTION)
"""What ends a job for the client that waits for it."""
_ASSIGNS = {Type.JOB_ASSIGN: 3, Type.JOB_ASSIGN_UNIQ: 4, Type.JOB_ASSIGN_ALL: 5}


class Packet(NamedTuple):
    """One packet, or one line of text, from the server."""

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

    @property
    def arguments(self) -> list[bytes]:
        """The body cut at every NUL."""
        return self.body.split(b"\0")

    def checked(self, *wanted: Type) -> Packet:
        """Itself; `GearmanError` for an ERROR, `ValueError` for any packet but those wanted."""
        if self.type is Type.ERROR:
            raise GearmanError(self.body.replace(b"\0", b": ").decode("utf-8", "replace"))
        if wanted and self.type not in wanted:
            raise ValueError(f"expected {wanted}, not {self}")
        return self


Text = bytes | str  # as UTF-8


class Work(NamedTuple):
    """A job as its worker sees it."""

    handle: bytes
    function: bytes
    body: bytes
    unique: bytes = b""
    reducer: bytes = b""


def joined(*arguments: Text) -> bytes:
    return b"\0".join(text.encode() if isinstance(text, str) else text for text in arguments)


def request(kind: int, *arguments: Text) -> bytes:
    """The bytes of a packet to the server."""
    body = joined(*arguments)
    return _HEADER.pack(b"\0REQ", kind, len(body)) + body


def ability(function: str, timeout_ms: float = 0) -> bytes:
    """A worker can do this, perhaps in a time that it gives itself."""
    if timeout_ms:
        return request(Type.CAN_DO_TIMEOUT, function, f"{timeout_ms:.0f}")
    return request(Type.CAN_DO, function)


def take_packet(unread: bytearray) -> Packet | None:
    """Take a whole packet or line of the server's off the front; None until it is there."""
    if unread and unread[0]:
        start, kind, end = 0, 0, unread.find(b"\n") + 1
    elif len(unread) < (start := _HEADER.size):
        return None
    else:
        magic, kind, size = _HEADER.unpack_from(unread)
        if magic != b"\0RES":
            raise ValueError(f"not a packet: {bytes(unread[:60])!r}")
        end = start + size
    if not end or len(unread) < end:
        return None
    return Packet(Type(kind), taken(unread, end)[start:])


def said(data: bytes) -> Iterator[bytes]:
    """All that a server said, packet by packet (its number and its body) and line by line."""
    for packet in messages_in(take_packet, data):
        yield packet.body[:-1] if packet.type is Type.TEXT else bytes([packet.type]) + packet.body


def work_in(packet: Packet) -> Work | None:
    """The job in the answer to a GRAB_JOB*; None for NO_JOB."""
    if packet.type is Type.NO_JOB:
        return None
    count = _ASSIGNS[packet.checked(*_ASSIGNS).type]
    handle, function, *rest = packet.body.split(b"\0", count - 1)
    return Work(handle, function, rest[-1], *rest[:-1])


class Gearman(Connection[Packet]):
    """One connection on a blocking socket."""

    usual = Type.SUBMIT_JOB_BG
    """How jobs are submitted."""

    def cut(self) -> Packet | None:
        return take_packet(self.unread)

    def wait_for(self, *wanted: Type) -> Packet:
        """The next of these, or an ERROR; the next of all if none is named. Others are put aside."""
        return self.next_of(lambda packet: not wanted or packet.type in (*wanted, Type.ERROR))

    def say(self, kind: int, *arguments: Text) -> None:
        """Send one packet, without waiting for anything."""
        self.send_bytes(request(kind, *arguments))

    def call(self, kind: int, *arguments: Text, wanted: tuple[Type, ...] = ()) -> Packet:
        """Send a packet and wait for its answer."""
        self.say(kind, *arguments)
        return self.wait_for(*wanted)

    def submit(
        self, function: Text = "f", body: Text = "x", unique: Text = "", kind: int = 0, *more: Text
    ) -> bytes:
        """Submit a job and return its handle; `more` is what some kinds have before the body."""
        arguments = (function, unique, *more, body)
        answer = self.call(kind or self.usual, *arguments, wanted=(Type.JOB_CREATED,))
        return answer.checked(Type.JOB_CREATED).body

    def status(self, handle: bytes) -> list[bytes]:
        """known, running, numerator, denominator."""
        answer = self.call(Type.GET_STATUS, handle, wanted=(Type.STATUS_RES,))
        return answer.checked(Type.STATUS_RES).arguments[1:]

    def can_do(self, *functions: str, timeout_ms: int = 0) -> Self:
        for function in functions:
            self.send_bytes(ability(function, timeout_ms))
        return self

    def grab(self, kind: Type = Type.GRAB_JOB) -> Work | None:
        """A job, or None; a NOOP that was on its way is forgotten."""
        work = work_in(self.call(kind, wanted=(Type.NO_JOB, *_ASSIGNS)))
        self.aside = [packet for packet in self.aside if packet.type is not Type.NOOP]
        return work

    def complete(self, handle: bytes, result: Text = b"") -> None:
        self.say(Type.WORK_COMPLETE, handle, result)

    def fail(self, handle: bytes) -> None:
        self.say(Type.WORK_FAIL, handle)

    def line(self, text: str | None = None) -> bytes:
        """Send a line of text, if there is one; the next line that answers."""
        if text is not None:
            self.send_bytes(text.encode() + b"\r\n")
        return self.wait_for(Type.TEXT).body

    def lines(self, text: str) -> list[bytes]:
        """Send a line of text; the lines that answer it, up to the dot."""
        found = [self.line(text)]
        while found[-1] != b".\n":
            if found[-1].startswith(b"ERR "):
                raise GearmanError(found[-1].decode().strip())
            found.append(self.line())
        return found[:-1]

    def result(self, handle: bytes) -> Packet:
        """The packet that ends this job for us; what else is said of it is put aside."""
        return self.next_of(lambda packet: packet.type in ENDS and packet.handle == handle)

    def echo(self, data: bytes = b"still there?") -> list[Packet]:
        """Say something and hear it back; the errors that came before it."""
        self.say(Type.ECHO_REQ, data)
        errors: list[Packet] = []
        while (packet := self.wait_for(Type.ECHO_RES)).type is Type.ERROR:
            errors.append(packet)
        if packet.body != data:
            raise ValueError(f"said {data!r}, heard {packet.body!r}")
        return errors

    def next_job(self) -> Work:
        """Grab, sleep, grab, as workers do; `TimeoutError` if none comes."""
        while (work := self.grab()) is None:
            self.say(Type.PRE_SLEEP)
            self.wait_for(Type.NOOP)
        return work


# -- in common words -------------------------------------------------------------------------------

_PRIORITIES = {0: "", 1: "_HIGH", -1: "_LOW"}
_SHARED = 6
"""Jobs that several clients submit under one unique id, at different times and in different ways."""
TIMES = {"brief": 5.0, "timed": 60.0}
"""The seconds that workers of these variants give themselves for a job."""


class Peer(peer.Peer):
    """JOB_CREATED comes in the order of the submits, an echo behind each report.

    A worker may give itself a time for each job.
    """

    protocol = "gearman"
    rests = True
    held_as = "{link}"

    def open(self) -> None:
        self._created: deque[peer.Offer] = deque()
        self._waiting: defaultdict[bytes, list[peer.Offer]] = defaultdict(list)
        self._reports: deque[peer.Done] = deque()
        self._is_resting = False
        self._can_do()
        super().open()

    def _can_do(self) -> None:
        for queue in self.queues:
            self.say(ability(queue, 1_000 * TIMES.get(self.variant, 0)))

    def _send(self, kind: Type, *arguments: Text) -> None:
        self.say(request(kind, *arguments))

    def cut(self) -> Packet | None:
        return take_packet(self.unread)

    def answers(self, packet: Packet) -> Iterable[peer.Answer]:
        match packet.type:
            case Type.JOB_CREATED:
                offer = self._created.popleft()
                if offer.waits:
                    self._waiting[packet.body].append(offer)
                yield peer.Accepted(offer, packet.body.decode())
            case Type.WORK_COMPLETE | Type.WORK_FAIL | Type.WORK_DATA | Type.WORK_STATUS:
                yield from self._told(packet)
            case Type.ERROR:
                yield from self._refused(packet)
            case Type.ECHO_RES:
                yield self._reports.popleft()
            case Type.NOOP if self._is_resting:
                self._is_resting = False
                yield peer.Woken()
            case Type.NO_JOB:
                yield peer.Nothing()
            case _:
                assert packet.type in _ASSIGNS, packet
                yield peer.Granted(self._grant(packet))

    def _told(self, packet: Packet) -> Iterable[peer.Answer]:
        """It is for the first who waits for this job: each is told of everything that comes of it."""
        waiting = self._waiting[packet.handle]
        assert waiting, f"nobody waits for {packet}"
        if packet.type is Type.WORK_DATA:
            yield peer.Part(waiting[0], packet.data)
        elif packet.type is not Type.WORK_STATUS:
            yield peer.Result(waiting.pop(0), packet.data, packet.type is Type.WORK_FAIL)

    def _refused(self, packet: Packet) -> Iterable[peer.Answer]:
        why = packet.body.replace(b"\0", b": ").decode()
        assert self._created or packet.handle == b"JOB_NOT_FOUND", packet
        if self._created:
            yield peer.Refused(self._created.popleft(), why)
        elif self._reports:
            self._reports[0].out = "no"
        else:
            yield peer.Refused(None, why)

    def _grant(self, packet: Packet) -> peer.Grant:
        work = work_in(packet)
        assert work is not None
        name, queue = work.handle.decode(), work.function.decode()
        return peer.Grant(work.handle, name, queue, work.body, TIMES.get(self.variant))

    def submit(self, *offers: peer.Offer) -> None:
        packets = b""
        for offer in offers:
            self._created.append(offer)
            kind = "_EPOCH" if offer.at else _PRIORITIES[offer.prio] + "_BG" * (not offer.waits)
            at = [str(offer.at)] if offer.at else []
            packets += request(
                Type["SUBMIT_JOB" + kind], offer.queue, offer.unique, *at, offer.body
            )
        self.say(packets)

    def take(self) -> None:
        self._send(self.rng.choice((Type.GRAB_JOB, Type.GRAB_JOB_UNIQ, Type.GRAB_JOB_ALL)))

    def report(self, grant: peer.Grant, word: str, result: bytes = b"") -> None:
        if word == "ack":
            self._send(Type.WORK_COMPLETE, grant.handle, result)
        else:
            if word == "exception":
                self._send(Type.WORK_EXCEPTION, grant.handle, b"it broke")
            self._send(Type.WORK_FAIL, grant.handle)
        self._reports.append(peer.Done(grant))
        self._send(Type.ECHO_REQ, b"heard?")

    def part(self, grant: peer.Grant, data: bytes) -> None:
        self._send(Type.WORK_STATUS, grant.handle, b"1", b"2")
        self._send(Type.WORK_DATA, grant.handle, data)

    def serve(self, queue: str) -> None:
        for old in self.queues:
            self._send(Type.CANT_DO, old)
        super().serve(queue)
        self._can_do()

    def renew(self) -> None:
        """It keeps what it has."""
        self._send(Type.RESET_ABILITIES)
        self.variant = ""
        self._can_do()

    def rest(self) -> None:
        self._is_resting = True
        self._send(Type.PRE_SLEEP)


def _vary(offer: peer.Offer, rng: Random) -> None:
    offer.prio = rng.choices((0, 1, -1), (6, 2, 2))[0]
    if rng.random() < 0.2:
        number = rng.randrange(_SHARED)
        offer.jid = offer.unique = f"gearman-shared-{number:07}"
        offer.queue = peer.QUEUES[number % len(peer.QUEUES)]
        offer.body = b'["%b","%b"]' % (offer.jid.encode(), b"x" * number)
    elif rng.random() < 0.3:
        offer.unique = offer.jid


Peer.behaviour = peer.Behaviour(
    vary=_vary,
    later=0.15,
    variants={"worker": ("", "", "brief")},
    waiters=(1, 4),
    words={"ack": 76, "fail": 8, "exception": 8, "vanish": 8},
    eager=True,
    joins=True,
    volatile_waits=True,
    ways=(("many", ""), ("wait", ""), ("one", "")),
    # A worker hears nothing of a completion but an error; an echo behind it says that there was none.
    peer_rules={"gearman": peer.PeerRules(ack_tells=True, ack_lasts=False, fail_ends=True)},
)
