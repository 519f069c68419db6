"""A million ended jobs in a store: how long searches and the steps of their index take.

python -m bench.million.history [JOBS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from franca.core.changes import Changes, Totals
from franca.core.history import HOUR_MS, MINUTE_MS, RatesQuery, Search
from franca.core.model import Job, JobQuery, Policy, State
from franca.store.port import Bounds
from franca.store.sqlite import SqliteStore

JOBS = 1_000_000
GROUP = 100
EVERY_MS = 80
"""A job ends as often as this: a million of them are about a day."""
BEGIN = 1_700_000_000_000
QUEUES, KINDS = 40, 25
TIMES = 5
SLOW_MS = 200


def jobs_of(first: int, count: int, rng: Random) -> Iterator[Job]:
    """Jobs that ended one after the other; a few that waited for long among them."""
    policy = Policy(max_failures=25, lease_ms=1_800_000)
    for number in range(first, first + count):
        queue, kind = f"queue-{rng.randrange(QUEUES)}", f"Kind{rng.randrange(KINDS)}"
        ended = BEGIN + number * EVERY_MS
        body = b'[%d,"%s"]' % (number, b"x" * 64)
        job_id = number if number % 1_000 else number // 2 or 1
        job = Job(
            job_id, queue, kind, f"{number:024x}", "", body, "json-args", "faktory", policy, 0,
            ended - 900, state=State.CANCELLED if number % 100 == 7 else State.DONE,
            ready_at=ended - rng.randrange(200, 800), started_at=ended - rng.randrange(100),
            ended_at=ended, holder="worker-7", attempts=1,
        )  # fmt: skip
        if number == first and first == count * 50:
            job.queue = "rare"
        yield job


def fill(store: SqliteStore, jobs: int) -> tuple[float, float]:
    """Have so many jobs end; how long the slowest and all steps of the index took."""
    rng, slowest, total = Random(1), 0.0, 0.0
    for first in range(1, jobs, GROUP):
        ended = list(jobs_of(first, GROUP, rng))
        store.write(Changes(totals=Totals(last_job_id=first + GROUP), ended=ended), ())
        store.commit()
        if store.wants_tidying():
            began = time.perf_counter()
            store.tidy()
            took = time.perf_counter() - began
            slowest, total = max(slowest, took), total + took
    return slowest, total


def main() -> int:
    """Fill a store, search in it, print how long it took; 1 if a search took too long."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/store.db", ended=Bounds(jobs))
        store.open()
        began = time.perf_counter()
        slowest, total = fill(store, jobs)
        took = time.perf_counter() - began
        print(
            f"{jobs} jobs in {took:.0f} s; steps of the index {total:.1f} s, {slowest * 1e3:.1f} ms"
        )
        store.close()
        began = time.perf_counter()
        store = SqliteStore(f"{folder}/store.db", ended=Bounds(jobs))
        store.open()
        print(f"opened in {(time.perf_counter() - began) * 1e3:.0f} ms: {store.past()}")
        worst = max([measure(name, ask) for name, ask in questions(store, jobs)])
        store.close()
    return 1 if worst > SLOW_MS else 0


def questions(store: SqliteStore, jobs: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is asked, by a short name."""
    done, end = (State.DONE,), BEGIN + jobs * EVERY_MS
    some = jobs // 3
    day = RatesQuery(end - 24 * HOUR_MS, end, 5 * MINUTE_MS, "queue", ("queue-3",))
    searches = {
        "state": Search(done),
        "state, rare": Search((State.CANCELLED,)),
        "everything": Search(),
        "queue": Search(done, queues=("queue-3",)),
        "queue, one job": Search(queues=("rare",)),
        "queue, none": Search(queues=("nobody",)),
        "type": Search(done, kinds=("Kind3",)),
        "types that begin so": Search(done, kinds=("Kind1*",)),
        "type and queue": Search(kinds=("Kind3",), queues=("queue-3",)),
        "name": Search(names=(f"{some:024x}",)),
        "name, none": Search(names=("nobody",)),
        "time": Search(done, since=end - jobs * EVERY_MS // 2, until=end - jobs * EVERY_MS // 3),
        "id": Search(ids=(some,)),
        "ids": Search(ids=tuple(range(some, some + 100_000, 1_000))),
        "text, one window": Search(done, fits=lambda job: b"nobody" in job.body),
    }
    for name, search in searches.items():
        yield name, partial(store.search, search)
    yield "find: name", lambda: store.find(JobQuery(names=(f"{some:024x}",)))
    yield "find: oldest", lambda: store.find(JobQuery(states=done))
    yield "find: newest", lambda: store.find(JobQuery(newest_first=True))
    yield "find: page by id", lambda: store.find(JobQuery(after=some))
    yield "rates of a queue, a day", lambda: store.rates(day)
    kinds = RatesQuery(day.since, day.until, 15 * MINUTE_MS, "kind")
    yield "rates of types, a day", lambda: store.rates(kinds)
    minutes = RatesQuery(end - HOUR_MS, end, MINUTE_MS, "kind")
    yield "rates of types, an hour", lambda: store.rates(minutes)


def measure(name: str, ask: Callable[[], object]) -> float:
    """Print how long it took at best and at worst, and what came of it."""
    took: list[float] = []
    for _ in range(TIMES):
        began = time.perf_counter()
        found = ask()
        took.append((time.perf_counter() - began) * 1e3)
    jobs = getattr(found, "jobs", found if isinstance(found, list) else ())
    looked_at = getattr(found, "looked_at", "")
    print(f"{name:26} {min(took):7.1f} ms .. {max(took):7.1f} ms   {len(jobs):4} jobs  {looked_at}")
    return min(took)


if __name__ == "__main__":
    sys.exit(main())
