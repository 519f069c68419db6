"""Faktory: a late ACK of the last holder counts, once, as long as nobody was given the job since."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored
from tests.prove.fences.connected import Connected
from tests.support.faktory import Faktory, Reply, ack_line, fail_line, job

VARIANTS = ("silent", "beating")
LASTING = True

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("ACK after FAIL", held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it", expired=(A_DONE, *ignored("a ack", "c ack"))),
    Script("late, and nobody took it yet", ready=(A_DONE, *ignored("a ack", "a fail"))),
    Script("a stranger after the lease",
        expired=ignored("c ack", "c fail"), ready=ignored("c ack"), taken=(B_DONE,)),
    Script("a late FAIL",
        expired=ignored("a fail"), ready=ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("a client without a name, after two deliveries",
        taken=(*ignored("- ack", "- fail", "c ack"), B_DONE, *ignored("- ack"))),
    Script("both are late",
        taken=ignored("a ack"), expired_again=(*ignored("a ack", "c ack"), B_DONE, *ignored("b ack"))),
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
    wid = "" if who == "-" else f"worker-{who}-{variant}"
    return Worker(port, wid, beats=variant == "beating")
