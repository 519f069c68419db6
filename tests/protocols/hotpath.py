"""What a job costs without sockets and disk: `python -m tests.protocols.hotpath [PROTOCOL ...]`.

A producer and a worker, each on one connection. Each turn of the engine takes the inputs for fifty jobs, as a busy
node's does. Prints the best of several rounds, in microseconds of the processor a job: the machine is noisy, the
minimum is not.
"""

import sys
import time
from collections import defaultdict
from itertools import count
from random import Random

from franca.protocols.conversation import Link
from franca.protocols.conversation import Peer as Address
from tests.protocols.world import AnyWorld
from tests.support.peer import Answer, Granted, Offer, Peer
from tests.support.protocols import PEERS, PROTOCOLS, listeners

JOBS_A_TURN = 50
TURNS_A_ROUND = 200
ROUNDS = 8
BODY = b'["%b"]' % (b"x" * 64)


class HotPath:
    """A server and two peers, and how many seconds each part of a round took.

    The producer `waits` for the end of its jobs where nothing else is done, or if that is asked for.
    """

    def __init__(self, protocol: str, *, waits: bool = False) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._waits = waits or all(way == "wait" for way, _ in PEERS[protocol].behaviour.ways)
        self._protocol = protocol
        self._numbers = count()
        self.world = AnyWorld()
        self.world.serve(listeners(protocol, self.world.broker, Random(1)))
        self.peers: dict[Link, Peer] = {}
        self.producer, self.worker = self._join("producer"), self._join("worker", "bench")
        if self.worker.report_asks:
            self.take()

    def _join(self, role: str, *queues: str) -> Peer:
        kind = PEERS[self._protocol]
        link = self.world.open_link(self._protocol, Address("127.0.0.1:9", local=True))
        # EventMQ's worker would ask for the state of the server behind each report.
        variant = kind.behaviour.variants.get("producer", ("",))[0]
        who = {"worker": role if queues else "", "queues": queues, "variant": variant}
        inputs = self.world.engine.inputs
        peer = kind(lambda data: inputs.append((link, data)), Random(1), **who)  # type: ignore[arg-type]
        self.peers[link] = peer
        peer.open()
        while not peer.is_open or inputs:
            self.turn("open")
        return peer

    def turn(self, part: str) -> list[Answer]:
        """Let the engine act on all that was said; what it answers."""
        engine = self.world.engine
        began = time.process_time()
        engine.turn(self.world.now)
        while engine.has_input():
            engine.turn(self.world.now)
        self.seconds[part] += time.process_time() - began
        answers: list[Answer] = []
        for speaker in list(engine.with_output):
            answers += self.peers[speaker].hear(b"".join(speaker.out))
            speaker.forget_said()
        engine.with_output.clear()
        return answers

    def take(self) -> list[Answer]:
        for _ in range(JOBS_A_TURN):
            self.worker.take()
        return self.turn("take")

    def submit(self, number: int) -> None:
        retry = self.producer.behaviour.retry
        offer = Offer(f"load{number:012}", "bench", BODY, waits=self._waits, retry=retry)
        self.producer.submit(offer)

    def play(self) -> None:
        """Fifty jobs, from the submit to the report."""
        self.world.now += 1
        for _ in range(JOBS_A_TURN):
            self.submit(next(self._numbers))
        answers = self.turn("submit")
        if not self.worker.report_asks:
            answers += self.take()
        grants = [answer.grant for answer in answers if isinstance(answer, Granted)]
        assert len(grants) == JOBS_A_TURN
        for grant in grants:
            self.worker.report(grant, "ack", b"y" * 32)
        self.turn("report")
        began = time.process_time()
        self.world.broker.drain()
        self.seconds["drain"] += time.process_time() - began


def measure(protocol: str, *, waits: bool) -> None:
    path = HotPath(protocol, waits=waits)
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        path.seconds = defaultdict(float)
        for _ in range(TURNS_A_ROUND):
            path.play()
        best = min(best or path.seconds, path.seconds, key=lambda parts: sum(parts.values()))
    jobs = TURNS_A_ROUND * JOBS_A_TURN
    parts = " ".join(f"{part}={seconds / jobs * 1e6:.2f}" for part, seconds in best.items())
    name = f"{protocol}{' (waited for)' * waits}"
    print(f"hot path, {name}, us/job: {parts} total={sum(best.values()) / jobs * 1e6:.2f}")


if __name__ == "__main__":
    for protocol in sys.argv[1:] or PROTOCOLS:
        for waits in {way == "wait" for way, _ in PEERS[protocol].behaviour.ways}:
            measure(protocol, waits=waits)
