"""T15: a store that is not what was written is refused, or turns out to be exactly right.

A store is filled through a broker, stopped in order, and stopped by a kill. In copies of its files one bit is turned
over, or the end is cut off. Each copy is opened as a server would and then used in one of two ways: read, live
and ended jobs alike, or drained, which gives out and finishes every ready job. Before it refuses it may
only have shown what is right:

* `served_wrong`: something came out that was not put in;
* `silent_drop`: something did not come out, and nobody was told.

Where the index of the log is gone too, as after a power cut, damage to the last group cannot be told
from a torn write that was never acknowledged: `last_group` counts those, and nothing else may be missing.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import asdict

from franca.core.broker import Broker
from franca.core.events import Granted
from franca.core.limits import Limits
from franca.core.model import (
    Demand,
    Failure,
    Job,
    JobQuery,
    NewJob,
    OnHangUp,
    Policy,
    Schedule,
    State,
)
from franca.core.tail import SupplyReady, SupplyWaiting
from franca.store.port import Store, StoreError
from franca.store.sqlite import SqliteStore
from tests.prove import mutants
from tests.prove.options import Options

NAME = "bitflip"
MUTANTS: tuple[str, ...] = ("no-crc", "no-log-check")

_NOW = 1_700_000_000_000
_LIMITS = Limits(window_jobs=30, supply_jobs=15)
_QUEUES = ("mail", "reports", "ünlisted")
_FILE = "store.db"
_BESIDE = ("", "-wal", "-shm")
_LIVE = (State.WAITING, State.READY, State.LEASED, State.DEAD)
_VOLATILE = ("progress", "start_by", "timed", "shelf", "ended_at", "result")


# -- a store that is full of everything --------------------------------------------------------------


class Keeper:
    """A broker and its store, which is told everything in groups."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(str(path), ended_jobs=50)
        self.broker = Broker(_LIMITS, Random(1))
        self.broker.restore_at(self.store.open(), _NOW)
        self.worker = self.broker.open_session("worker", OnHangUp.KEEP, None)

    def commit(self) -> None:
        """One group, and what memory wanted of the store."""
        broker = self.broker
        while broker.has_changes() or broker.wants:
            changes = broker.drain()
            wants = broker.take_wants()
            for want, jobs in zip(wants, self.store.write(changes, wants), strict=True):
                if isinstance(want, SupplyReady):
                    broker.supplied_ready(want, jobs, _NOW)
                elif isinstance(want, SupplyWaiting):
                    broker.supplied_waiting(want, jobs)
                else:
                    want.by.recalled(want.query, broker.resolve(want.query, jobs), _NOW)
            self.store.commit()
        broker.events.clear()

    def take(self, queue: str) -> Job | None:
        """The next job of a queue; None if there is none."""
        while True:
            answer = self.broker.demand(Demand(self.worker, (queue,), until=_NOW), _NOW)
            if isinstance(answer, Granted):
                return answer.job
            if not self.broker.wants:
                return None
            self.commit()

    def finish(self, job: Job) -> None:
        self.broker.finish(job, self.worker.holder, b"result of " + job.name.encode(), _NOW)


def fill(path: Path, rng: Random, jobs: int) -> Keeper:
    """Everything there can be in a store, a part of it still in the log."""
    keeper = Keeper(path)
    policies = (Policy(), Policy(failures=3, delay_ms=60_000), Policy(lease_ms=3_600_000))
    for number in range(jobs):
        new = NewJob(
            rng.choice(_QUEUES), "kind", rng.randbytes(rng.choice((0, 20, 300, 1_500, 6_000))),
            rng.choice(policies), f"job-{number:05}", priority=rng.choice((0, 0, 0, -1, 5)),
            key=f"key-{number}" if number % 7 == 0 else "", digest=number, extra=rng.randbytes(9),
        )  # fmt: skip
        if number % 10 == 0:
            new.run_at = _NOW + 1_000_000 + number
        keeper.broker.submit(new, _NOW)
        if number % 6 == 0:
            _work(keeper, rng)
        if number % 4 == 0:
            keeper.commit()
        if number == jobs // 2:
            keeper.store.tidy()
    keeper.broker.pause("reports")
    keeper.broker.put_schedule(
        Schedule("nightly", NewJob("mail", "k", b"nightly", Policy()), every_ms=86_400_000),
        _NOW, fire_now=False,
    )  # fmt: skip
    keeper.commit()
    return keeper


