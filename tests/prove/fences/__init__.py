"""Who says what about a job that is theirs, was theirs, or never was: one text file per protocol.

A script is the words that are said about one job at each stage of its life, each with what must come of
it. `fence.py` plays all scripts of all protocols.

A file begins with the `variants` of the protocol's workers, each of which plays every script (one that is `gone` is cut
off while it has the job); whether its leases outlive the server; and in which protocol its jobs are submitted, with
how many seconds they may run. Each script is a name and, below it, a line per stage: `held` (A has the job),
`expired` (A's lease is over), `ready` (and anybody may take it), `taken` (B has it), `expired_again` (B's lease is over too).
A word is who says it, what is said, and what must come of it, which is nothing if it is left out. `only` names the one
variant for which a script is; `alive: yes` leaves it out where the server is killed in between.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

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


class Script(NamedTuple):
    """The words that are said about one job, by the stage of its life."""

    name: str
    only: str
    alive: bool
    words: Mapping[str, list[list[str]]]
    """Who says what, and what must come of it."""


class Cast(NamedTuple):
    """What a protocol's file says."""

    variants: list[str]
    lasting: bool
    submits: str
    seconds: int
    scripts: list[Script]


@cache
def of(protocol: str) -> Cast:
    text = Path(__file__).with_name(f"{protocol}.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    head, *records = "\n".join(lines).strip().split("\n\n")
    variants, lasting, submits = (line.partition(": ")[2] for line in head.splitlines())
    speaks, seconds = submits.split()
    return Cast(
        variants.split(), lasting == "yes", speaks, int(seconds), list(map(_script, records))
    )


def _script(record: str) -> Script:
    name, *lines = record.splitlines()
    stages = dict(line.strip().split(": ") for line in lines)
    only, alive = stages.pop("only", ""), stages.pop("alive", "")
    words = {
        stage: [[*word.split(), "nothing"][:3] for word in said.split(", ")]
        for stage, said in stages.items()
    }
    return Script(name, only, alive == "yes", words)


def submit(protocol: str, ports: Mapping[str, int], queue: str) -> str:
    """A job for this queue alone; the name by which the server knows it."""
    cast = of(protocol)
    offer = Offer(queue, queue, b"[]", reserve=cast.seconds, retry=9)
    with Wired(PEERS[cast.submits], ports[cast.submits], Random(1), queues=[queue]) as client:
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
