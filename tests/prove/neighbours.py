"""Whatever hostile peers do, their neighbours work on as if they were alone.

For ten minutes hostile peers of all protocols (`crowd.py`) bother a server while checked producers and consumers of all
protocols (`load.py`) submit and run jobs in a queue of their own; their history is held against every promise. Before
that, two scenes: an exception in one conversation's event handler ends that connection only, and one inside the broker
ends the process with a word.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from franca.control.client import CannotConnect, Declined, TimedOut
from tests.prove.crowd import HOARD, Crowd, Figures, Order
from tests.prove.events import Event, Rules, dump
from tests.prove.history import Verdict, check
from tests.prove.load import Load, Plan
from tests.prove.looking import ask
from tests.prove.options import Options
from tests.prove.peers import PROTOCOLS
from tests.support.faktory import Faktory, FaktoryError, job
from tests.support.scoped import Scoped
from tests.support.server import Server, ServerFailed

NAME = "neighbours"
MUTANTS: tuple[str, ...] = ("drop-inputs", "hang-in-commit", "no-byte-bounds", "blame-the-peer")

QUEUE = "prove"
_UNANSWERED = (CannotConnect, Declined, TimedOut)
_LIVE = ("ready", "leased", "scheduled", "retrying")
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


@dataclass
class Tally:
    """What was seen."""

    verdict: Verdict = field(default_factory=Verdict)
    hurt: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)  # of what is counted elsewhere
    unhandled: int = 0
    rss_max_mb: int = 0
    drained: bool = False
    crowd: Figures = field(default_factory=lambda: Figures({}, {}, 0, []))

    @property
    def lost(self) -> int:
        return self.verdict.counts["lost"]

    @property
    def mangled(self) -> int:
        return self.verdict.counts["mangled"]

    def wants(self, share: float) -> list[str]:
        """What there was too little of, for a run of this share of the full time.

        A short one shows that the proof works, on machines that are busy too.
        """
        found: list[str] = []
        share = 1.0 if share >= 1 else share / 10
        for name in PROTOCOLS:
            sent, past = self.crowd.sent.get(name, 0), self.crowd.past.get(name, 0)
            if sent < _SENT_MIN * share:
                found.append(f"{name}: {sent} hostile messages")
            if past < sent * _PAST_MIN:
                found.append(f"{name}: {past} of {sent} got past the reader")
            if self.verdict.by_protocol[name] < _CHECKED_MIN * share:
                found.append(f"{name}: {self.verdict.by_protocol[name]} checked jobs")
        return found


def run(options: Options) -> bool:
    seconds = options.number("seconds", _FULL_S, short=15)
    began = time.monotonic()
    tally, events = Tally(), []
    with tempfile.TemporaryDirectory(prefix="franca-neighbours-") as scratch:
        scenes = _scenes(Path(scratch), options)
        if not (scenes and options.mutant):
            events = _bother(Path(scratch), options, seconds, tally)
    wanting = tally.wants(seconds / _FULL_S)
    faults = [*scenes, *tally.evidence, *tally.hurt, *tally.hangs, *wanting, *tally.crowd.faults]
    print(
        f"{NAME}: neighbours_hurt={len(tally.hurt)} lost={tally.lost} mangled={tally.mangled}"
        f" unhandled={tally.unhandled} hangs={len(tally.hangs)} rss_max_mb={tally.rss_max_mb}"
        f" scenes_wrong={len(scenes)} drained={tally.drained:d} seconds={time.monotonic() - began:.0f}"
    )
    for name in PROTOCOLS:
        print(
            f"  {name}: hostile={tally.crowd.sent.get(name, 0)} past_the_reader={tally.crowd.past.get(name, 0)}"
            f" checked_jobs={tally.verdict.by_protocol[name]}"
        )
    for fault in faults[:20]:
        print(f"  {fault}")
    held = not (faults or tally.unhandled) and tally.verdict.ok and tally.drained
    if not held and options.keep is not None:
        dump(events, options.keep)
    return held and tally.rss_max_mb < _RSS_MAX_MB


# -- the crowd -----------------------------------------------------------------------------------


def _bother(home: Path, options: Options, seconds: int, tally: Tally) -> list[Event]:
    """Let both sides at a server for so long, and note what was seen; the history."""
    server = Server(
        home / "data", argv_prefix=options.argv_prefix, speaks=PROTOCOLS,
        env={"FRANCA_REMOTE_SHUTDOWN": "never"},
    )  # fmt: skip
    plan = Plan(
        server.ports, options.seed, queue=QUEUE, backlog_max=300, calm=True, pace=_CHECKED_PACE,
        timeout_s=_WAIT_MAX_S, spare_queue="",
    )  # fmt: skip
    load = Load(plan)
    hoard = options.number("hoard", _HOARD, short=_HOARD_SHORT)
    with server:
        _begin(load, server)
        with Crowd(Order(server.ports, options.seed, _PACE, hoard)) as crowd, Janitor(server):
            _let_pass(seconds, server, load)
            tally.crowd = crowd.figures()
        load.draining.set()
        tally.drained = not (_seen(load) and options.mutant) and _is_drained(server)
        _look_at(server, tally)
        tally.hurt += _noticed(load)
        tally.hangs += _hangs(load)
        if not tally.drained:
            server.kill9()  # or those who wait would wait for long
        load.stop()
    events = load.events
    tally.verdict = check(events, drained=tally.drained, rules=_RULES)
    refused = [e for e in events if e.op == "push" and e.out == "no" and not e.waits]
    tally.hurt += [f"{event.conn}: {event.jid} was refused" for event in refused]
    samples = [sample for samples in tally.verdict.samples.values() for sample in samples]
    tally.hurt += [s for s in samples if not s.startswith(("lost", "mangled"))]
    tally.evidence += [s for s in samples if s.startswith(("lost", "mangled"))]
    return events


def _look_at(server: Server, tally: Tally) -> None:
    """What the server says of itself, if it still does."""
    if not server.running:
        tally.hurt.append(f"the server ended: {server.log_tail()[-600:]}")
        return
    tally.rss_max_mb = _peak_mb(server)
    tally.hurt += [line for line in server.log_lines() if "peer-failed" in line][:3]
    try:
        status = ask(server, "server.status", timeout_s=_WAIT_MAX_S)
        tally.unhandled = status["unhandled"]
    except _UNANSWERED as error:
        tally.hurt.append(f"the operator heard {error!r}")


def _begin(load: Load, server: Server) -> None:
    """Workers first: EventMQ knows a queue once somebody serves it."""
    load.hire()
    for actor in load.consumers:
        actor.thread.start()
    deadline = time.monotonic() + _PATIENCE_S
    while _workers(server)["eventmq"] < load.plan.consumers:
        if time.monotonic() > deadline:
            raise RuntimeError("the workers do not turn up")
        time.sleep(0.05)
    for actor in load.producers:
        actor.thread.start()


def _is_drained(server: Server) -> bool:
    """Whether the checked jobs come to an end; what hostile peers hold is nobody's business."""
    deadline = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline:
        with suppress(*_UNANSWERED):
            if not _left(server):
                return True
        time.sleep(0.1)
    return False


