"""T6: who may settle a job, and that a word that comes too late changes nothing.

Jobs are taken by worker A, their leases run out (the server's clock is moved, see `wall_clock.py`), and worker
B takes them; at each stage A, B, a third worker and a client without a name say that it is done or failed.
What the server knows of the job is compared before and after each word. What each protocol's words are and
what must come of them is in `fences/`. All of it again with the server killed in between.

A script is the words that are said about one job at each stage of its life, each with what must come of it. The text
of a protocol begins with the `variants` of its workers, each of which plays every script (one that is `gone` is cut off
while it has the job); whether its leases outlive the server; and in which protocol its jobs are submitted, with
how many seconds they may run. Each script is a name and, below it, a line per stage: `held` (A has the job),
`expired` (A's lease is over), `ready` (and anybody may take it), `taken` (B has it), `expired_again` (B's lease is over too).
A word is who says it, what is said, and what must come of it, which is nothing if it is left out. `only` names the one
variant for which a script is; `alive: yes` leaves it out where the server is killed in between.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.prove.harness import Options, Result, Tally
from tests.prove.observe import show
from tests.prove.tables import records
from tests.prove.wall_clock import TWEAK, WallClock
from tests.support.faktory import Faktory, job
from tests.support.peer import Accepted, Answer, Done, Grant, Granted, Nothing, Offer, Peer, Wired
from tests.support.protocols import PEERS, PROTOCOLS
from tests.support.server import Server

_STIR_S = 1.0
_LEASE_S = 60
_BEAT_S = 25
"""How often those who beat do: Faktory hangs up on a worker that is silent for a minute."""
_RETRY_S = 15 + 2 * 30 + 16
"""The longest wait after a second failure, which is Faktory's."""

_NAMELESS = "nameless"
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
def _cast_of(protocol: str) -> Cast:
    path = Path(__file__).with_name("fences") / f"{protocol}.txt"
    head, *scripts = records(path)
    variants, lasting, submits = (line.partition(": ")[2] for line in head)
    speaks, seconds = submits.split()
    return Cast(
        variants.split(), lasting == "yes", speaks, int(seconds), list(map(_script, scripts))
    )


def _script(record: list[str]) -> Script:
    name, *lines = record
    stages = dict(line.strip().split(": ") for line in lines)
    only, alive = stages.pop("only", ""), stages.pop("alive", "")
    words = {
        stage: [[*word.split(), "nothing"][:3] for word in said.split(", ")]
        for stage, said in stages.items()
    }
    return Script(name, only, alive == "yes", words)


def _submit(protocol: str, ports: Mapping[str, int], queue: str) -> str:
    """A job for this queue alone; the name by which the server knows it."""
    cast = _cast_of(protocol)
    offer = Offer(queue, queue, b"[]", reserve=cast.seconds, retry=9)
    with Wired(PEERS[cast.submits], ports[cast.submits], Random(1), queues=[queue]) as client:
        client.peer.submit(offer)
        answer = _first(client, Accepted)
        assert isinstance(answer, Accepted)
        return answer.name


def _first(client: Wired, *kinds: type[Answer], seconds: float | None = None) -> Answer:
    """The first answer of one of these kinds."""
    while True:
        for answer in client.hear(seconds):
            if isinstance(answer, kinds):
                return answer


class Worker:
    """One party, with one connection at a time. It comes back when it was hung up on.

    `a`, `b` and `c` are workers, `-` is a client without a name, `x` is of another protocol, and `n` has a
    name whoever else has none.
    """

    def __init__(self, protocol: str, port: int, who: str, variant: str) -> None:
        self._kind = PEERS[protocol]
        self._port = port
        self._variant = variant
        is_nameless = who == "-" or (variant == _NAMELESS and who != "n")
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

    def _act(self, do: Callable[[Peer], None], kind: type[Answer], seconds: float) -> Answer | None:
        """Do it, on a new connection if the old one is over; the first answer of that kind."""
        for _ in range(2):
            try:
                if self._client is None:
                    who = {"worker": self._name, "variant": self._variant, "queues": ["nothing"]}
                    self._client = Wired(self._kind, self._port, Random(1), **who)  # type: ignore[arg-type]
                do(self._client.peer)
                return _first(self._client, kind, Nothing, seconds=seconds)
            except TimeoutError:
                return None
            except ConnectionError:
                self.leave()
        return None


class Part(NamedTuple):
    """One job: its script, the kind of its workers, its queue, and what the server calls it."""

    protocol: str
    script: Script
    variant: str
    queue: str
    name: str


