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

import shutil
from collections.abc import Callable, Set
from dataclasses import asdict as as_dict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from msgspec.structs import asdict

from franca.core import model as m
from franca.core.broker import Broker
from franca.core.events import Granted
from franca.core.history import RatesQuery, Search
from franca.core.limits import Limits
from franca.store.port import Bounds, StoreError
from franca.store.sqlite import SqliteStore
from tests.prove.crash_states import in_memory
from tests.prove.harness import Options, Result, Tally
from tests.prove.mutants import BUGS, plant
from tests.sim.disk import write_out
from tests.support.queue_counts import queue_counts

_NOW = 1_700_000_000_000
_LIMITS = Limits(window_jobs=30, supply_jobs=15)
_QUEUES = ("mail", "reports", "ünlisted")
_FILE = "store.db"
_BESIDE = ("", "-wal", "-shm")
_LIVE = (m.State.WAITING, m.State.READY, m.State.LEASED, m.State.DEAD)
_VERDICTS = ("served_wrong", "silent_drop", "refused", "harmless", "last_group")
_ENDED = (m.State.DONE, m.State.CANCELLED)
_SEARCHES = {
    "ended": Search(_ENDED),
    "named": Search(_ENDED, names=tuple(f"job-{number:05}" for number in range(0, 500, 3))),
    "by queue": Search(_ENDED, queues=("mail",)),
}
_VOLATILE = ("reported", "start_by", "timed", "shelf")


# -- a store that is full of everything --------------------------------------------------------------


class Keeper:
    """A broker and its store, which is told everything in groups."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(str(path), ended=Bounds(50))
        self.broker = Broker(_LIMITS, Random(1))
        self.broker.restore_at(self.store.open(), _NOW)
        self.worker = self.broker.open_session("worker", m.OnHangUp.KEEP, None)

    def commit(self) -> None:
        """One group, and what memory wanted of the store."""
        broker = self.broker
        while broker.has_changes() or broker.wants:
            write_out(broker, self.store, _NOW)
            self.store.commit()
        broker.events.clear()

    def take(self, queue: str) -> m.Job | None:
        """The next job of a queue; None if there is none."""
        while True:
            answer = self.broker.demand(m.Demand(self.worker, (queue,), until=_NOW), _NOW)
            if isinstance(answer, Granted):
                return answer.job
            if not self.broker.wants:
                return None
            self.commit()

    def tidy(self) -> None:
        """All that can wait, the index of ended jobs among it."""
        while self.store.has_leftovers():
            self.store.tidy()

    def finish(self, job: m.Job) -> None:
        self.broker.finish(job, self.worker.holder, b"result of " + job.name.encode(), _NOW)


def fill(path: Path, rng: Random, jobs: int) -> Keeper:
    """Everything there can be in a store, a part of it still in the log."""
    keeper = Keeper(path)
    policies = (m.Policy(), m.Policy(max_failures=3, delay_ms=60_000), m.Policy(lease_ms=3_600_000))
    for number in range(jobs):
        new = m.NewJob(
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
            keeper.tidy()
    keeper.tidy()
    keeper.broker.pause("reports")
    keeper.broker.put_schedule(
        m.Schedule("nightly", m.NewJob("mail", "k", b"nightly", m.Policy()), every_ms=86_400_000),
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
        keeper.broker.fail(job, "worker", m.Failure("Planned", "ürror", ["line"]), _NOW)
    elif choice < 0.8:
        keeper.broker.kill(job, _NOW)


# -- what a server would make of it ---------------------------------------------------------------------

Way = Callable[[Keeper, "Content"], None]
Files = dict[str, bytes]
"""A store as it was found, by the endings of its files' names."""


@dataclass
class Content:
    """All that came out of a store before it was used up, or refused."""

    at_start: dict[str, Any] = field(default_factory=dict)
    jobs: dict[int, object] = field(default_factory=dict)  # in the order in which they came
    twice: int = 0
    refusal: str = ""

    def take(self, job_id: int, shown: object) -> None:
        self.twice += job_id in self.jobs
        self.jobs[job_id] = shown

    def wrong(self, right: Self) -> str:
        """What came out and was never put in, if anything."""
        if self.twice:
            return "a job twice"
        for job_id, shown in self.jobs.items():
            if right.jobs.get(job_id) != shown:
                return f"job {job_id}"
        in_order = [job_id for job_id in right.jobs if job_id in self.jobs]
        return "" if in_order == list(self.jobs) else "the order of jobs"


def _use_copy(home: Path, way: Way, files: Files) -> Content:
    """Open a store of these files and do with it what a server does, until nothing is left or it refuses.

    An empty index is not there.
    """
    folder, content = home / "state", Content()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for suffix, data in files.items():
        if data or suffix != "-shm":
            (folder / f"{_FILE}{suffix}").write_bytes(data)
    try:
        keeper = Keeper(folder / _FILE)
        try:
            keeper.commit()
            broker = keeper.broker
            content.at_start = {  # what a server knows right after its start
                "totals": as_dict(broker.totals),
                "counts": {count.queue: asdict(count) for count in queue_counts(broker)},
                "paused": {name: queue.paused for name, queue in broker.queues.items()},
                "schedules": {name: repr(s) for name, s in broker.schedules.by_id.items()},
            }
            way(keeper, content)
        finally:
            keeper.store.close()
    # The broker's own sums are assertions; a server stops on them too.
    except (StoreError, AssertionError) as error:
        content.refusal = repr(error)
    return content


