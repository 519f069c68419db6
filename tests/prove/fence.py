"""T6: only the holder of a job can settle it, and a word that comes too late changes nothing.

Jobs are fetched by worker A, their leases run out (the server's clock is moved, see `hands.py`), and worker
B fetches them; at each stage A, B, a third worker and a client without a name say ACK and FAIL. What the
server knows of the job is compared before and after each word. A late ACK of the last holder counts,
once, as long as nobody was given the job since. All of it again with the server killed in between.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.prove.hands import TWEAK, Hands
from tests.prove.looking import show
from tests.prove.options import Options
from tests.support.faktory import Faktory, Reply, ack_line, fail_line, job
from tests.support.server import Server

NAME = "fence"
MUTANTS: tuple[str, ...] = ("no-fence",)

_LEASE_S = 60
_BEAT_S = 25  # a worker that stays silent for a minute is hung up on
_RETRY_S = 15 + 2 * 30 + 16  # the longest wait after a second failure

Word = tuple[str, str, str]  # who says what, and what must come of it


@dataclass(frozen=True)
class Script:
    """The words that are said about one job, at each stage of its life."""

    name: str
    held: tuple[Word, ...] = ()  # A has it
    expired: tuple[Word, ...] = ()  # A's lease is over, the job waits for its next try
    ready: tuple[Word, ...] = ()  # ... and anybody may take it
    taken: tuple[Word, ...] = ()  # B has it
    expired_again: tuple[Word, ...] = ()  # B's lease is over too


A_DONE = ("a", "ack", "done")
B_DONE = ("b", "ack", "done")


def _ignored(*said: str) -> tuple[Word, ...]:
    """`"c ack"`: a word that changes nothing."""
    return tuple((who, verb, "nothing") for who, verb in (words.split() for words in said))


SCRIPTS = (
    Script("a stranger's word", held=(*_ignored("c ack", "c fail"), A_DONE, *_ignored("c ack"))),
    Script("the same word twice", held=(A_DONE, *_ignored("a ack", "a fail"))),
    Script("ACK after FAIL", held=(("a", "fail", "failed"), *_ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it", expired=(A_DONE, *_ignored("a ack", "c ack"))),
    Script("late, and nobody took it yet", ready=(A_DONE, *_ignored("a ack", "a fail"))),
    Script("a stranger after the lease",
        expired=_ignored("c ack", "c fail"), ready=_ignored("c ack"), taken=(B_DONE,)),
    Script("a late FAIL",
        expired=_ignored("a fail"), ready=_ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*_ignored("a ack", "a fail"), B_DONE, *_ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*_ignored("a ack"), ("b", "fail", "failed"), *_ignored("a ack", "b ack"))),
    Script("a client without a name, after two deliveries",
        taken=(*_ignored("- ack", "- fail", "c ack"), B_DONE, *_ignored("- ack"))),
    Script("both are late",
        taken=_ignored("a ack"), expired_again=(*_ignored("a ack", "c ack"), B_DONE, *_ignored("b ack"))),
)  # fmt: skip


class Worker:
    """One `wid`. It comes back when it was hung up on; one that `beats` never is."""

    def __init__(self, port: int, wid: str, *, beats: bool) -> None:
        self.wid = wid
        self.beats = beats
        self._port = port
        self._client: Faktory | None = None

    def say(self, line: str) -> Reply:
        if self._client is not None:
            with suppress(OSError):
                return self._client.call(line)
            self._client.close()
        self._client = Faktory(self._port).hello(wid=self.wid or None)
        return self._client.call(line)

    def beat(self) -> None:
        if self.beats and self.wid:
            self.say(f'BEAT {{"wid":"{self.wid}"}}')

    def leave(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


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


class Play:
    """All scripts at once, so that they share the passing of time."""

    def __init__(self, server: Server, hands: Hands, tally: Tally, copies: int) -> None:
        self.server = server
        self.hands = hands
        self.tally = tally
        self.workers: dict[str, Worker] = {}
        self.completions: Counter[str] = Counter()
        self.jobs = {f"{number:02}-{copy:02}-{beats:d}-fence": (script, beats)
                     for number, script in enumerate(SCRIPTS)
                     for copy in range(copies) for beats in (False, True)}  # fmt: skip

    def run(self, *, killing: bool) -> None:
        with Faktory(self.server.port) as producer:
            producer.hello()
            for jid in self.jobs:
                producer.push(job(jid, queue=jid, reserve_for=_LEASE_S))
        self._fetch("a")
        self._say("held")
        self._pass(_LEASE_S + 2)
        self._say("expired")
        if killing:
            self.server.restart()
        self._pass(_RETRY_S)
        self._say("ready")
        self._fetch("b")
        if killing:
            self.server.restart()
        self._say("taken")
        self._pass(_LEASE_S + 2)
        self._say("expired_again")
        for worker in self.workers.values():
            worker.leave()
        self.tally.double_completion += sum(n > 1 for n in self.completions.values())

    def _fetch(self, who: str) -> None:
        """A takes every job, B those that are to be taken again; a stale word may have ended one."""
        for jid, (script, beats) in self.jobs.items():
            if (who == "a" or script.taken) and not self.completions[jid]:
                reply = self._worker(who, beats).say(f"FETCH {jid}")
                if not reply.body:
                    self.tally.unheeded += 1
                    self.tally.examples.append(f"{script.name}: {who} found no job")

    def _pass(self, seconds: float) -> None:
        """Let time pass; workers that beat do so often enough."""
        while seconds > 0:
            self.hands.pass_time(min(seconds, _BEAT_S))
            seconds -= _BEAT_S
            for worker in self.workers.values():
                worker.beat()

    def _worker(self, who: str, beats: bool) -> Worker:
        name = f"{who}{beats:d}"
        if name not in self.workers:
            wid = "" if who == "-" else f"worker-{name}"
            self.workers[name] = Worker(self.server.port, wid, beats=beats)
        return self.workers[name]

    def _say(self, stage: str) -> None:
        for jid, (script, beats) in self.jobs.items():
            for who, verb, wanted in getattr(script, stage):
                self._say_word(jid, f"{script.name}, {stage}", (who, verb, wanted), beats)

    def _say_word(self, jid: str, scene: str, word: Word, beats: bool) -> None:
        who, verb, wanted = word
        before = show(self.server, jid)
        line = ack_line(jid) if verb == "ack" else fail_line(jid)
        reply = self._worker(who, beats).say(line)
        after = show(self.server, jid)
        effect = _effect(before, after)
        self.completions[jid] += effect == "done"
        tally = self.tally
        tally.words += 1
        if effect != wanted:
            tally.stale_effects += wanted == "nothing"
            tally.unheeded += wanted != "nothing"
            tally.examples.append(f"{scene}: {who} said {verb}, heard {reply}: {effect}")


def _effect(before: dict[str, Any], after: dict[str, Any]) -> str:
    if before == after:
        return "nothing"
    return "done" if after["state"] == "done" else "failed"


def run(options: Options) -> bool:
    copies = options.number("copies", 4, short=1)
    began = time.monotonic()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="franca-fence-") as scratch:
        for name, killing in (("alive", False), ("killed", True)):
            home = Path(scratch) / name
            home.mkdir()
            hands = Hands(home / "hands")
            prefix = options.variant(TWEAK)
            with Server(home / "data", env=hands.environment, argv_prefix=prefix) as server:
                Play(server, hands, tally, copies).run(killing=killing)
    print(
        f"T6 {NAME}: words={tally.words} stale_effects={tally.stale_effects}"
        f" double_completion={tally.double_completion} unheeded={tally.unheeded}"
        f" protocols=faktory seconds={time.monotonic() - began:.0f}"
    )
    for example in tally.examples[:10]:
        print(f"  {example}")
    return tally.ok and tally.words > 0
