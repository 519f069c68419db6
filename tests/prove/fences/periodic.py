"""Periodic: a job belongs to a connection. What is done too late counts as long as nobody else was given it since."""

from __future__ import annotations

from collections.abc import Mapping

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored
from tests.prove.fences.connected import Connected
from tests.support.periodic import GRAB_JOB, WORKER, Periodic, str8

VARIANTS = ("timed", "gone")
LASTING = False

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("WORK_DONE after WORK_FAIL", held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it", only="timed", expired=(A_DONE, *ignored("a ack", "c ack"))),
    Script("gone, and nobody has it", only="gone",
        expired=ignored("a ack", "a fail", "c ack"), ready=ignored("a ack"), taken=(B_DONE,)),
    Script("a late WORK_FAIL", expired=ignored("a fail"), ready=ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail", "x ack"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("both are late", only="timed",
        taken=ignored("a ack"), expired_again=(*ignored("a ack", "c ack"), B_DONE, *ignored("b ack"))),
    Script("both are gone", only="gone",
        taken=ignored("a ack"), expired_again=ignored("a ack", "c ack", "b ack", "b fail")),
)  # fmt: skip


class Worker(Connected[Periodic]):
    """One that is too slow for the job's time, or (`gone`) is cut off while it has the job."""

    def take(self, queue: str) -> bool:
        client = self.connected()
        client.can_do(queue)
        client.send(GRAB_JOB, msgid=b"grab")
        client.set_timeout(2.0)
        try:
            return client.next_job().func == queue
        except TimeoutError:
            return False
        finally:
            client.set_timeout(10.0)
            client.cant_do(queue)  # it keeps what it has

    def say(self, verb: str, name: str) -> str:
        client = self.connected()
        handle = str8(name) + str8(name)
        if verb == "ack":
            client.done(handle)
        else:
            client.fail(handle)
        return "SUCCESS"

    def beat(self) -> None:
        super().beat()
        if self._client is not None:
            self.connected()

    def connect(self) -> Periodic:
        return Periodic(self._port, role=WORKER)

    def probe(self, client: Periodic) -> None:
        client.ping()


def submit(ports: Mapping[str, int], queue: str) -> str:
    with Periodic(ports["periodic"]) as client:
        client.submit(queue, queue, b"work", timeout=LEASE_S)
    return queue


def worker(port: int, who: str, variant: str) -> Worker:
    return Worker(port, gone=variant == "gone")
