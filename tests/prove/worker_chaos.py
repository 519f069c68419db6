"""T11: a worker that is killed in the middle of a job loses it to another, soon, and nobody else notices.

Workers of every protocol, each a process of its own, are killed with SIGKILL while they work, and others are
started in their place, while producers of every protocol go on and some clients wait for results. A job
whose worker was lost must be with another within two seconds, where a lease ends with its connection (in nine of ten
cases: the next one may be killed too, before it was seen to have the job, and have a lease that lasts); every
job is run to its end, none twice without a cause, and whoever waits hears one end.
"""

import time
from collections import defaultdict
from random import Random

from tests.prove.events import Event
from tests.prove.harness import Options, Result, limits
from tests.prove.history import check
from tests.prove.history_index import rules_of
from tests.prove.load import Load, Plan, left_in
from tests.prove.observe import percentile
from tests.prove.worker_process import WorkerProcess, WorkerProcesses
from tests.support.faktory import Faktory
from tests.support.protocols import PROTOCOLS

_SHOWN = ("lost", "unexplained_dup", "mangled", "two_leases", "ran_after_ack", "result")
_VICTIMS = 2  # of each protocol, alive at any time
_PAUSE_S = 0.06
_WORK_S = 0.05
_BACKLOG = 40
_RESERVE_S = 3
_REDELIVERY_MAX_S = 2.0
_DRAIN_S = 30.0


def run(options: Options) -> Result:
    env = limits(lease_ms=_RESERVE_S * 1_000)
    server = options.server("data", "quick-time", speaks=PROTOCOLS, env=env)
    plan = Plan(
        server.ports, options.seed, reserve=_RESERVE_S, producers=2, consumers=1,
        backlog_max=_BACKLOG, work_s=_WORK_S,
    )  # fmt: skip
    load = Load(plan)
    with server, WorkerProcesses(plan, options.home) as processes:
        load.start()
        with Faktory(server.port).hello() as operator:
            kills = options.number("kills", 300, short=80)
            killed = _kill_many(processes, load, kills, options.rng, operator)
        drained = load.drain(_DRAIN_S / 2 if options.short else _DRAIN_S)
        load.stop()
    diaries = [(worker, worker.events()) for worker in killed]
    events = load.events + [event for _, diary in diaries for event in diary]
    verdict = check(events, drained=True)
    waits = _redeliveries(events, diaries)
    p90 = percentile(waits, 0.9) if waits else 0.0
    held = verdict.ok and drained and not load.complaints and p90 <= _REDELIVERY_MAX_S
    if not held:
        options.keep_history(events)
    return Result(
        held and len(waits) > 0,
        f"kills={len(killed)} {verdict.figures(_SHOWN)} redelivered={len(waits)}"
        f" redelivery_p90_s={p90:.2f} complaints={len(load.complaints)} drained={drained:d}",
        [*verdict.examples, *load.complaints[:10]],
    )


def _kill_many(
    processes: WorkerProcesses, load: Load, kills: int, rng: Random, operator: Faktory
) -> list[WorkerProcess]:
    """Start workers and kill them; all of them, dead."""
    alive = [processes.start(protocol) for protocol in PROTOCOLS for _ in range(_VICTIMS)]
    dead: list[WorkerProcess] = []
    while len(dead) < kills - len(alive):
        time.sleep(rng.uniform(0, _PAUSE_S))
        load.measured = left_in(operator.info())
        place = rng.randrange(len(alive))
        alive[place].kill()
        dead.append(alive[place])
        alive[place] = processes.start(alive[place].protocol)
    load.draining.set()
    for worker in alive:
        worker.kill()
    return [*dead, *alive]


Diaries = list[tuple[WorkerProcess, list[Event]]]


def _redeliveries(events: list[Event], diaries: Diaries) -> list[float]:
    """How long each job waited whose worker was killed, where it should not wait at all.

    That is where the worker's lease ends with its connection, and the job has no delay of its own.
    """
    runs: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.op == "fetch" and event.out == "ok":
            runs[event.jid].append(event.t1)
    ends = {(event.jid, event.conn) for event in events if event.op in ("ack", "fail")}
    pushes = [event for event in events if event.op == "push"]
    at_once = {event.jid for event in pushes if not rules_of(event.proto).expiry_fails}
    waits: list[float] = []
    for worker, diary in diaries:
        if rules_of(worker.protocol).grace:
            continue
        before, after = worker.killed
        for run in diary:
            if run.op == "fetch" and run.out == "ok" and (run.jid, run.conn) not in ends:
                later = [moment for moment in runs[run.jid] if moment > before]
                if run.jid in at_once and later:
                    waits.append(max(min(later) - after, 0.0))
    return waits