def _work(keeper: Keeper, rng: Random) -> None:
    job = keeper.take(rng.choice(_QUEUES))
    if job is None:
        return
    choice = rng.random()
    if choice < 0.4:
        keeper.finish(job)
    elif choice < 0.7:
        keeper.broker.fail(job, "worker", Failure("Planned", "ürror", ["line"]), _NOW)
    elif choice < 0.8:
        keeper.broker.kill(job, _NOW)


# -- what a server would make of it ---------------------------------------------------------------------

Way = Callable[[Keeper, "Content"], None]


@dataclass
class Content:
    """All that came out of a store before it was used up, or refused."""

    born: dict[str, Any] = field(default_factory=dict)
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)
    given: list[tuple[int, str, bytes]] = field(default_factory=list)
    twice: int = 0
    refusal: str = ""

    def wrong(self, right: Content) -> str:
        """What came out and was never put in, if anything."""
        if self.twice:
            return "a job twice"
        for mine, theirs in ((self.jobs, right.jobs), (self.ended, right.ended)):
            for job_id, fields in mine.items():
                if theirs.get(job_id) != fields:
                    return f"job {job_id}"
        if any(given not in right.given for given in self.given):
            return "a job that was given out"
        return "" if self.in_order(right) else "the order of jobs"

    def misborn(self, right: Content) -> str:
        """What the server believed at its start and is not so, if anything."""
        return ", ".join(name for name, value in self.born.items() if value != right.born[name])

    def in_order(self, right: Content) -> bool:
        places = {given: place for place, given in enumerate(right.given)}
        mine = [places[given] for given in self.given]
        return mine == sorted(mine)

    def missing(self, right: Content) -> set[int]:
        """The jobs that did not come out."""
        given, all_given = ({g[0] for g in c.given} for c in (self, right))
        return (
            (right.jobs.keys() - self.jobs.keys())
            | (right.ended.keys() - self.ended.keys())
            | (all_given - given)
        )


def use(path: Path, way: Way) -> Content:
    """Open a store and do with it what a server does, until nothing is left or it refuses."""
    content = Content()
    try:
        keeper = Keeper(path)
        try:
            keeper.commit()
            content.born = _born(keeper.broker)
            way(keeper, content)
        finally:
            keeper.store.close()
    except StoreError as error:
        content.refusal = str(error)
    except AssertionError as error:
        content.refusal = f"assertion: {error}"  # the broker's own sums; a server stops on it
    return content


def _born(broker: Broker) -> dict[str, Any]:
    """What a server knows right after its start."""
    return {
        "totals": asdict(broker.totals),
        "counts": {count.queue: asdict(count) for count in broker.counts()},
        "paused": {name: queue.paused for name, queue in broker.queues.items()},
        "schedules": {name: repr(schedule) for name, schedule in broker.schedules.by_id.items()},
    }


def read(keeper: Keeper, content: Content) -> None:
    """Show everything."""
    content.jobs = _found(keeper.store, JobQuery(states=_LIVE, limit=100_000), content)
    ended = JobQuery(states=(State.DONE, State.CANCELLED), limit=100_000)
    content.ended = _found(keeper.store, ended, content)


def drain(keeper: Keeper, content: Content) -> None:
    """Give out and finish every ready job."""
    for queue in _QUEUES:
        keeper.broker.resume(queue, _NOW)
        while (job := keeper.take(queue)) is not None:
            content.given.append((job.id, job.name, job.body))
            keeper.finish(job)
            if len(content.given) % 20 == 0:
                keeper.commit()
    keeper.commit()


WAYS: tuple[Way, ...] = (read, drain)


def _found(store: Store, query: JobQuery, content: Content) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for job in store.find(query):
        content.twice += job.id in found
        fields = {name: value for name, value in asdict(job).items() if name not in _VOLATILE}
        found[job.id] = fields | {"ended_at": job.ended_at, "result": job.result}
    return found


# -- the harm --------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of all copies."""

    figures: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def judge(self, what: str, found: Content, right: Content, last_group: set[int]) -> None:
        self.figures["refused"] += bool(found.refusal)
        missing = set() if found.refusal else found.missing(right)
        spared = bool(missing) and missing <= last_group
        wrong = found.wrong(right) or ("" if missing else found.misborn(right))
        if wrong:
            self.figures["served_wrong"] += 1
            self.examples.append(f"{what}: {wrong}")
        elif spared:
            self.figures["last_group"] += 1
        elif missing:
            self.figures["silent_drop"] += 1
            self.examples.append(f"{what}: {len(missing)} missing: {sorted(missing)[:5]}")
        elif not found.refusal:
            self.figures["harmless"] += 1

    @property
    def ok(self) -> bool:
        return not (self.figures["served_wrong"] or self.figures["silent_drop"])


