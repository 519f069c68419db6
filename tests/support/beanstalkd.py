"""A small beanstalkd client, written from the protocol's text and not from the server's code."""

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from tests.support import peer
from tests.support.connection import Connection, taken
from tests.support.peer import Answer, Done, Grant, Offer

_COUNTED = (b"RESERVED", b"FOUND", b"OK")
_TTR_S = 60
_SHORT_S = 5


class Reply(NamedTuple):
    """A line of the server's, in words, and the data behind it."""

    words: tuple[bytes, ...]
    data: bytes = b""


def take_reply(unread: bytearray) -> Reply | None:
    """Take a whole reply off the front; None until it is there."""
    end = unread.find(b"\r\n")
    if end < 0:
        return None
    words = tuple(bytes(unread[:end]).split(b" "))
    start = end + 2
    if words[0] not in _COUNTED:
        del unread[:start]
        return Reply(words)
    end = start + int(words[-1]) + 2
    if len(unread) < end:
        return None
    if unread[end - 2 : end] != b"\r\n":
        raise ValueError(f"no CRLF behind the data of {words}")
    return Reply(words, taken(unread, end)[start:-2])


def said(data: bytes) -> Iterator[bytes]:
    """The replies in all that the server said, each in one piece; `ValueError` if it is none."""
    unread = bytearray(data)
    while unread:
        before = bytes(unread)
        if take_reply(unread) is None:
            raise ValueError(f"half a reply: {before[:60]!r}")
        yield before[: len(before) - len(unread)]


def put(body: bytes, pri: int = 1024, delay: int = 0, ttr: int = _TTR_S) -> bytes:
    """The bytes of a `put`."""
    return b"put %d %d %d %d\r\n%b\r\n" % (pri, delay, ttr, len(body), body)


class Beanstalkd(Connection[Reply]):
    """One connection on a blocking socket."""

    def cut(self) -> Reply | None:
        return take_reply(self.unread)


# -- in common words -------------------------------------------------------------------------------


class Peer(peer.Peer):
    """Replies come in the order of the commands. Nothing is said while a `reserve` waits."""

    protocol = "beanstalkd"
    held_as = "{link}"

    def open(self) -> None:
        self._expected: deque[Answer | None] = deque()
        self._used = "default"
        for queue in self.queues:
            self._command(b"watch %b" % queue.encode())
        if self.queues:
            self._command(b"ignore default")
        super().open()

    def _command(self, line: bytes, answer: Answer | None = None) -> None:
        self._expected.append(answer)
        self.say(line + b"\r\n")

    def cut(self) -> Reply | None:
        return take_reply(self.unread)

    def answers(self, reply: Reply) -> Iterable[Answer]:
        assert self._expected, reply
        expected = self._expected.popleft()
        word = reply.words[0]
        match expected:
            case peer.Accepted() if word == b"INSERTED":
                yield peer.Accepted(expected.offer, reply.words[1].decode())
            case peer.Accepted() if word in (b"OUT_OF_MEMORY", b"JOB_TOO_BIG", b"DRAINING"):
                yield peer.Refused(expected.offer, word.decode())
            case peer.Nothing() if word == b"RESERVED":
                yield peer.Granted(self._grant(reply))
            case peer.Nothing() if word in (b"TIMED_OUT", b"DEADLINE_SOON", b"OUT_OF_MEMORY"):
                yield expected
            case Done() if word in (b"DELETED", b"RELEASED", b"BURIED", b"TOUCHED", b"NOT_FOUND"):
                expected.out = "no" if word == b"NOT_FOUND" else "ok"
                yield expected
            case _:
                assert expected is None, reply
                assert word in (b"USING", b"WATCHING"), reply

    def _grant(self, reply: Reply) -> Grant:
        job_id = reply.words[1]
        queue = self.queues[0] if len(self.queues) == 1 else ""
        # What the time to run is does not come with the job: of others' jobs it is not known.
        reserve = float(_SHORT_S) if self.protocol.encode() in reply.data else None
        return Grant(job_id, job_id.decode(), queue, reply.data, reserve)

    def submit(self, *offers: Offer) -> None:
        for offer in offers:
            if offer.queue != self._used:
                self._command(b"use %b" % offer.queue.encode())
                self._used = offer.queue
            self._expected.append(peer.Accepted(offer, ""))
            self.say(put(offer.body, 0, 0, offer.reserve or _TTR_S))

    def serve(self, queue: str) -> None:
        for old in self.queues:
            if old != queue:
                self._command(b"watch %b" % queue.encode())
                self._command(b"ignore %b" % old.encode())
        super().serve(queue)

    def take(self) -> None:
        self._command(b"reserve-with-timeout %d" % self.rng.choice((0, 1, 5)), peer.Nothing())

    def report(self, grant: Grant, word: str, result: bytes = b"") -> None:
        command = {"ack": b"delete %b", "fail": b"bury %b 0", "release": b"release %b 0 0"}[word]
        self._command(command % grant.handle, Done(grant))


def _vary(offer: Offer, rng: Random) -> None:
    offer.reserve = _SHORT_S


Peer.behaviour = peer.Behaviour(
    vary=_vary,
    words={"ack": 84, "release": 8, "vanish": 8},
    has_reserve=True,
    ways=(("many", ""), ("one", "")),
    peer_rules={"beanstalkd": peer.PeerRules(fail_ends=True)},
)
