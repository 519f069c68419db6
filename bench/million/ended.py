"""Ended jobs in a store, without a server: how long searches and the steps of their index take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from bench.findings import Finding
from franca.core.changes import Changes, Totals
from franca.core.history import HOUR_MS, MINUTE_MS, RatesQuery, Search
from franca.core.model import Job, JobQuery, Policy, State
from franca.store.port import Bounds
from franca.store.sqlite import SqliteStore

GROUP = 100
SPAN_MS = 24 * HOUR_MS
QUEUES, KINDS = 40, 25
RARE = "rare"
"""A queue that has one job."""
TIMES = 5
SLOW_MS = 200.0


class Ended:
    """So many jobs that ended one after the other, the last of them just now."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.end = int(time.time() * 1e3)
        self._every_ms = SPAN_MS / jobs

    def name(self, number: int) -> str:
        """The name of a job."""
        return f"{number:024x}"

    def job_id(self, number: int) -> int:
        """Its id: a few waited for long, and are older than those that ended at the same time."""
        return 2 * number if number % 1_000 else number + 1

    def group(self, first: int, rng: Random) -> list[Job]:
        """The jobs of one commit."""
        policy = Policy(max_failures=25, lease_ms=1_800_000)
        jobs: list[Job] = []
        for number in range(first, min(first + GROUP, self.jobs + 1)):
            queue, kind = f"queue-{rng.randrange(QUEUES)}", f"Kind{rng.randrange(KINDS)}"
            ended = self.end - int((self.jobs - number) * self._every_ms)
            job = Job(
                self.job_id(number), RARE if number == self.jobs // 2 else queue, kind,
                self.name(number), "", b'[%d,"%s"]' % (number, b"x" * 64), "json-args", "faktory",
                policy, 0, ended - 900,
                state=State.CANCELLED if number % 100 == 7 else State.DONE,
                ready_at=ended - rng.randrange(200, 800), started_at=ended - rng.randrange(100),
                ended_at=ended, holder="worker-7", attempts=1,
            )  # fmt: skip
            jobs.append(job)
        return jobs

    def fill(self, path: Path) -> Iterator[Finding]:
        """Put them into a store, and search in it when it has been opened anew."""
        began, rng, slowest, steps = time.perf_counter(), Random(1), 0.0, 0.0
        store = self._open(path)
        for first in range(1, self.jobs + 1, GROUP):
            totals = Totals(last_job_id=2 * (first + GROUP))
            store.write(Changes(totals=totals, ended=self.group(first, rng)), ())
            store.commit()
            if store.wants_tidying():
                took = _took_ms(store.tidy)
                slowest, steps = max(slowest, took), steps + took
        store.close()
        more = (
            f"jobs={self.jobs} steps_s={steps / 1e3:.1f} took_s={time.perf_counter() - began:.0f}"
        )
        yield Finding("store-index-step", "ms", slowest, SLOW_MS, more=more)
        store = self._open(path)
        for name, ask in self._questions(store):
            took = min(_took_ms(ask) for _ in range(TIMES))
            yield Finding(f"store-{name}", "ms", took, SLOW_MS)
        store.close()

    def _open(self, path: Path) -> SqliteStore:
        store = SqliteStore(str(path), ended=Bounds(self.jobs))
        store.open()
        return store

    def _questions(self, store: SqliteStore) -> Iterator[tuple[str, Callable[[], object]]]:
        """What is asked, by a short name."""
        done, end, some = (State.DONE,), self.end, self.jobs // 3
        name, job_id = self.name(some), self.job_id(some)
        many = tuple(self.job_id(one) for one in range(some, self.jobs, max(self.jobs // 1_000, 1)))
        searches = {
            "state": Search(done),
            "state-rare": Search((State.CANCELLED,)),
            "everything": Search(),
            "queue": Search(done, queues=("queue-3",)),
            "queue-one-job": Search(queues=(RARE,)),
            "queue-none": Search(queues=("nobody",)),
            "type": Search(done, kinds=("Kind3",)),
            "type-begins-so": Search(done, kinds=("Kind1*",)),
            "type-and-queue": Search(kinds=("Kind3",), queues=("queue-3",)),
            "name": Search(names=(name,)),
            "name-none": Search(names=("nobody",)),
            "time": Search(done, since=end - SPAN_MS // 2, until=end - SPAN_MS // 3),
            "id": Search(ids=(job_id,)),
            "ids": Search(ids=many[:100]),
            "text-one-window": Search(done, fits=lambda job: b"nobody" in job.body),
        }
        for what, search in searches.items():
            yield what, partial(store.search, search)
        yield "find-name", lambda: store.find(JobQuery(names=(name,)))
        yield "find-oldest", lambda: store.find(JobQuery(states=done))
        yield "find-newest", lambda: store.find(JobQuery(newest_first=True))
        yield "find-page-by-id", lambda: store.find(JobQuery(after=job_id))
        day = RatesQuery(end - SPAN_MS, end, 5 * MINUTE_MS, "queue", ("queue-3",))
        yield "rates-of-a-queue-day", lambda: store.rates(day)
        kinds = RatesQuery(day.since, day.until, 15 * MINUTE_MS, "kind")
        yield "rates-of-types-day", lambda: store.rates(kinds)
        minutes = RatesQuery(end - HOUR_MS, end, MINUTE_MS, "kind")
        yield "rates-of-types-hour", lambda: store.rates(minutes)


def _took_ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3