class Play:
    """All scripts of all protocols side by side, so that they share the passing of time."""

    def __init__(self, server: Server, wall_clock: WallClock, tally: Tally) -> None:
        self.server = server
        self.wall_clock = wall_clock
        self.tally = tally
        self.parts: list[Part] = []
        self.workers: dict[tuple[str, str, str], Worker] = {}
        self.completions: Counter[str] = Counter()  # by queue
        self.stirred = 0.0

    def submit(self, protocol: str, copies: int, *, killing: bool) -> None:
        """Submit the jobs of a protocol's scripts."""
        cast = _cast_of(protocol)
        for number, script in enumerate(cast.scripts):
            if killing and script.alive:
                continue
            for copy in range(copies):
                for variant in [script.only] if script.only else cast.variants:
                    queue = f"{protocol}-{number:02}-{copy:02}-{variant}"
                    name = _submit(protocol, self.server.ports, queue)
                    self.parts.append(Part(protocol, script, variant, queue, name))

    def play(self, *, killing: bool) -> None:
        self._take("a", self.parts)
        self._say("held")
        self._wait(_LEASE_S + 2)
        self._say("expired")
        if killing:
            self.server.restart()
        self._wait(_RETRY_S)
        self._say("ready")
        self._take("b", self.parts)
        if killing:
            self.server.restart()
            self._take("b", [p for p in self.parts if not _cast_of(p.protocol).lasting])
        self._say("taken")
        self._wait(_LEASE_S + 2)
        self._say("expired_again")
        for worker in self.workers.values():
            worker.leave()
        self.tally["double_completion"] += sum(n > 1 for n in self.completions.values())

    def _take(self, who: str, parts: Iterable[Part]) -> None:
        """A takes every job, B those that are to be taken again; a stale word may have ended one."""
        for part in parts:
            self._stir()
            wanted = who == "a" or "taken" in part.script.words
            wanted = wanted and not self.completions[part.queue]
            if wanted and not self._worker(who, part).take(part.queue):
                self.tally.note("unheeded", f"{part.script.name}: {who} found no job")

    def _say(self, when: str) -> None:
        for part in self.parts:
            for word in part.script.words.get(when, ()):
                self._stir()
                self._say_word(part, when, *word)

    def _say_word(self, part: Part, when: str, who: str, verb: str, wanted: str) -> None:
        before = show(self.server, part.name)
        heard = self._worker(who, part).say(verb, part.name)
        self._settle()
        after = show(self.server, part.name)
        effect = "done" if after["state"] == "done" else "failed"
        effect = "nothing" if before == after else effect
        self.completions[part.queue] += effect == "done"
        if effect != wanted:
            kind = "stale_effects" if wanted == "nothing" else "unheeded"
            scene = f"{part.name} {part.variant}: {part.script.name}, {when}"
            self.tally.note(kind, f"{scene}: {who} said {verb}, heard {heard}: {effect}")

    def _settle(self) -> None:
        """Until what was done is in the store, where operators look: a promise that came later is."""
        self.tally["words"] += 1
        with Faktory(self.server.port) as client:
            client.hello().push(job(f"settled-{self.tally['words']:06}", queue="settled"))

    def _worker(self, who: str, part: Part) -> Worker:
        protocol, variant = part.protocol, part.variant
        if (protocol, who, variant) not in self.workers:
            speaks, kind = protocol, variant
            if who == "x":
                # One that has all words, and whose jobs these are not.
                speaks = "gearman" if protocol in ("faktory", "memodb") else "faktory"
                kind = _cast_of(speaks).variants[0]
            made = Worker(speaks, self.server.ports[speaks], who, kind)
            self.workers[protocol, who, variant] = made
        return self.workers[protocol, who, variant]

    def _stir(self) -> None:
        """Keep all from being taken for gone while others have their turns, which take their time."""
        if time.monotonic() - self.stirred > _STIR_S:
            for worker in self.workers.values():
                worker.stir()
            self.stirred = time.monotonic()

    def _wait(self, seconds: int) -> None:
        for passed in range(0, seconds, _BEAT_S):
            self.wall_clock.pass_time(min(seconds - passed, _BEAT_S))
            for worker in self.workers.values():
                worker.beat()


def run(options: Options) -> Result:
    copies = options.number("copies", 4, short=1)
    tally = Tally("words", "stale_effects", "double_completion", "unheeded")
    protocols = PROTOCOLS
    scenes = {"alive": False, "killed": True}
    if options.mutant:
        # One protocol's fence is gone: the others have nothing to show, nor has another scene.
        protocols = (options.mutant.removeprefix("no-fence-"),)
        scenes = {"alive": False}
    for name, killing in scenes.items():
        wall_clock = WallClock(options.home / f"{name}-clock")
        with options.server(name, TWEAK, env=wall_clock.environment, speaks=PROTOCOLS) as server:
            play = Play(server, wall_clock, tally)
            for protocol in protocols:
                play.submit(protocol, copies, killing=killing)
            play.play(killing=killing)
    held = tally.total() == tally["words"] > 0
    return Result(held, f"{tally} protocols={','.join(protocols)}", tally.examples[:10])
