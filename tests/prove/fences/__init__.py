"""Who says what about a job that is theirs, was theirs, or never was: one module per protocol.

A script is the words that are said about one job at each stage of its life, each with what must come of
it. `fence.py` plays all scripts of all protocols.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol, cast

from tests.support.peer import Accepted, Answer, Done, Grant, Granted, Nothing, Offer, Peer, Wired
from tests.support.protocols import PEERS

LEASE_S = 60
BEAT_S = 25
"""How often those who beat do: Faktory hangs up on a worker that is silent for a minute."""
RETRY_S = 15 + 2 * 30 + 16
"""The longest wait after a second failure, which is Faktory's."""

NAMELESS = "nameless"
"""The variant in which `a`, `b` and `c` are connections without a name."""
_TAKE_S, _ANSWER_S, _SOON_S = 2.0, 10.0, 0.3

Word = tuple[str, str, str]  # who says what, and what must come of it


@dataclass(frozen=True)
class Script:
    """The words that are said about one job, at each stage of its life."""

    name: str
    only: str = ""  # the one variant it is for, if not for all
    killed: bool = True  # whether it is also for a server that is killed in between
    held: tuple[Word, ...] = ()  # A has it
    expired: tuple[Word, ...] = ()  # A's lease is over
    ready: tuple[Word, ...] = ()  # ... and anybody may take it
    taken: tuple[Word, ...] = ()  # B has it
    expired_again: tuple[Word, ...] = ()  # B's lease is over too


A_DONE = ("a", "ack", "done")
B_DONE = ("b", "ack", "done")


def ignored(*said: str) -> tuple[Word, ...]:
    """`"c ack"`: a word that changes nothing."""
    return tuple((who, verb, "nothing") for who, verb in (words.split() for words in said))


class Cast(Protocol):
    """What a protocol's module offers."""

    SCRIPTS: tuple[Script, ...]
    VARIANTS: tuple[str, ...]
    """Kinds of workers; every script is played with each. One that is `gone` is cut off while it has the job."""
    LASTING: bool
    """Whether a lease outlives the server."""
    SUBMITS: tuple[str, int]
    """The protocol in which its jobs are submitted, and how many seconds they may run."""


def of(protocol: str) -> Cast:
    return cast(Cast, importlib.import_module(f"tests.prove.fences.{protocol}"))


def submit(protocol: str, ports: Mapping[str, int], queue: str) -> str:
    """A job for this queue alone; the name by which the server knows it."""
    speaks, reserve = of(protocol).SUBMITS
    offer = Offer(queue, queue, b"[]", reserve=reserve, retry=9)
    with Wired(PEERS[speaks], ports[speaks], Random(1), queues=[queue]) as client:
        client.peer.submit(offer)
        while True:
            for answer in client.hear():
                if isinstance(answer, Accepted):
                    return answer.name


class Worker:
    """One party, with one connection at a time. It comes back when it was hung up on.

    `a`, `b` and `c` are workers, `-` is a client without a name, `x` is of another protocol, and `n` has a
    name whoever else has none.
    """

    def __init__(self, protocol: str, port: int, who: str, variant: str) -> None:
        self._kind = PEERS[protocol]
        self._port = port
        self._variant = variant
        is_nameless = who == "-" or (variant == NAMELESS and who != "n")
        self._name = "" if is_nameless else f"worker-{who}-{variant}"
        self._client: Wired | None = None
        self._grants: dict[str, Grant] = {}

    def take(self, queue: str) -> bool:
        """Take the job of this queue; False if it was not given."""

        def ask(peer: Peer) -> None:
            peer.serve(queue)
            peer.take()

        heard = self._act(ask, Granted, _TAKE_S)
        if not isinstance(heard, Granted):
            return False
        self._grants[queue] = self._grants[heard.grant.name] = heard.grant
        return heard.grant.queue == queue

    def say(self, verb: str, name: str) -> str:
        """ACK or FAIL the job of that name; what was heard."""
        grant = self._grants.get(name) or Grant(self._kind.handle_of(name), name, name, b"")
        # Who asks for the next job with its report is not answered until there is one.
        patience = _SOON_S if self._kind.report_asks else _ANSWER_S
        return str(self._act(lambda peer: peer.report(grant, verb), Done, patience))

    def beat(self) -> None:
        """Be alive, where the protocol has a word for it; or be gone."""
        if self._variant == "gone":
            self.leave()
        else:
            self._beat()

    def stir(self) -> None:
        """Say anything, where those who are silent for a while lose what they have."""
        if self._kind.behaviour.beat_ms:
            self._beat()

    def _beat(self) -> None:
        if self._client is not None and self._variant != "silent":
            with suppress(OSError):
                self._client.peer.beat()
                self._client.flush()

    def leave(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _act(
        self, action: Callable[[Peer], None], kind: type[Answer], seconds: float
    ) -> Answer | None:
        """Do it, on a new connection if the old one is over; the first answer of that kind."""
        for _ in range(2):
            try:
                if self._client is None:
                    who = {"worker": self._name, "variant": self._variant, "queues": ["nothing"]}
                    self._client = Wired(self._kind, self._port, Random(1), **who)  # type: ignore[arg-type]
                action(self._client.peer)
                return self._hear(self._client, kind, seconds)
            except ConnectionError:
                self.leave()
        return None

    def _hear(self, client: Wired, kind: type[Answer], seconds: float) -> Answer | None:
        try:
            while True:
                for answer in client.hear(seconds):
                    if isinstance(answer, (kind, Nothing)):
                        return answer
        except TimeoutError:
            return None