def read(keeper: Keeper, content: Content) -> None:
    """Show everything."""
    shown = keeper.store.find(m.JobQuery(states=_LIVE, limit=100_000))
    shown += keeper.store.find(m.JobQuery(states=_ENDED, limit=100_000))
    for name, search in _SEARCHES.items():
        content.at_start[name] = [job.id for job in keeper.store.search(search).jobs]
    rates = keeper.store.rates(RatesQuery(_NOW - 60_000, _NOW + 60_000, of="queue"))
    content.at_start["rates"] = {name: repr(rates.total(name)) for name in rates.names()}
    content.at_start["past"] = repr(keeper.store.past())
    for job in sorted(shown, key=lambda job: job.id):
        fields = asdict(job).items()
        content.take(job.id, {name: value for name, value in fields if name not in _VOLATILE})


def drain(keeper: Keeper, content: Content) -> None:
    """Give out and finish every ready job."""
    for queue in _QUEUES:
        keeper.broker.resume(queue, _NOW)
        while (job := keeper.take(queue)) is not None:
            content.take(job.id, (job.name, job.body))
            keeper.finish(job)
            if len(content.jobs) % 20 == 0:
                keeper.commit()
    keeper.commit()


# -- the damage ------------------------------------------------------------------------------------------


def _files(path: Path) -> Files:
    beside = {suffix: Path(f"{path}{suffix}") for suffix in _BESIDE}
    return {suffix: path.read_bytes() for suffix, path in beside.items() if path.exists()}


def run(options: Options) -> Result:
    if options.mutant:
        plant(BUGS[options.mutant])
    flips = options.number("flips", 500, short=150)
    cuts = options.number("trunc", 50, short=15)
    rng, tally = options.rng, Tally("flips", "trunc", *_VERDICTS)
    with in_memory() as home:
        stopped, killed, before = _stores(home, rng, options.number("jobs", 400, short=250))
        rights = {way: _use_copy(home, way, stopped) for way in (read, drain)}
        for way, right in rights.items():
            assert not right.refusal, right.refusal
            assert len(right.jobs) > 100, "hardly any jobs"
            assert _use_copy(home, way, killed) == right, "a kill changed something"
        last_group = rights[read].jobs.keys() - _use_copy(home, read, before).jobs.keys()
        for what, files, suffix, without_index, count in (
            ("flips", stopped, "", False, flips),
            ("flips", killed, "", False, flips // 5),
            ("flips", killed, "-wal", False, flips),
            ("flips", killed, "-wal", True, flips // 5),
            ("trunc", stopped, "", False, cuts),
            ("trunc", killed, "-wal", False, cuts),
        ):
            tally[what] += count
            allowed = last_group if without_index else set()
            name = "stopped" if files is stopped else "killed"
            for _ in range(count):
                harm, data = _harmed(what, files[suffix], rng)
                changed = files | {suffix: data} | ({"-shm": b""} if without_index else {})
                for way, right in rights.items():
                    try:
                        found = _use_copy(home, way, changed)
                        verdict, detail = _judge(found, right, allowed)
                        tally["refused"] += bool(found.refusal)
                    except Exception as error:
                        if not options.mutant:
                            raise
                        # Unchecked, a value of another kind may be stumbled over.
                        verdict, detail = "served_wrong", repr(error)
                    if detail:
                        tally.note(verdict, f"{name}{suffix} {harm}: {detail}")
                    elif verdict:
                        tally[verdict] += 1
    return Result(not tally.examples, str(tally), tally.examples[:8])


def _judge(found: Content, right: Content, last_group: Set[int]) -> tuple[str, str]:
    """What is to be said of a copy, if it is more than that it was refused, and what is wrong if anything."""
    missing = set() if found.refusal else right.jobs.keys() - found.jobs.keys()
    wrong = found.wrong(right)
    if not (wrong or missing):
        differ = [name for name in found.at_start if found.at_start[name] != right.at_start[name]]
        wrong = ", ".join(differ)
    if wrong:
        return "served_wrong", wrong
    if missing and missing <= last_group:
        return "last_group", ""
    if missing:
        return "silent_drop", f"{len(missing)} missing: {sorted(missing)[:5]}"
    return ("" if found.refusal else "harmless"), ""


def _stores(home: Path, rng: Random, jobs: int) -> tuple[Files, Files, Files]:
    """The same store after a stop, after a kill, and without its last group."""
    keeper = fill(home / _FILE, rng, jobs)
    before = _files(home / _FILE)
    for number in range(3):
        keeper.broker.submit(m.NewJob("mail", "kind", b"last", m.Policy(), f"last-{number}"), _NOW)
    keeper.commit()
    killed = _files(home / _FILE)
    keeper.store.close()
    return _files(home / _FILE), killed, before


def _harmed(what: str, data: bytes, rng: Random) -> tuple[str, bytes]:
    if what == "trunc":
        size = rng.choice((0, rng.randrange(len(data)), rng.randrange(len(data)) // 4096 * 4096))
        return f"cut to {size}", data[:size]
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    return f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