def _left(server: Server) -> int:
    """How many checked jobs there are."""
    queues = ask(server, "queues.list", timeout_s=_WAIT_MAX_S)["queues"]
    return sum(q[state] for q in queues if q["queue"] == QUEUE for state in _LIVE)


def _workers(server: Server) -> Counter[str]:
    return Counter(worker["protocol"] for worker in ask(server, "workers.list")["workers"])


def _let_pass(seconds: int, server: Server, load: Load) -> None:
    """Until the time is over, or so much is wrong that no more need be seen."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.running and _seen(load) < _ENOUGH:
        with suppress(*_UNANSWERED):
            # Of those who join a job that is there already, nobody can tell how many jobs they made.
            load.measured = _left(server)
        time.sleep(0.5)


def _seen(load: Load) -> int:
    return len(_noticed(load)) + len(_hangs(load))


def _noticed(load: Load) -> list[str]:
    """What neighbours noticed, beside what their history will tell."""
    found = load.complaints[:]
    for actor in load.actors:
        found += [f"{actor.name}: {e!r}" for e in actor.broken if not isinstance(e, TimeoutError)]
    return found


def _hangs(load: Load) -> list[str]:
    """Those who waited too long for an answer that should come at once, more than one time.

    A machine that stood still once is not the server's doing; a server that hangs hangs twice.
    """
    late = {
        actor.name: sum(isinstance(error, TimeoutError) for error in actor.broken)
        for actor in load.actors
    }
    return [f"{name} waited {_WAIT_MAX_S} s, {n} times" for name, n in late.items() if n > 1]


def _peak_mb(server: Server) -> int:
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    raise ServerFailed("the process has no memory any more")


class Janitor(Scoped):
    """Takes away the jobs that hostile peers leave, as the operator of such a server would."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._clean, daemon=True)
        self._thread.start()

    def _clean(self) -> None:
        while not self._stopping.wait(0.5) and self._server.running:
            with suppress(OSError, FaktoryError, *_UNANSWERED):
                found = ask(self._server, "queues.list", timeout_s=_WAIT_MAX_S)
                self._purge(queue["queue"] for queue in found["queues"])
                with Faktory(self._server.port).hello() as client:
                    client.call('MUTATE {"cmd":"clear","target":"scheduled"}')

    def _purge(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in (QUEUE, HOARD):
                with suppress(Declined):  # it is gone
                    ask(self._server, "queues.purge", timeout_s=_WAIT_MAX_S, queues=[name])

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()


# -- the scenes ------------------------------------------------------------------------------------


def _scenes(home: Path, options: Options) -> list[str]:
    """What was wrong when an error was planted; see `guard_bugs.py`."""
    return [*_error_in_a_handler(home, options), *_error_in_the_core(home, options)]


def _error_in_a_handler(home: Path, options: Options) -> list[str]:
    """A waiting worker's conversation raises when it is told of a job: another worker gets it."""
    prefix = options.variant("handler-raises")
    with (
        Server(home / "handler", argv_prefix=prefix, speaks=PROTOCOLS) as server,
        Faktory(server.port) as first,
        Faktory(server.port) as second,
        Faktory(server.port) as producer,
    ):
        for number, worker in enumerate((first, second)):
            worker.hello(wid=f"worker-{number}")
            worker.send("FETCH planted")
            ask(server, "server.status")  # answered behind it: the first stands first in the line
        producer.hello().push(job("planted-job", 7, jobtype="planted", queue="planted"))
        found = "" if _hung_up_on(first) else "the link that raised was not ended; "
        work = second.read_reply()
        if "planted-job" not in work.text:
            found += f"the other worker heard {work}; "
        if (count := ask(server, "server.status")["unhandled"]) != 1:
            found += f"unhandled={count}; "
        if not any("peer-failed" in line for line in server.log_lines()):
            found += "nothing was logged; "
    return [f"an error in an event handler: {found}"] if found else []


def _hung_up_on(client: Faktory) -> bool:
    try:
        client.read_reply()
    except ConnectionError:
        return True
    except OSError:
        pass
    return False


def _error_in_the_core(home: Path, options: Options) -> list[str]:
    """An assertion fails inside the broker: nobody is told yes, and the process ends with a word."""
    prefix = options.variant("core-raises")
    with Server(home / "core", argv_prefix=prefix) as server:
        with Faktory(server.port) as client, suppress(OSError):
            client.hello()
            client.send('PUSH {"jid":"planted-job","jobtype":"planted","args":[]}')
            return [f"an error in the core was answered {client.read_reply()}"]
        try:
            code = server.wait(_PATIENCE_S)
        except ServerFailed:
            return ["an error in the core did not end the process"]
        if code != _EXIT_INTERNAL or not any("internal-error" in x for x in server.log_lines()):
            return [
                f"an error in the core ended the process with {code}: {server.log_tail()[-300:]}"
            ]
    return []
