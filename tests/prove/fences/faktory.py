"""Faktory: anybody's word counts about a first delivery, and only the holder's about a later one.

A late ACK counts likewise, once, as long as nobody was given the job since. Whoever has no `wid` may speak over
another connection, but not over one that is known to have held the job before; what connections there
were is not known after the server was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored
from tests.prove.fences.connected import Connected
from tests.support.faktory import Faktory, Reply, ack_line, fail_line, job

VARIANTS = ("silent", "beating")
LASTING = True

NAMELESS = "nameless"
"""The variant in which `a`, `b` and `c` are connections without a `wid`."""

SCRIPTS = (
    Script("a worker that came back under another name",
        held=(("c", "ack", "done"), *ignored("a ack", "c ack", "a fail"))),
    Script("another worker's failure", held=(("c", "fail", "failed"), *ignored("a ack", "c ack"))),
    Script("a client without a name", held=(("-", "ack", "done"), *ignored("a ack", "- ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("ACK after FAIL", held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it", expired=(A_DONE, *ignored("a ack", "c ack"))),
    Script("late, and nobody took it yet", ready=(A_DONE, *ignored("a ack", "a fail"))),
    Script("another worker after the lease",
        expired=(*ignored("c fail"), ("c", "ack", "done"), *ignored("a ack", "c ack"))),
    Script("another worker, and nobody took it yet", ready=(("c", "ack", "done"), *ignored("a ack"))),
    Script("a late FAIL",
        expired=ignored("a fail"), ready=ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("another worker, after two deliveries",
        taken=(*ignored("c ack", "c fail"), B_DONE, *ignored("c ack"))),
    Script("a client without a name, after two deliveries",
        taken=(*ignored("- ack", "- fail"), B_DONE, *ignored("- ack"))),
    Script("both are late",
        taken=ignored("a ack"), expired_again=(*ignored("a ack", "c ack"), B_DONE, *ignored("b ack"))),
    Script("another connection of B's, none of which has a name", only=NAMELESS,
        taken=(("c", "ack", "done"), *ignored("b ack", "c ack"))),
    Script("another connection of B's fails", only=NAMELESS,
        taken=(("c", "fail", "failed"), *ignored("b ack", "c ack"))),
    Script("another connection of B's, too late", only=NAMELESS,
        expired_again=(*ignored("c fail"), ("c", "ack", "done"), *ignored("b ack"))),
    Script("a worker with a name, about who has none", only=NAMELESS,
        taken=(*ignored("n ack", "n fail"), B_DONE)),
    Script("a connection that had it before", only=NAMELESS, killed=False,
        taken=(*ignored("a ack", "a fail"), B_DONE, *ignored("a ack"))),
    Script("a connection that had it before, and both are late", only=NAMELESS, killed=False,
        taken=ignored("a ack"), expired_again=(*ignored("a ack"), B_DONE, *ignored("a ack"))),
)  # fmt: skip


class Worker(Connected[Faktory]):
    """One `wid`; one that `beats` is never hung up on."""

    def __init__(self, port: int, wid: str, *, beats: bool) -> None:
        super().__init__(port)
        self.wid = wid
        self.beats = beats

    def take(self, queue: str) -> bool:
        return bool(self._call(f"FETCH {queue}").body)

    def say(self, verb: str, name: str) -> str:
        return str(self._call(ack_line(name) if verb == "ack" else fail_line(name)))

    def beat(self) -> None:
        if self.beats and self.wid:
            self._call(f'BEAT {{"wid":"{self.wid}"}}')

    def _call(self, line: str) -> Reply:
        if self._client is not None:
            with suppress(OSError):
                return self._client.call(line)
            self.leave()
        return self.connected().call(line)

    def connect(self) -> Faktory:
        return Faktory(self._port).hello(wid=self.wid or None)


def submit(ports: Mapping[str, int], queue: str) -> str:
    with Faktory(ports["faktory"]) as producer:
        producer.hello().push(job(queue, queue=queue, reserve_for=LEASE_S))
    return queue


def worker(port: int, who: str, variant: str) -> Worker:
    """`n` has a name whoever else has none."""
    is_nameless = who == "-" or (variant == NAMELESS and who != "n")
    wid = "" if is_nameless else f"worker-{who}-{variant}"
    return Worker(port, wid, beats=variant == "beating")
