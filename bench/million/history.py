"""What the dashboard takes with a million jobs stored, and what it costs those who work.

Seven tenths of the jobs have ended, the others are ready, wait for their time, failed, or are dead.
The server is started anew before anybody asks: the first answers come from a cold start.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from bench.build import load_generator
from bench.findings import Finding, Setup
from bench.measure import Load, beside, measure
from bench.million.ended import RARE, SLOW_MS, Ended
from bench.million.heavy import BEATS_PER_S, PASS_MAX_MS, RSS_MAX_MB
from bench.million.living import Living, bring_to_life
from bench.million.pages import LIVE, PATIENCE_S, STEP_S, Dashboard, Peer, Poller, calls, jobs
from bench.passes import Passes
from bench.servers import Server, ServerFailed, running, start_all
from franca.node.datadir import STORE

ENDED = 700_000
READY, SCHEDULED, RETRYING, DEAD = 200_000, 60_000, 20_000, 20_000
ROUNDS = 5
APART_S = 1.2  # what is computed is kept for a second
AT_ONCE = 4  # calls of one page

FURTHER_S = 5.0  # a search goes on for so long where its first answer has nothing
NOWHERE = "nobody says this"

LIVE_S, LIVE_TIMES = 12.0, 4
LOAD_PER_S, LOAD_PEERS = 200, 5
SHARE_MAX = 10.0  # per cent of a core

BEATS_S, BEATS_TIMES = 4.0, 5
SLOWER_MAX, SLOWER_MS = 3.0, 5.0


@dataclass(frozen=True, slots=True)
class Query:
    """A search, by what it is about; with `exists`, there is a job that fits."""

    name: str
    state: str = ""
    q: str = ""
    exists: bool = True


class Stored:
    """A server with a million jobs, and somebody who asks it."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.data = setup.directory / "data"
        self.ended = Ended(setup.sized(ENDED))
        counts = {"ready": READY, "scheduled": SCHEDULED, "retrying": RETRYING, "dead": DEAD}
        self.living = {state: Living(state, setup.sized(n)) for state, n in counts.items()}

    def filling(self) -> Iterator[Finding]:
        """What is stored. Of the ended ones also how their store does without a server."""
        self.data.mkdir(mode=0o700)
        yield from self.ended.fill(self.data / STORE)
        with running(start_all(self.data, has_web=True)) as server:
            bring_to_life(server, *self.living.values())

    def counted(self, server: Server) -> Finding:
        """That all of them are there."""
        peer = Peer(server.ports["web"])
        found = sum(peer.json("counts").values())
        peer.close()
        stored = self.ended.jobs + sum(part.count for part in self.living.values())
        return Finding("history", "jobs_stored", found, stored, at_least=True)

    def some(self, state: str) -> str:
        """The name of a job somewhere in the middle."""
        living = self.living.get(state)
        if living is None:
            return self.ended.name(self.ended.jobs // 3)
        return living.name(living.count // 2)

    def pages(self) -> dict[str, tuple[str, ...]]:
        """The calls of every page."""
        return calls(self.some("done"), self.some("ready"), self.some("dead"), "queue-3")

    def queries(self) -> Iterator[Query]:
        """What is searched for, and can be looked up."""
        for state in ("done", "cancelled", "dead", "retrying", "scheduled", "ready"):
            yield Query(f"state-{state}", state)
            yield Query(f"queue-{state}", state, "queue:queue-3", exists=state != "cancelled")
            yield Query(f"type-{state}", state, "type:Kind3", exists=state != "cancelled")
        for state in ("done", "dead", "retrying", "scheduled", "ready"):
            yield Query(f"name-{state}", state, f"name:{self.some(state)}")
            yield Query(f"name-none-{state}", state, "name:nobody", exists=False)
        yield Query("queue-any-state", q="queue:queue-3")
        yield Query("queue-one-job", "done", f"queue:{RARE}")
        yield Query("queue-none", "done", "queue:nobody", exists=False)
        yield Query("type-any-state", q="type:Kind3")
        yield Query("type-begins-so", "done", "type:Kind1*")
        yield Query("type-and-queue", "done", "type:Kind3 queue:queue-3")
        yield Query("name-any-state", q=f"name:{self.some('done')}")
        yield Query("id", "done", f"id:{self.ended.job_id(self.ended.jobs // 3)}")
        for state in ("done", "dead", "retrying", "scheduled", "ready"):
            yield Query(f"age-newer-{state}", state, "age<2h")
        for state in ("done", "dead"):
            yield Query(f"time-older-{state}", state, "ended>12h", exists=state == "done")
            yield Query(f"time-newer-{state}", state, "ended<2h")
        yield Query("time-between", "done", "ended>6h ended<12h")


def history(setup: Setup) -> Iterator[Finding]:
    """Pages, searches, dashboards that are left open, and a client that never stops asking."""
    stored = Stored(setup)
    yield from stored.filling()
    with ExitStack() as stack:
        passes = stack.enter_context(Passes(setup.directory / "passes"))
        started = start_all(stored.data, extra=passes.environment, has_web=True)
        server = stack.enter_context(running(started))
        yield stored.counted(server)
        yield from _pages(server, stored)
        yield from _searches(server, stored)
        yield from _arguments(server, passes)
        yield _dashboards(server, stored)
        yield from _polled(server, stored)
        yield Finding("history", "rss_max_mb", server.rss_max_mb(), RSS_MAX_MB)


# -- pages and searches ---------------------------------------------------------------------------


def _pages(server: Server, stored: Stored) -> Iterator[Finding]:
    """Every page, and again when what was kept of it is too old; the slowest answer counts."""
    took: dict[str, list[float]] = {}
    peers = [Peer(server.ports["web"]) for _ in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(ROUNDS):
            for page, paths in stored.pages().items():
                began = time.perf_counter()
                list(pool.map(Peer.get, peers, paths))
                took.setdefault(page, []).append((time.perf_counter() - began) * 1e3)
            time.sleep(APART_S)
    for peer in peers:
        peer.close()
    for page, times in took.items():
        more = f"first_ms={times[0]:.1f} median_ms={median(times):.1f}"
        yield Finding(f"page-{page.replace(':', '-')}", "ms", max(times), SLOW_MS, more=more)


def _searches(server: Server, stored: Stored) -> Iterator[Finding]:
    """Each search until it has found something, as somebody asks who goes on where it stops."""
    peer = Peer(server.ports["web"])
    for query in stored.queries():
        answers = [_answered(peer, query) for _ in range(ROUNDS)]
        slowest = max(answers, key=lambda answer: answer.ms)
        name = f"search-{query.name}"
        yield Finding(name, "ms", slowest.ms, SLOW_MS, more=str(slowest))
        if query.exists and not slowest.found:
            yield Finding(name, "not_found", 1, 0, more=str(slowest))
    peer.close()


@dataclass(slots=True)
class Answered:
    """What came of a search."""

    ms: float = 0.0
    slowest_ms: float = 0.0
    answers: int = 0
    found: int = 0
    looked_at: int = 0

    def __str__(self) -> str:
        return (
            f"answers={self.answers} slowest_ms={self.slowest_ms:.1f} found={self.found}"
            f" looked_at={self.looked_at}"
        )


def _answered(peer: Peer, query: Query, least: int = 1) -> Answered:
    """Ask until a job is found; where there is none, once, or at least so often."""
    told = Answered()
    after = ""
    while True:
        began = time.perf_counter()
        page = peer.json(jobs(query.state, query.q, after))
        took_ms = (time.perf_counter() - began) * 1e3
        told.ms += took_ms
        told.slowest_ms = max(told.slowest_ms, took_ms)
        told.answers += 1
        told.found += len(page["jobs"])
        told.looked_at += page["scanned"]
        after = page["next"] or ""
        is_enough = told.found > 0 or (not query.exists and told.answers >= least)
        if is_enough or not after or told.ms > FURTHER_S * 1e3:
            return told


def _arguments(server: Server, passes: Passes) -> Iterator[Finding]:
    """Text that nothing has: each answer is bounded, and nobody waits meanwhile."""
    peer = Peer(server.ports["web"])
    for name, state, q in (
        ("arguments-done", "done", f'arg:"{NOWHERE}"'),
        ("arguments-ready", "ready", f'arg:"{NOWHERE}"'),
        ("text-anywhere", "", f'"{NOWHERE}"'),
    ):
        passes.reset()
        told = _answered(peer, Query(name, state, q, exists=False), least=1 << 30)
        # Its own time on the processor is in the longest pass, and what other threads took of it.
        gap_ms = passes.wall_max_ms
        more = f"{told} pass_cpu_ms={passes.cpu_max_ms:.1f}"
        yield Finding(f"search-{name}", "loop_gap_ms", gap_ms, PASS_MAX_MS, more=more)
    peer.close()


# -- what it costs others -------------------------------------------------------------------------


def _dashboards(server: Server, stored: Stored) -> Finding:
    """What five of them take of a core, beside a load that gives them news all the time."""
    window_s = max(LIVE_S * stored.setup.scale, 2 * STEP_S)
    load = Load(load_generator(), "faktory", LOAD_PEERS, LOAD_PEERS, 0.0, warm_up=0.0)
    pages = stored.pages()
    shares: list[float] = []
    refreshed = heard = 0
    with beside(server, replace(load, rate=LOAD_PER_S, queue="live")) as runs:
        for _ in range(LIVE_TIMES):
            time.sleep(STEP_S)
            without = _share(server, window_s)
            with ExitStack() as stack:
                opened = [Dashboard(server.ports["web"], pages[name]) for name in LIVE]
                for dashboard in opened:
                    stack.enter_context(dashboard)
                time.sleep(2 * STEP_S)
                shares.append(_share(server, window_s) - without)
            refreshed += sum(dashboard.refreshed for dashboard in opened)
            heard += min(dashboard.heard for dashboard in opened)
    if not heard:
        raise ServerFailed("no dashboard has heard of any change")
    each = ",".join(f"{share:.1f}" for share in shares)
    more = f"each={each} refreshed={refreshed} jobs_per_s={runs[0].jobs_per_s:.0f}"
    return Finding("five-dashboards", "cpu_percent", median(shares), SHARE_MAX, more=more)


def _share(server: Server, seconds: float) -> float:
    """What the server takes of a core in the next seconds, in per cent."""
    began, before = time.monotonic(), server.cpu_s()
    time.sleep(seconds)
    return 100 * (server.cpu_s() - before) / (time.monotonic() - began)


def _polled(server: Server, stored: Stored) -> Iterator[Finding]:
    """BEAT, with and without a client that asks in a closed loop for what is dearest."""
    pages = stored.pages()
    search = jobs("done", f'arg:"{NOWHERE}"')
    loops = {
        "overview": pages["overview"],
        "search": (search,),
        "every-page": (*(path for paths in pages.values() for path in paths), search),
    }
    seconds = max(BEATS_S * stored.setup.scale, 0.5)
    beats = Load(load_generator(), "faktory-beat", 1, 0, seconds, warm_up=0.1, patience=PATIENCE_S)
    # Not one after the other: a stall then counts for every beat that fell into it.
    beats = replace(beats, rate=BEATS_PER_S, depth=1_000)

    def p99_ms() -> float:
        return measure(server, beats).submit_p99_ms

    for name, paths in loops.items():
        poller = partial(Poller, server.ports["web"], paths)
        yield alternated(f"polled-{name}", p99_ms, poller)


def alternated(name: str, p99_ms: Callable[[], float], poller: Callable[[], Poller]) -> Finding:
    """The medians of the times without and with the poller, in turns."""
    without: list[float] = []
    beside: list[float] = []
    asked = 0
    for _ in range(BEATS_TIMES):
        without.append(p99_ms())
        with poller() as polling:
            beside.append(p99_ms())
        asked += polling.asked
    limit = SLOWER_MAX * median(without) + SLOWER_MS
    more = f"without_ms={median(without):.2f} asked={asked}"
    return Finding(name, "beat_p99_ms", median(beside), limit, more=more)
