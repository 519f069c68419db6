"""A connection with one command under way at a time, for the proofs about power and disks."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.prove.bodies import as_json
from tests.support.peer import Accepted, Answer, Done, Grant, Granted, Offer, Peer, Wired
from tests.support.protocols import PEERS

PROTOCOLS = tuple(p for p, kind in PEERS.items() if not kind.behaviour.keeps_nothing)
"""Those in which anything is kept on a disk: a MemoDB job lives as long as its client waits."""
QUEUE = "q"
_NAP_S = 0.05
_BEAT_S = 2.0
YES, NO = b"yes", b"no"


class Command(NamedTuple):
    """What was said, and of which job, by the name that is in its body."""

    verb: str
    jobs: tuple[str, ...] = ()


class Dialogue:
    """A connection that waits for each answer before it speaks again.

    So the n-th answer that the server sent to its port belongs to its n-th command. It is a worker's if
    it is given a name.
    """

    def __init__(self, protocol: str, port: int, worker: str = "") -> None:
        self.said: list[Command] = []
        self.names: dict[str, str] = {}
        """What the server called the jobs that were submitted here."""
        self._kind = PEERS[protocol]
        queues = [QUEUE, "default"] if worker else []
        self._who: dict[str, Any] = {"worker": worker, "queues": queues}
        self._client = Wired(self._kind, port, Random(1), **self._who)
        self.local_port = self._client.local_port
        self._actions: list[Callable[[Peer], None]] = []
        self._grants: dict[str, Grant] = {}
        self._is_taking = False
        self._beat_at = time.monotonic() + _BEAT_S

    # -- what is said ------------------------------------------------------------------------

    def push(self, names: Sequence[str]) -> None:
        """Submit a job for each name, all at once where the protocol can; `ValueError` if it is refused."""
        retry = self._kind.behaviour.retry
        offers = [Offer(name, QUEUE, as_json([name, "x" * 50]), retry=retry) for name in names]
        self.said += [Command("push", (name,)) for name in names]
        self._act(lambda peer: (peer.submit_batch if offers[1:] else peer.submit)(*offers))
        while not self.names.keys() >= set(names):
            for answer in self._client.hear():
                if not isinstance(answer, Accepted):
                    raise ValueError(answer)
                self.names[answer.offer.jid] = answer.name

    def take(self) -> str | None:
        """A job to run, by the name in its body; None if there is none now."""
        if time.monotonic() > self._beat_at and self._kind.behaviour.beat_ms:
            self._beat_at = time.monotonic() + _BEAT_S
            self._act(Peer.beat)
        if not self._is_taking:
            self.said.append(Command("fetch"))
            self._act(lambda peer: peer.take())
            self._is_taking = True
        try:
            answers = self._client.hear(_NAP_S)
        except TimeoutError:
            return None
        for answer in answers:
            self._is_taking = False
            if isinstance(answer, Granted):
                name: str = json.loads(answer.grant.body)[0]
                self._grants[name] = answer.grant
                self.said[-1] = Command("fetch", (name,))
                return name
        return None

    def report(self, name: str, word: str = "ack") -> None:
        """It is done, or it failed. What follows then is the job's own affair: for some it is the end."""
        verb = word if self._kind.behaviour.reports_promise else "ack"
        self.said.append(Command(verb, (name,)))
        grant = self._grants[name]
        self._act(lambda peer: peer.report(grant, word))
        while not (heard := self._client.hear()):
            pass
        if heard != [Done(grant)]:
            raise ValueError(heard)

    def _act(self, action: Callable[[Peer], None]) -> None:
        self._actions.append(action)
        action(self._client.peer)

    def close(self) -> None:
        self._client.close()

    # -- what was heard, from a trace ----------------------------------------------------------

    def replay(self) -> Callable[[bytearray], Iterator[bytes]]:
        """A function that takes off what was sent to this peer, and says of each whole answer whether it promises.

        It is a peer that does all the same again, and so hears all the same.
        """
        peer = self._kind(lambda data: None, Random(1), **self._who)
        peer.open()
        actions = list(self._actions)

        def take_answers(buffer: bytearray) -> Iterator[bytes]:
            while peer.is_open and actions:
                actions.pop(0)(peer)
            for answer in peer.hear(bytes(buffer)):
                yield YES if self._promises(answer) else NO
            buffer.clear()

        return take_answers

    def _promises(self, answer: Answer) -> bool:
        if isinstance(answer, Done):
            return answer.out == "ok" and self._kind.behaviour.reports_promise
        return isinstance(answer, Accepted | Granted)
