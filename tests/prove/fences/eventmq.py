"""EventMQ: a job belongs to a connection. A worker has no name that outlives it, so that of a job which nobody has, and
which a worker of this protocol had last, any of them may say that it is done: better than to run it again.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored
from tests.prove.fences.connected import Connected
from tests.support.eventmq import EventMQ

VARIANTS = ("timed", "gone")
LASTING = False
_GRACE_S = 2  # how much longer than its timeout the server waits for a job

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("done after it failed", held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it", expired=(A_DONE, *ignored("a ack", "c ack"))),
    Script("a late failure", expired=ignored("a fail"), ready=ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail", "x ack"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("both are late", taken=ignored("a ack"), expired_again=(B_DONE, *ignored("b ack", "a ack"))),
)  # fmt: skip


class Worker(Connected[EventMQ]):
    """One that is too slow for the job's time, or (`gone`) is cut off while it has the job."""

    def take(self, queue: str) -> bool:
        client = self.connected()
        client.inform((10, queue), slots=1)
        client.set_timeout(2.0)
        try:
            return client.next_job().queue == queue
        except TimeoutError:
            return False
        finally:
            client.set_timeout(10.0)

    def say(self, verb: str, name: str) -> str:
        client = self.connected()
        client.reply(name, b'{"value": 1}' if verb == "ack" else b'{"error": "planned"}')
        client.ask("STATUS")
        return "nothing"

    def stir(self) -> None:
        if self._client is not None:
            self.connected()

    def beat(self) -> None:
        super().beat()
        if self._client is not None:
            self.connected().say("HEARTBEAT", "1")

    def connect(self) -> EventMQ:
        return EventMQ(self._port).inform((10, "nothing"))

    def probe(self, client: EventMQ) -> None:
        client.ask("STATUS")


def submit(ports: Mapping[str, int], queue: str) -> str:
    with EventMQ(ports["eventmq"]) as client:
        client.inform((10, queue))  # or it would go to `default`
        client.request(b'["run", {"path": "a", "callable": "b", "args": []}]', queue,
                       f"timeout:{LEASE_S - _GRACE_S},retry-count:9", msgid=queue)  # fmt: skip
        client.ask("STATUS")
    return queue


def worker(port: int, who: str, variant: str) -> Worker:
    return Worker(port, gone=variant == "gone")
