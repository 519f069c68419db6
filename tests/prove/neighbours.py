"""Whatever hostile peers do, their neighbours work on as if they were alone.

For ten minutes hostile peers of all protocols (`crowd.py`) bother a server while checked producers and consumers of all
protocols (`load.py`) submit and run jobs in a queue of their own; their history is held against every promise. Before
that, two scenes: an exception in one conversation's event handler ends that connection only, and one inside the broker
ends the process with a word.
"""

import threading
import time
from collections import Counter
from contextlib import suppress

from franca.control.client import CannotConnect, Declined, TimedOut
from tests.prove.crowd import HOARD, Crowd, Figures, Order
from tests.prove.events import Rules
from tests.prove.harness import Options, Result, running, until
from tests.prove.history import Verdict, check
from tests.prove.load import Load, Plan
from tests.prove.observe import ask, live_jobs
from tests.support.faktory import Faktory, FaktoryError, job
from tests.support.protocols import PROTOCOLS
from tests.support.server import ServerFailed

QUEUE = "prove"
_UNANSWERED = (CannotConnect, Declined, TimedOut)
_FULL_S = 600
_SENT_MIN = 200_000  # of each protocol, in the full time
_CHECKED_MIN = 20_000
_PAST_MIN = 1 / 3
_RSS_MAX_MB = 400
_PACE = 600.0  # hostile messages in a second, of each protocol
_CHECKED_PACE = 18.0  # jobs in a second, of each producer
_HOARD, _HOARD_SHORT = 200, 110  # jobs of 4 MiB: more than may be in memory
_WAIT_MAX_S = 5.0
_RULES = Rules(slack=2 * _WAIT_MAX_S, volatile_overtakes=True)
"""Large jobs of others may fill the room for windows: then checked ones come from the store too."""
_DRAIN_S = 60.0
_ENOUGH = 5
_EXIT_INTERNAL = 70
_PATIENCE_S = 10.0


