"""T6: who may settle a job, and that a word that comes too late changes nothing.

Jobs are taken by worker A, their leases run out (the server's clock is moved, see `hands.py`), and worker
B takes them; at each stage A, B, a third worker and a client without a name say that it is done or failed.
What the server knows of the job is compared before and after each word. What each protocol's words are and
what must come of them is in `fences/`. All of it again with the server killed in between.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.prove import fences
from tests.prove.fences import Script, Word, Worker
from tests.prove.hands import TWEAK, Hands
from tests.prove.looking import show
from tests.prove.options import Options
from tests.prove.peers import PROTOCOLS
from tests.support.faktory import Faktory, job
from tests.support.server import Server

NAME = "fence"
STIR_S = 1.0
MUTANTS: tuple[str, ...] = (
    "no-fence", "no-fence-gearman", "no-fence-periodic", "no-fence-memodb", "no-fence-eventmq",
)  # fmt: skip


@dataclass
class Tally:
    """What came of all words."""

    words: int = 0
    stale_effects: int = 0
    double_completion: int = 0
    unheeded: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.stale_effects or self.double_completion or self.unheeded)


@dataclass(frozen=True)
class Part:
    """One job: its script, who plays it, and what the server calls it."""

    script: Script
    variant: str
    name: str


class Play:
    """All scripts of one protocol."""

    def __init__(
        self, protocol: str, server: Server, tally: Tally, copies: int, *, killing: bool
    ) -> None:
        self.server = server
        self.tally = tally
        self.cast = fences.of(protocol)
        # One that has all words, and whose jobs these are not.
        self.other = "gearman" if protocol in ("faktory", "memodb") else "faktory"
        self.port = server.ports[protocol]
        self.workers: dict[tuple[str, str], Worker] = {}
        self.completions: Counter[str] = Counter()
        self.parts: dict[str, Part] = {}  # by its queue
        for number, script in enumerate(self.cast.SCRIPTS):
            if killing and not script.killed:
                continue
            for copy in range(copies):
                for variant in [script.only] if script.only else self.cast.VARIANTS:
                    queue = f"{protocol}-{number:02}-{copy:02}-{variant}"
                    name = self.cast.submit(server.ports, queue)
                    self.parts[queue] = Part(script, variant, name)

    def take(self, who: str, stir: Callable[[], None]) -> None:
        """A takes every job, B those that are to be taken again; a stale word may have ended one."""
        for queue, part in self.parts.items():
            stir()
            if (who == "a" or part.script.taken) and not self.completions[part.name]:
                given = self._worker(who, part.variant).take(queue)
                self.tally.unheeded += not given
                if not given:
                    self.tally.examples.append(f"{part.script.name}: {who} found no job")

    def say(self, stage: str, stir: Callable[[], None]) -> None:
        for part in self.parts.values():
            for word in getattr(part.script, stage):
                stir()
                self._say_word(part, stage, word)

    def stir(self) -> None:
        for worker in self.workers.values():
            worker.stir()

    def beat(self) -> None:
        for worker in self.workers.values():
            worker.beat()

    def leave(self) -> None:
        for worker in self.workers.values():
            worker.leave()
        self.tally.double_completion += sum(n > 1 for n in self.completions.values())

    def _worker(self, who: str, variant: str) -> Worker:
        if (who, variant) not in self.workers:
            if who == "x":
                speaks = fences.of(self.other)
                made = speaks.worker(self.server.ports[self.other], who, speaks.VARIANTS[0])
            else:
                made = self.cast.worker(self.port, who, variant)
            self.workers[who, variant] = made
        return self.workers[who, variant]

    def _say_word(self, part: Part, stage: str, word: Word) -> None:
        who, verb, wanted = word
        before = show(self.server, part.name)
        heard = self._worker(who, part.variant).say(verb, part.name)
        self._settle()
        after = show(self.server, part.name)
        effect = _effect(before, after)
        self.completions[part.name] += effect == "done"
        tally = self.tally
        if effect != wanted:
            tally.stale_effects += wanted == "nothing"
            tally.unheeded += wanted != "nothing"
            scene = f"{part.name} {part.variant}: {part.script.name}, {stage}"
            tally.examples.append(f"{scene}: {who} said {verb}, heard {heard}: {effect}")

    def _settle(self) -> None:
        """Until what was done is in the store, where operators look: a promise that came later is."""
        self.tally.words += 1
        with Faktory(self.server.port) as client:
            client.hello().push(job(f"settled-{self.tally.words:06}", queue="settled"))


def _effect(before: dict[str, Any], after: dict[str, Any]) -> str:
    if before == after:
        return "nothing"
    return "done" if after["state"] == "done" else "failed"


def _play(server: Server, hands: Hands, plays: list[Play], *, killing: bool) -> None:
    """All protocols side by side, so that they share the passing of time."""

    def wait(seconds: int) -> None:
        for passed in range(0, seconds, fences.BEAT_S):
            hands.pass_time(min(seconds - passed, fences.BEAT_S))
            for play in plays:
                play.beat()

    stirred = 0.0

    def stir() -> None:
        """Keep all from being taken for gone while others have their turns, which take their time."""
        nonlocal stirred
        if time.monotonic() - stirred > STIR_S:
            for play in plays:
                play.stir()
            stirred = time.monotonic()

    def take(who: str) -> None:
        for play in plays:
            play.take(who, stir)

    def say(stage: str) -> None:
        for play in plays:
            play.say(stage, stir)

    take("a")
    say("held")
    wait(fences.LEASE_S + 2)
    say("expired")
    if killing:
        server.restart()
    wait(fences.RETRY_S)
    say("ready")
    take("b")
    if killing:
        server.restart()
        for play in plays:
            if not play.cast.LASTING:
                play.take("b", stir)
    say("taken")
    wait(fences.LEASE_S + 2)
    say("expired_again")
    for play in plays:
        play.leave()


def run(options: Options) -> bool:
    copies = options.number("copies", 4, short=1)
    began = time.monotonic()
    tally = Tally()
    protocols = PROTOCOLS
    scenes: tuple[tuple[str, bool], ...] = (("alive", False), ("killed", True))
    if options.mutant:
        # One protocol's fence is gone: the others have nothing to show, nor has another scene.
        protocols = tuple(p for p in PROTOCOLS if options.mutant.endswith(p)) or PROTOCOLS[:1]
        scenes = scenes[:1]
    with tempfile.TemporaryDirectory(prefix="franca-fence-") as scratch:
        for name, killing in scenes:
            home = Path(scratch) / name
            home.mkdir()
            hands = Hands(home / "hands")
            prefix = options.variant(TWEAK)
            with Server(
                home / "data", env=hands.environment, argv_prefix=prefix, speaks=PROTOCOLS
            ) as server:
                plays = [
                    Play(protocol, server, tally, copies, killing=killing) for protocol in protocols
                ]
                _play(server, hands, plays, killing=killing)
    print(
        f"T6 {NAME}: words={tally.words} stale_effects={tally.stale_effects}"
        f" double_completion={tally.double_completion} unheeded={tally.unheeded}"
        f" protocols={','.join(protocols)} seconds={time.monotonic() - began:.0f}"
    )
    for example in tally.examples[:10]:
        print(f"  {example}")
    return tally.ok and tally.words > 0
