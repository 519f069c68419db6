"""T6: who may settle a job, and that a word that comes too late changes nothing.

Jobs are taken by worker A, their leases run out (the server's clock is moved, see `wall_clock.py`), and worker
B takes them; at each stage A, B, a third worker and a client without a name say that it is done or failed.
What the server knows of the job is compared before and after each word. What each protocol's words are and
what must come of them is in `fences/`. All of it again with the server killed in between.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from tests.prove import fences
from tests.prove.fences import Script, Worker
from tests.prove.harness import Options, Result, Tally
from tests.prove.observe import show
from tests.prove.wall_clock import TWEAK, WallClock
from tests.support.faktory import Faktory, job
from tests.support.protocols import PROTOCOLS
from tests.support.server import Server

_STIR_S = 1.0


class Part(NamedTuple):
    """One job: its script, the kind of its workers, and what the server calls it."""

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
        self.protocol = protocol
        self.cast = fences.of(protocol)
        # One that has all words, and whose jobs these are not.
        self.other = "gearman" if protocol in ("faktory", "memodb") else "faktory"
        self.workers: dict[tuple[str, str], Worker] = {}
        self.completions: Counter[str] = Counter()
        self.parts: dict[str, Part] = {}  # by its queue
        for number, script in enumerate(self.cast.scripts):
            if killing and script.alive:
                continue
            for copy in range(copies):
                for variant in [script.only] if script.only else self.cast.variants:
                    queue = f"{protocol}-{number:02}-{copy:02}-{variant}"
                    name = fences.submit(protocol, server.ports, queue)
                    self.parts[queue] = Part(script, variant, name)

    def take(self, who: str, stage: Stage) -> None:
        """A takes every job, B those that are to be taken again; a stale word may have ended one."""
        for queue, part in self.parts.items():
            stage.stir()
            wanted = (who == "a" or "taken" in part.script.words) and not self.completions[
                part.name
            ]
            if wanted and not self._worker(who, part.variant).take(queue):
                self.tally.note("unheeded", f"{part.script.name}: {who} found no job")

    def say(self, when: str, stage: Stage) -> None:
        for part in self.parts.values():
            for word in part.script.words.get(when, ()):
                stage.stir()
                self._say_word(part, when, *word)

    def leave(self) -> None:
        for worker in self.workers.values():
            worker.leave()
        self.tally["double_completion"] += sum(n > 1 for n in self.completions.values())

    def _worker(self, who: str, variant: str) -> Worker:
        if (who, variant) not in self.workers:
            protocol, kind = self.protocol, variant
            if who == "x":
                protocol, kind = self.other, fences.of(self.other).variants[0]
            made = Worker(protocol, self.server.ports[protocol], who, kind)
            self.workers[who, variant] = made
        return self.workers[who, variant]

    def _say_word(self, part: Part, when: str, who: str, verb: str, wanted: str) -> None:
        before = show(self.server, part.name)
        heard = self._worker(who, part.variant).say(verb, part.name)
        self._settle()
        after = show(self.server, part.name)
        effect = "done" if after["state"] == "done" else "failed"
        effect = "nothing" if before == after else effect
        self.completions[part.name] += effect == "done"
        if effect != wanted:
            kind = "stale_effects" if wanted == "nothing" else "unheeded"
            scene = f"{part.name} {part.variant}: {part.script.name}, {when}"
            self.tally.note(kind, f"{scene}: {who} said {verb}, heard {heard}: {effect}")

    def _settle(self) -> None:
        """Until what was done is in the store, where operators look: a promise that came later is."""
        self.tally["words"] += 1
        with Faktory(self.server.port) as client:
            client.hello().push(job(f"settled-{self.tally['words']:06}", queue="settled"))


class Stage:
    """All protocols side by side, so that they share the passing of time."""

    def __init__(self, server: Server, wall_clock: WallClock, plays: list[Play]) -> None:
        self.server = server
        self.wall_clock = wall_clock
        self.plays = plays
        self.stirred = 0.0

    def play(self, *, killing: bool) -> None:
        self._take("a")
        self._say("held")
        self._wait(fences.LEASE_S + 2)
        self._say("expired")
        if killing:
            self.server.restart()
        self._wait(fences.RETRY_S)
        self._say("ready")
        self._take("b")
        if killing:
            self.server.restart()
            for play in self.plays:
                if not play.cast.lasting:
                    play.take("b", self)
        self._say("taken")
        self._wait(fences.LEASE_S + 2)
        self._say("expired_again")
        for play in self.plays:
            play.leave()

    def stir(self) -> None:
        """Keep all from being taken for gone while others have their turns, which take their time."""
        if time.monotonic() - self.stirred > _STIR_S:
            for worker in self._workers():
                worker.stir()
            self.stirred = time.monotonic()

    def _workers(self) -> list[Worker]:
        return [worker for play in self.plays for worker in play.workers.values()]

    def _take(self, who: str) -> None:
        for play in self.plays:
            play.take(who, self)

    def _say(self, when: str) -> None:
        for play in self.plays:
            play.say(when, self)

    def _wait(self, seconds: int) -> None:
        for passed in range(0, seconds, fences.BEAT_S):
            self.wall_clock.pass_time(min(seconds - passed, fences.BEAT_S))
            for worker in self._workers():
                worker.beat()


def run(options: Options) -> Result:
    copies = options.number("copies", 4, short=1)
    tally = Tally("words", "stale_effects", "double_completion", "unheeded")
    protocols = PROTOCOLS
    scenes = {"alive": False, "killed": True}
    if options.mutant:
        # One protocol's fence is gone: the others have nothing to show, nor has another scene.
        protocols = tuple(p for p in PROTOCOLS if options.mutant.endswith(p)) or PROTOCOLS[:1]
        scenes = {"alive": False}
    for name, killing in scenes.items():
        wall_clock = WallClock(options.home / f"{name}-clock")
        env = wall_clock.environment
        with options.server(name, TWEAK, env=env, speaks=PROTOCOLS) as server:
            plays = [Play(p, server, tally, copies, killing=killing) for p in protocols]
            Stage(server, wall_clock, plays).play(killing=killing)
    bad = tally.total() - tally["words"]
    held = not bad and tally["words"] > 0
    return Result(held, f"{tally} protocols={','.join(protocols)}", tally.examples[:10])