class Trial:
    """A server, hostile peers and checked ones, and what was seen of them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.server = options.server(speaks=PROTOCOLS, env={"FRANCA_REMOTE_SHUTDOWN": "never"})
        plan = Plan(
            self.server.ports, options.seed, queue=QUEUE, backlog_max=300, calm=True,
            pace=_CHECKED_PACE, timeout_s=_WAIT_MAX_S, spare_queue="",
        )  # fmt: skip
        self.load = Load(plan)
        self.crowd = Figures({}, {}, [])
        self.verdict = Verdict()
        self.hurt: list[str] = []
        self.hangs: list[str] = []
        self.unhandled = self.rss_max_mb = 0
        self.drained = False

    def bother(self, seconds: int) -> None:
        """Let both sides at the server for so long, and note what was seen."""
        load, options = self.load, self.options
        hoard = options.number("hoard", _HOARD, short=_HOARD_SHORT)
        order = Order(self.server.ports, options.seed, _PACE, hoard)
        with self.server:
            load.start(self._wait_for_workers)
            with running(self._clean), Crowd(order) as crowd:
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline and self.server.running:
                    if self._seen() >= _ENOUGH:
                        break
                    # Of those who join a job that is there already, nobody can tell how many
                    # jobs they made.
                    left = self._left()
                    load.measured = load.measured if left is None else left
                    time.sleep(0.5)
                self.crowd = crowd.figures()
            load.draining.set()
            # What hostile peers hold is nobody's business.
            may_drain = not (self._seen() and options.mutant)
            self.drained = may_drain and until(lambda: self._left() == 0, _DRAIN_S, 0.1)
            self._look_at_the_server()
            self.hurt += self._noticed()
            self.hangs += self._late()
            if not self.drained:
                self.server.kill9()  # or those who wait would wait for long
            load.stop()
        self.verdict = check(load.events, drained=self.drained, rules=_RULES)
        refused = [e for e in load.events if e.op == "push" and e.out == "no" and not e.waits]
        self.hurt += [f"{event.conn}: {event.jid} was refused" for event in refused]
        self.hurt += [s for s in self.verdict.examples if not s.startswith(("lost", "mangled"))]

    def _wait_for_workers(self) -> None:
        """EventMQ knows a queue once somebody serves it."""

        def are_there() -> bool:
            found = [worker["protocol"] for worker in ask(self.server, "workers.list")["workers"]]
            return found.count("eventmq") >= self.load.plan.consumers

        if not until(are_there, _PATIENCE_S):
            raise RuntimeError("the workers do not turn up")

    def _clean(self, stop: threading.Event) -> None:
        """Take away the jobs that hostile peers leave, as the operator of such a server would."""
        while not stop.wait(0.5) and self.server.running:
            with suppress(OSError, FaktoryError, *_UNANSWERED):
                found = ask(self.server, "queues.list", timeout_s=_WAIT_MAX_S)["queues"]
                for name in (queue["queue"] for queue in found):
                    if name not in (QUEUE, HOARD):
                        with suppress(Declined):  # it is gone
                            ask(self.server, "queues.purge", timeout_s=_WAIT_MAX_S, queues=[name])
                with Faktory(self.server.port).hello() as client:
                    client.call('MUTATE {"cmd":"clear","target":"scheduled"}')

    def _left(self) -> int | None:
        """How many checked jobs there are; None if that is not answered."""
        with suppress(*_UNANSWERED):
            return live_jobs(self.server, QUEUE, timeout_s=_WAIT_MAX_S)
        return None

    def _look_at_the_server(self) -> None:
        """What the server says of itself, if it still does."""
        if not self.server.running:
            self.hurt.append(f"the server ended: {self.server.log_tail()[-600:]}")
            return
        self.rss_max_mb = self.server.rss_kib("VmHWM") // 1024
        self.hurt += [line for line in self.server.log_lines() if "peer-failed" in line][:3]
        try:
            self.unhandled = ask(self.server, "server.status", timeout_s=_WAIT_MAX_S)["unhandled"]
        except _UNANSWERED as error:
            self.hurt.append(f"the operator heard {error!r}")

    def _seen(self) -> int:
        return len(self._noticed()) + len(self._late())

    def _noticed(self) -> list[str]:
        """What neighbours noticed, beside what their history will tell."""
        broken = [(actor.name, error) for actor in self.load.actors for error in actor.broken]
        errors = [(name, error) for name, error in broken if not isinstance(error, TimeoutError)]
        return self.load.complaints + [f"{name}: {error!r}" for name, error in errors]

    def _late(self) -> list[str]:
        """Those who waited too long for an answer that should come at once, more than one time.

        A machine that stood still once is not the server's doing; a server that hangs hangs twice.
        """
        actors = self.load.actors
        late = [(a.name, sum(isinstance(e, TimeoutError) for e in a.broken)) for a in actors]
        return [f"{name} waited {_WAIT_MAX_S} s, {n} times" for name, n in late if n > 1]

    def wanting(self, share: float) -> list[str]:
        """The protocols of which there was too little, for a run of this share of the full time.

        A short one shows that the proof works, on machines that are busy too.
        """
        share = 1.0 if share >= 1 else share / 10
        return [
            f"too little of {name}: {sent} hostile messages, {past} past the reader, {checked} jobs"
            for name, sent, past, checked in self.by_protocol()
            if sent < _SENT_MIN * share or past < sent * _PAST_MIN or checked < _CHECKED_MIN * share
        ]

    def by_protocol(self) -> list[tuple[str, int, int, int]]:
        """Hostile messages, those that got past the reader, and checked jobs."""
        sent, past = Counter(self.crowd.sent), Counter(self.crowd.past)
        return [(p, sent[p], past[p], self.verdict.by_protocol[p]) for p in PROTOCOLS]


def run(options: Options) -> Result:
    seconds = options.number("seconds", _FULL_S, short=15)
    scenes = [*_error_in_a_handler(options), *_error_in_the_core(options)]
    trial = Trial(options)
    if not (scenes and options.mutant):
        trial.bother(seconds)
    lost, mangled = (trial.verdict.counts[kind] for kind in ("lost", "mangled"))
    faults = [*scenes, *trial.hurt, *trial.hangs, *trial.wanting(seconds / _FULL_S)]
    held = not (faults or trial.crowd.faults or trial.unhandled) and trial.verdict.ok
    held = held and trial.drained and trial.rss_max_mb < _RSS_MAX_MB
    if not held:
        options.keep_history(trial.load.events)
    details = [
        f"{name}: hostile={sent} past_the_reader={past} checked_jobs={checked}"
        for name, sent, past, checked in trial.by_protocol()
    ]
    return Result(
        held,
        f"neighbours_hurt={len(trial.hurt)} lost={lost} mangled={mangled}"
        f" unhandled={trial.unhandled} hangs={len(trial.hangs)} rss_max_mb={trial.rss_max_mb}"
        f" scenes_wrong={len(scenes)} drained={trial.drained:d}",
        [*details, *faults[:20], *trial.verdict.examples, *trial.crowd.faults],
    )


# -- the scenes ------------------------------------------------------------------------------------


def _error_in_a_handler(options: Options) -> list[str]:
    """A waiting worker's conversation raises when it is told of a job: another worker gets it."""
    found: list[str] = []
    with (
        options.server("handler", "handler-raises", speaks=PROTOCOLS) as server,
        Faktory(server.port) as first,
        Faktory(server.port) as second,
        Faktory(server.port) as producer,
    ):
        for number, worker in enumerate((first, second)):
            worker.hello(wid=f"worker-{number}")
            worker.say("FETCH planted")
            ask(server, "server.status")  # answered behind it: the first stands first in the line
        producer.hello().push(job("planted-job", 7, jobtype="planted", queue="planted"))
        try:
            found.append(f"the link that raised was not ended but heard {first.read()}")
        except ConnectionError:
            pass
        except OSError as error:
            found.append(f"the link that raised was not ended: {error!r}")
        work = second.read()
        if "planted-job" not in work.text:
            found.append(f"the other worker heard {work}")
        if (count := ask(server, "server.status")["unhandled"]) != 1:
            found.append(f"unhandled={count}")
        if not any("peer-failed" in line for line in server.log_lines()):
            found.append("nothing was logged")
    return [f"an error in an event handler: {'; '.join(found)}"] if found else []


def _error_in_the_core(options: Options) -> list[str]:
    """An assertion fails inside the broker: nobody is told yes, and the process ends with a word."""
    with options.server("core", "core-raises") as server:
        with Faktory(server.port) as client, suppress(OSError):
            client.hello()
            client.say('PUSH {"jid":"planted-job","jobtype":"planted","args":[]}')
            return [f"an error in the core was answered {client.read()}"]
        try:
            code = server.wait(_PATIENCE_S)
        except ServerFailed:
            return ["an error in the core did not end the process"]
        if code == _EXIT_INTERNAL and any("internal-error" in x for x in server.log_lines()):
            return []
        return [f"an error in the core ended the process with {code}: {server.log_tail()[-300:]}"]
