"""MemoDB: a worker speaks of the one job that it has, and has no other word than that it is done.

Its own jobs live in memory and have no name that a peer sees, so that it runs Faktory's here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.prove.fences import A_DONE, B_DONE, Script, faktory, ignored
from tests.prove.fences.connected import Connected
from tests.support.memodb import JOB, MemoDB, ready, result

VARIANTS = ("timed", "gone")
LASTING = False
_SOON_S = 0.3  # within which an answer comes, if there is one at once

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack"))),
    Script("late, and nobody has it", expired=ignored("a ack", "c ack"), ready=ignored("a ack"), taken=(B_DONE,)),
    Script("late, and B has it", taken=(*ignored("a ack", "x ack"), B_DONE, *ignored("a ack", "b ack"))),
    Script("both are late", taken=ignored("a ack"), expired_again=ignored("a ack", "c ack", "b ack")),
)  # fmt: skip


class Worker(Connected[MemoDB]):
    """As many workers as jobs, on one connection; `gone` is cut off while they have them."""

    def __init__(self, port: int, *, gone: bool) -> None:
        super().__init__(port, gone=gone)
        self._ids: dict[str, bytes] = {}

    def take(self, queue: str) -> bool:
        answer = self._ask(ready(queue), 2.0)
        if answer is None:
            return False
        op, self._ids[queue] = answer
        return op == JOB

    def say(self, verb: str, name: str) -> str:
        assert verb == "ack"
        return str(self._ask(result(self._ids.get(name, b"nobody"), b"done"), _SOON_S))

    def _ask(self, message: bytes, patience_s: float) -> tuple[int, bytes] | None:
        """The answer's kind, and the worker that it is for; None if it waits for a job now."""
        for _ in range(2):
            client = self.connected()
            try:
                asked = client.ask(message)
                client.set_timeout(patience_s)
                while True:
                    heard, answer = client.hear()
                    if heard == asked:
                        return answer.op, answer.worker
            except TimeoutError:
                return None
            except OSError:
                self.leave()  # it was hung up on: once more
        return None

    def connect(self) -> MemoDB:
        return MemoDB(self._port)


def submit(ports: Mapping[str, int], queue: str) -> str:
    return faktory.submit(ports, queue)


def worker(port: int, who: str, variant: str) -> Worker:
    return Worker(port, gone=variant == "gone")