@dataclass
class Files:
    """A store as it was found, by the endings of its files' names."""

    name: str
    content: dict[str, bytes]

    @classmethod
    def of(cls, name: str, path: Path) -> Files:
        beside = {suffix: Path(f"{path}{suffix}") for suffix in _BESIDE}
        return cls(name, {s: p.read_bytes() for s, p in beside.items() if p.exists()})

    def put(self, into: Path, changed: dict[str, bytes]) -> Path:
        for suffix, data in (self.content | changed).items():
            (into / f"{_FILE}{suffix}").write_bytes(data)
        return into / _FILE

    def without_index(self) -> Files:
        content = {suffix: data for suffix, data in self.content.items() if suffix != "-shm"}
        return Files(f"{self.name} without index", content)


def run(options: Options) -> bool:
    began = time.monotonic()
    rng = Random(options.seed)
    if options.mutant:
        mutants.MUTANTS[options.mutant]()
    flips = options.number("flips", 500, short=150)
    cuts = options.number("trunc", 50, short=15)
    tally = Tally()
    with _in_memory() as scratch:
        home = Path(scratch)
        stopped, killed, before = _stores(home, rng, options.number("jobs", 400, short=250))
        rights = {way: use(stopped.put(_fresh(home), {}), way) for way in WAYS}
        for way, right in rights.items():
            assert not right.refusal, right.refusal
            assert len(right.jobs) + len(right.given) > 100, "hardly any jobs"
            assert use(killed.put(_fresh(home), {}), way) == right, "a kill changed something"
        older = use(before.put(_fresh(home), {}), read)
        last_group = rights[read].jobs.keys() - older.jobs.keys()
        for what, files, suffix, count in (
            ("flip", stopped, "", flips),
            ("flip", killed, "", flips // 5),
            ("flip", killed, "-wal", flips),
            ("flip", killed.without_index(), "-wal", flips // 5),
            ("cut", stopped, "", cuts),
            ("cut", killed, "-wal", cuts),
        ):
            allowed = last_group if "without" in files.name else set()
            for _ in range(count):
                harm, data = _harm(what, files.content[suffix], rng)
                tally.figures[what] += 1
                for way, right in rights.items():
                    place = f"{files.name}{suffix} {harm}"
                    try:
                        found = use(files.put(_fresh(home), {suffix: data}), way)
                    except Exception as error:
                        if not options.mutant:
                            raise
                        # Unchecked, a value of another kind may be stumbled over.
                        tally.figures["served_wrong"] += 1
                        tally.examples.append(f"{place}: {error!r}")
                        continue
                    tally.judge(place, found, right, allowed)
    figures = tally.figures
    print(
        f"T15 {NAME}: flips={figures['flip']} trunc={figures['cut']}"
        f" served_wrong={figures['served_wrong']} silent_drop={figures['silent_drop']}"
        f" refused={figures['refused']} harmless={figures['harmless']}"
        f" last_group={figures['last_group']} seconds={time.monotonic() - began:.0f}"
    )
    for example in tally.examples[:8]:
        print(f"  {example}")
    return tally.ok


def _stores(home: Path, rng: Random, jobs: int) -> tuple[Files, Files, Files]:
    """The same store after a stop, after a kill, and without its last group."""
    keeper = fill(home / _FILE, rng, jobs)
    before = Files.of("before", home / _FILE)
    for number in range(3):
        keeper.broker.submit(NewJob("mail", "kind", b"last", Policy(), f"last-{number}"), _NOW)
    keeper.commit()
    killed = Files.of("killed", home / _FILE)
    keeper.store.close()
    return Files.of("stopped", home / _FILE), killed, before


def _harm(what: str, data: bytes, rng: Random) -> tuple[str, bytes]:
    if what == "cut":
        size = rng.choice((0, rng.randrange(len(data)), rng.randrange(len(data)) // 4096 * 4096))
        return f"cut to {size}", data[:size]
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    return f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def _fresh(home: Path) -> Path:
    folder = home / "state"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _in_memory() -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="franca-flip-", dir=memory if memory.is_dir() else None
    )
