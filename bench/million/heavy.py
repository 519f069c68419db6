"""B6: the longest pass of the event loop during every command that touches much.

Of the million jobs about half are ready in one queue, a third wait for their time, and the rest is
spread over thousands of queues, dead, or came by Gearman and Periodic. Nothing is paused, nothing
is configured. While a command runs, and a while after its answer, another connection says BEAT.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain

from bench.build import load_generator
from bench.client import Client, Unexpected
from bench.findings import Finding, Setup
from bench.measure import Load, beside
from bench.million.fill import Part, fill
from bench.passes import Passes
from bench.servers import Server, running, start_all
from franca.control.client import call
from tests.support.eventmq import EventMQ
from tests.support.faktory import Faktory
from tests.support.gearman import Gearman, Type, request
from tests.support.periodic import Periodic, packed

PASS_MAX_MS = 100.0
RSS_MAX_MB = 400.0
BEATS_PER_S = 200.0
BEFORE_S = 0.3  # of beats alone
AFTERWARDS_S = 1.0  # an answer may come before all of the work is done
PATIENCE_S = 300.0
MONTH_S = 30 * 24 * 3600.0
DEAD_MAX = 100_000  # limits.dead_jobs
PIPELINED = 500
BY_JIDS = 4_000

Act = Callable[[], object]
Step = tuple[str, Act]


class Heavy:
    """A server with a million jobs, and connections of all kinds to it."""

    def __init__(self, server: Server, setup: Setup) -> None:
        self.server = server
        self.setup = setup
        at = time.time() + MONTH_S
        size = setup.sized
        queues = size(10_000)
        self.bulk = Part("bulk", size(440_000), lambda _: "bulk")
        self.spread = Part("spread", size(100_000), lambda number: f"spread{number % queues:05}")
        self.later = Part(
            "later",
            size(350_000),
            lambda _: "later",
            lambda n: ("report", "mail")[n % 2],
            lambda _: at,
        )
        self.doomed = Part(
            "doomed", size(90_000), lambda _: "doomed", lambda _: "doomed", lambda _: at
        )
        self.flaky = Part("flaky", size(5_000), lambda _: "flaky")
        self.again = Part("again", size(500_000), lambda _: "bulk")
        self.faktory = Faktory(server.port, timeout=PATIENCE_S).hello()

    # -- what is done ------------------------------------------------------------------------

    def filling(self) -> Iterator[Step]:
        """What the other commands begin with."""
        yield "fill", lambda: fill(self.server, self.bulk, self.spread, self.later, self.doomed)
        yield "gearman-submit-bg", self._submit_background
        yield "periodic-load", self._load

    def looking(self) -> Iterator[Step]:
        """Whatever lists, searches or copies."""
        yield "faktory-info", self.faktory.info
        for line in ("status", "prioritystatus", "show jobs", "show unique jobs", "jobs"):
            yield f"gearman-{line.replace(' ', '-')}", partial(self._by_gearman, line)
        yield "periodic-status", lambda: self._by_periodic(Periodic.status)
        yield "periodic-dump", lambda: self._by_periodic(Periodic.dump)
        yield "eventmq-status", self._eventmq_status
        yield "franca-queues-ls", lambda: self._control("queues.list")
        searches: dict[str, dict[str, object]] = {
            "newest": {"newest_first": True},
            "waiting": {"states": ["waiting"]},
            "queue": {"queue": "bulk", "newest_first": True},
            "type": {"type": "mail"},
            "unknown-type": {"type": "none of this type"},
            "unknown-name": {"name": "none of this name"},
            "ready-name": {"name": self.bulk.jid(self.bulk.count // 2)},
        }
        for name, search in searches.items():
            params = {"limit": 1_000, **search}
            yield f"franca-jobs-ls-{name}", partial(self._control, "jobs.find", params)
        job = {"job": self.bulk.jid(self.bulk.count - 1)}
        yield "franca-jobs-show", lambda: self._control("jobs.show", job)
        copy = {"path": str(self.setup.directory / "backup")}
        yield "franca-backup", lambda: self._control("server.backup", copy)

    def mutating(self) -> Iterator[Step]:
        """Whatever changes many jobs."""
        count = self.setup.sized(BY_JIDS)
        self._make_retries()
        yield "mutate-kill-retries-jids", self._mutation("kill", "retries", self.flaky.jids(count))
        jids = self.later.jids(count)
        yield "mutate-requeue-scheduled-jids", self._mutation("requeue", "scheduled", jids)
        yield "mutate-kill-scheduled-type", self._mutation("kill", "scheduled", jobtype="doomed")
        jids = self.doomed.jids(count)
        yield "mutate-discard-dead-jids", self._mutation("discard", "dead", jids)
        pattern = "*nobody says this*"
        yield "mutate-discard-dead-pattern", self._mutation("discard", "dead", regexp=pattern)
        yield "mutate-kill-scheduled-half", self._mutation("kill", "scheduled", jobtype="report")
        yield "prune-dead", self._await_pruned
        yield "mutate-requeue-dead-type", self._mutation("requeue", "dead", jobtype="report")
        yield "franca-jobs-delete", lambda: self._control("jobs.delete", {"states": ["dead"]})

    def removing(self) -> Iterator[Step]:
        """Whatever ends many jobs, in an order in which each meets a large store."""
        large = Part("large", self.setup.sized(20_000), lambda _: "large")
        yield "faktory-pushb-20000", lambda: self._push(large)
        yield "faktory-fetch-ack", lambda: self._run(self.bulk, self.setup.sized(50_000))
        yield "franca-jobs-cancel", lambda: self._control("jobs.cancel", {"type": "report"})
        yield "periodic-drop-func", lambda: self._by_periodic(lambda peer: peer.drop("later"))
        yield "faktory-queue-remove", lambda: self.faktory.queue("REMOVE", ["bulk"])
        yield "fill-again", lambda: fill(self.server, self.again)
        yield "faktory-flush", lambda: self.faktory.command("FLUSH")

    # -- how ---------------------------------------------------------------------------------

    def _control(self, op: str, params: object = None) -> bytes:
        return call(str(self.server.data), op, params, timeout_s=PATIENCE_S)

    # Connections are made anew: the server hangs up on some that said nothing for minutes.

    def _by_gearman(self, line: str) -> None:
        with Gearman(self.server.ports["gearman"], timeout=PATIENCE_S) as peer:
            peer.lines(line)

    def _by_periodic(self, act: Callable[[Periodic], object]) -> None:
        with Periodic(self.server.ports["periodic"], timeout=PATIENCE_S) as peer:
            act(peer)

    def _eventmq_status(self) -> None:
        with EventMQ(self.server.ports["eventmq"], timeout=PATIENCE_S) as peer:
            peer.ask("STATUS")

    def _mutation(self, change: str, target: str, jids: list[str] | None = None, **by: str) -> Act:
        said = {"cmd": change, "target": target, "filter": {"jids": jids} if jids else by}
        return lambda: self.faktory.call(f"MUTATE {json.dumps(said)}").checked()

    def _submit_background(self) -> None:
        count = self.setup.sized(10_000)
        pieces = [
            request(Type.SUBMIT_JOB_BG, b"background", b"unique%d" % number, b"x" * 64)
            for number in range(count)
        ]
        with Gearman(self.server.ports["gearman"], timeout=PATIENCE_S) as peer:
            for first in range(0, count, PIPELINED):
                portion = pieces[first : first + PIPELINED]
                peer.send_bytes(b"".join(portion))
                for _ in portion:
                    peer.read().checked(Type.JOB_CREATED)

    def _load(self) -> None:
        count = self.setup.sized(10_000)
        jobs = [packed("loaded", f"job{n}", b"x" * 64) for n in range(count)]
        self._by_periodic(lambda peer: peer.load(jobs))

    def _push(self, part: Part) -> None:
        with Client(self.server.port) as client:
            for command in part.commands(batch=part.count):
                client.send(command)
                client.expect(b"$2")
                client.expect(b"{}")

    def _make_retries(self) -> None:
        """Fail jobs once; the first try of a job after that is a quarter of a minute away."""
        fill(self.server, self.flaky)
        self._run(self.flaky, self.flaky.count, b'FAIL {"jid":"%s","message":"no","errtype":"No"}')

    def _run(self, part: Part, count: int, report: bytes = b'ACK {"jid":"%s"}') -> None:
        """Fetch so many jobs of a part, each reported as it is said."""
        queue = part.queue(0).encode()
        left = count
        with Faktory(self.server.port, timeout=PATIENCE_S) as worker:
            worker.hello("heavy")
            while left:
                portion = min(left, PIPELINED)
                worker.say(*[b"FETCH " + queue] * portion)
                jobs = [worker.read().checked().body for _ in range(portion)]
                jids = [json.loads(job)["jid"].encode() for job in jobs if job]
                if len(jids) < portion:
                    raise Unexpected(f"{portion - len(jids)} jobs of {queue!r} did not come")
                worker.say(*[report % jid for jid in jids])
                for _ in jids:
                    worker.read().checked()
                left -= portion

    def _await_pruned(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.faktory.info()["faktory"]["sets"]["dead"] > DEAD_MAX:
            if time.monotonic() > deadline:
                raise Unexpected(f"more than {DEAD_MAX} jobs are dead after {PATIENCE_S} s")
            time.sleep(1)


def looking(setup: Setup) -> Iterator[Finding]:
    """Commands that only read."""
    return _played("looking", Heavy.looking, setup)


def mutating(setup: Setup) -> Iterator[Finding]:
    """Commands that change jobs."""
    return _played("mutating", Heavy.mutating, setup)


def removing(setup: Setup) -> Iterator[Finding]:
    """Commands that end jobs."""
    return _played("removing", Heavy.removing, setup)


def _played(name: str, steps: Callable[[Heavy], Iterator[Step]], setup: Setup) -> Iterator[Finding]:
    """Fill a server, then let it do one thing after the other."""
    with ExitStack() as stack:
        passes = stack.enter_context(Passes(setup.directory / "passes"))
        started = start_all(setup.directory / "data", extra=passes.environment)
        server = stack.enter_context(running(started))
        scene = Heavy(server, setup)
        for step, act in chain(scene.filling(), steps(scene)):
            yield _watched(step, act, server, passes)
        yield Finding(name, "rss_max_mb", server.rss_max_mb(), RSS_MAX_MB)


def _watched(step: str, act: Act, server: Server, passes: Passes) -> Finding:
    beats = Load(load_generator(), "faktory-beat", 1, 0, 0.0, warm_up=0.0, patience=PATIENCE_S)
    # Not one after the other: a stall then counts for every beat that fell into it.
    beats = replace(beats, rate=BEATS_PER_S, depth=1_000)
    passes.reset()
    with beside(server, beats) as runs:
        time.sleep(BEFORE_S)
        began = time.monotonic()
        try:
            act()
        except (OSError, RuntimeError, ValueError, Unexpected) as error:
            # The next command may well be served: one that was not is a finding of its own.
            return Finding(step, "failed", 1, 0, more=f"{type(error).__name__}: {error}")
        took_s = time.monotonic() - began
        time.sleep(AFTERWARDS_S)
    more = (
        f"pass_wall_ms={passes.wall_max_ms:.1f} beat_p99_ms={runs[0].submit_p99_ms:.1f}"
        f" beat_max_ms={runs[0].submit_max_ms:.1f} took_s={took_s:.2f}"
    )
    return Finding(step, "pass_cpu_ms", passes.cpu_max_ms, PASS_MAX_MS, more=more)
