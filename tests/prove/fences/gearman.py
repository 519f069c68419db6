"""Gearman: a job belongs to a connection until its end, its time or the connection's end. No word counts after that."""

from __future__ import annotations

from collections.abc import Mapping

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored
from tests.prove.fences.connected import Connected
from tests.support.gearman import Gearman, Type

VARIANTS = ("timed", "gone")
LASTING = False

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("WORK_COMPLETE after WORK_FAIL",
        held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it",
        expired=ignored("a ack", "a fail", "c ack"), ready=ignored("a ack"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail", "x ack"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("both are late",
        taken=ignored("a ack"), expired_again=ignored("a ack", "c ack", "b ack", "b fail")),
)  # fmt: skip


class Worker(Connected[Gearman]):
    """One that gives itself a time, or (`gone`) is cut off while it has the job."""

    def take(self, queue: str) -> bool:
        client = self.connected()
        client.can_do(queue, timeout_ms=0 if self._gone else LEASE_S * 1_000)
        work = client.grab()
        client.send(Type.CANT_DO, queue.encode())  # it keeps what it has
        return work is not None and work.function == queue.encode()

    def say(self, verb: str, name: str) -> str:
        client = self.connected()
        if verb == "ack":
            client.complete(name.encode())
        else:
            client.fail(name.encode())
        return " ".join(error.body.decode() for error in client.echo())

    def connect(self) -> Gearman:
        return Gearman(self._port)

    def probe(self, client: Gearman) -> None:
        client.echo()


def submit(ports: Mapping[str, int], queue: str) -> str:
    with Gearman(ports["gearman"]) as client:
        return client.submit(queue, b"work").decode()


def worker(port: int, who: str, variant: str) -> Worker:
    return Worker(port, gone=variant == "gone")
