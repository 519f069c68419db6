"""What tests of the stores do over and over: make jobs, write groups, look at what came of them."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from franca.core import model as core
from franca.core.changes import Changes, Totals
from franca.core.wants import Recall, Snapshot, SupplyReady, SupplyWaiting, Want
from franca.core.weights import weigh
from franca.store.port import Store
from franca.store.rows import BODY_APART_BYTES
from franca.store.sqlite import SqliteStore

BIG = 2**63 - 1
LARGE = 5_000
"""Bytes of a body that lies apart."""
UNSTORED = frozenset({"ended_at", "result", "reported", "timed", "weight"})
"""What no row of a live job need keep: the first two are for ended jobs, the rest is for memory."""
BEGIN = (-(2**63), -(2**63))
ALL = 1_000_000
LIVE = (core.State.WAITING, core.State.READY, core.State.LEASED, core.State.DEAD)

Fields = dict[str, Any]


def a_job(job_id: int, **fields: Any) -> core.Job:
    """A ready job in memory, with any fields that are given."""
    texts = {"queue": "q", "kind": "k", "name": f"name-{job_id}", "key": "", "origin": "o"}
    content: Fields = {"body": b"body-%d" % job_id, "media": "bytes", "policy": core.Policy()}
    numbers = {"priority": 0, "created_at": 1_000, "place": job_id, "shelf": core.Shelf.HELD}
    job = core.Job(id=job_id, **(texts | content | numbers | fields))
    weigh(job)
    return job


def tailed(job_id: int, **fields: Any) -> core.Job:
    """A ready job of the tail."""
    return a_job(job_id, shelf=core.Shelf.BACKLOG, **fields)


def odd_jobs() -> list[core.Job]:
    """Jobs that a careless store would change."""
    policy = core.Policy(-1, 3, True, False, core.Backoff.POWER, BIG, 60_000, True, True, True)
    story = [
        core.Attempt("w\0ü", 1, BIG, core.Outcome.FAILED, "E", "ütext\0", ["line 1", "ß\n"]),
        core.Attempt("", 0, 0, core.Outcome.LOST),
    ]
    return [
        a_job(1, body=b"", extra=b""),
        a_job(2, body=bytes(range(256)) * 8, extra=b"\0\xff\0"),
        a_job(3, body=b"\0" * (1 << 20), name="large"),
        a_job(4, queue="q\0\0ü€😀", kind="\0", name="名前\u2028", key="k\0'\"--"),
        a_job(
            5, created_at=BIG, priority=-BIG, place=BIG, run_at=BIG, ready_at=BIG, until=BIG,
            started_at=BIG, failed_at=BIG, start_by=BIG, attempts=BIG, failures=BIG, losses=BIG, digest=-BIG,
        ),
        a_job(6, state=core.State.LEASED, holder="w\0é", bound=True, attempts=1, until=9),
        a_job(7, state=core.State.WAITING, run_at=77, failures=2, attempts=2, attempt_log=story),
        a_job(8, media="json-args", origin="elsewhere", body=b"x" * LARGE, policy=policy),
        a_job(BIG, body=b"y" * 2_048),
        a_job(9, body=b"z" * 2_049),
    ]  # fmt: skip


def fields_of(job: core.Job, *besides: str) -> Fields:
    """Everything a store keeps of a live job, and equal only if it is."""
    return {name: value for name, value in asdict(job).items() if name not in UNSTORED | {*besides}}


def all_fields(jobs: Iterable[core.Job]) -> dict[int, Fields]:
    """The same of many, by id; an id that comes twice is an error."""
    found: dict[int, Fields] = {}
    for job in jobs:
        assert job.id not in found, f"job {job.id} is there twice"
        found[job.id] = fields_of(job)
    return found


def light_fields(jobs: Iterable[core.Job]) -> dict[int, Fields]:
    """All fields, but for large bodies of jobs that are not ready: a store may leave them out."""
    jobs = list(jobs)
    found = all_fields(jobs)
    for job in jobs:
        if job.away or (job.state is not core.State.READY and len(job.body) > BODY_APART_BYTES):
            found[job.id] |= {"body": b"", "away": True}
    return found


def copy(job: core.Job, **changed: Any) -> core.Job:
    """Another object with the same content, except for what is given."""
    return replace(job, **{"attempt_log": job.attempt_log and list(job.attempt_log)} | changed)


class Nobody:
    """A recaller that takes nothing."""

    def recalled(self, query: core.JobQuery, jobs: list[core.Job], now: core.Millis) -> None:
        raise AssertionError("the store does not call anybody")


class StoreFixture:
    """A store at work: groups go in, what it holds comes out, and it can be opened again."""

    def __init__(self, store: Store, opened_anew: Callable[[Store], Store]) -> None:
        self.store = store
        self.opened_anew = opened_anew
        self.totals = Totals()
        self.snapshot: Snapshot = store.open()
        self.is_open = True

    @property
    def sqlite(self) -> SqliteStore:
        """The store, where it is one of SQLite."""
        assert isinstance(self.store, SqliteStore)
        return self.store

    def write(self, *wants: Want, **changes: Any) -> list[list[core.Job]]:
        """One group; what was wanted behind it."""
        changes.setdefault("totals", self.totals)
        supplied = self.store.write(Changes(**changes), wants)
        self.store.commit()
        return supplied

    def reopen(self) -> Snapshot:
        """Close the store, open it again, and remember what it says."""
        if self.is_open:
            self.is_open = False
            self.store = self.opened_anew(self.store)
        self.snapshot = self.store.open()
        self.is_open = True
        return self.snapshot

    def sweep(self) -> None:
        """Let the store do all that can wait."""
        while self.store.has_leftovers():
            self.store.tidy()

    def close(self) -> None:
        """Close the store, unless it could not be opened in the first place."""
        if self.is_open:
            self.is_open = False
            self.store.close()

    # -- what is there ------------------------------------------------------------------------

    def held(self) -> dict[int, Fields]:
        """The held jobs as a new server would find them."""
        return light_fields(self.reopen().held)

    def ready(self, queue: str = "q") -> list[core.Job]:
        """The whole tail of a queue."""
        return self.write(SupplyReady(queue, BEGIN, ALL))[0]

    def waiting(self) -> list[core.Job]:
        """All waiting jobs of the tail, in the order of their time."""
        return self.write(SupplyWaiting(BEGIN, ALL))[0]

    def live(self) -> dict[int, Fields]:
        """Every job on either shelf, wherever it is in its life."""
        return all_fields(self.recall(states=LIVE, limit=ALL))

    def recall(self, **query: Any) -> list[core.Job]:
        """What a recall finds."""
        return self.write(Recall(core.JobQuery(**query), Nobody()))[0]

    def find(self, **query: Any) -> list[int]:
        """The ids that a search finds, in its order."""
        return [job.id for job in self.store.find(core.JobQuery(**query))]


def sqlite_fixture(path: str | Path, **options: Any) -> StoreFixture:
    """One whose store is stopped in an orderly way and opened again, with the same options."""

    def opened_anew(store: Store) -> Store:
        store.close()
        return SqliteStore(str(path), **options)

    return StoreFixture(SqliteStore(str(path), **options), opened_anew)


def killed_and_copied(store: SqliteStore, into: Path, **options: Any) -> SqliteStore:
    """What the next server finds after this one was killed: its files as they are now."""
    into.mkdir()
    target = into / Path(store.path).name
    for suffix in ("", "-wal", "-shm"):
        if Path(store.path + suffix).exists():
            shutil.copy(store.path + suffix, str(target) + suffix)
    return SqliteStore(str(target), **options)
