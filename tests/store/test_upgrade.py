"""What an earlier commit wrote opens here with the same jobs, schedules, counts and order."""

import json
import sqlite3
import tarfile
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from franca.core.broker import Broker
from franca.core.events import Granted
from franca.core.limits import Limits
from franca.core.model import Demand, Job, JobQuery, Millis, OnHangUp, Policy
from franca.core.names import renamed, text_of
from franca.store import migrate
from franca.store.migrate import migrations
from franca.store.port import StoreDamaged
from franca.store.sqlite import SqliteStore
from tests.sim.disk import write_out
from tests.support.queue_counts import queue_counts

FOLDER = Path(__file__).parent / "fixtures"
"""Data directories of earlier commits, and what is in them.

They were made with those commits' packages, by a program that the history keeps:
`git log -- tests/store/fixtures/make.py tests/store/fixtures/killed.py`.
"""
NOW: Millis = 1_700_000_000_000
LIMITS = Limits(window_jobs=6, supply_jobs=2, due_jobs=5, recent_names=50)
COMMITS = tuple(
    f"{commit}{end}" for end in ("", "-killed") for commit in ("6424626", "4665859", "c9c8389")
)
"""Those that were killed are what servers left that every protocol that keeps jobs had given some."""
POLICY = ("max_failures", "max_losses", "loss_is_failure", "bury", "backoff", "delay_ms", "lease_ms",
          "durable", "dies_unwatched", "no_retry_if_watched", "expiry_is_failure", "never_given_up",
          "tells_end", "keeps_place", "keep_dead")  # fmt: skip
"""In the order in which they are stored; 6424626 had none of the last three, 4665859 not the last two."""


class Killed(Exception):
    """The server is killed in the middle of a migration."""


def unpacked(commit: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """The store of a commit, and what was in it."""
    with tarfile.open(FOLDER / f"{commit}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return str(folder / "franca.db"), json.loads((FOLDER / f"{commit}.json").read_text())


def key_now(key: str) -> str:
    prefix, slash, rest = key.partition("/")
    return prefix + slash + renamed(rest)


def by_name(policy: Policy) -> dict[str, object]:
    return {name: getattr(policy, name) for name in POLICY}


def expected_jobs(jobs: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    for job in jobs:
        if job["state"] < 3 or job["state"] == 4:
            job |= {name: renamed(job[name]) for name in ("queue", "kind", "name")}
            job["key"] = key_now(job["key"])
        if "policy" in job:
            job["policy"] = by_name(Policy()) | dict(zip(POLICY, job["policy"], strict=False))
    return {job["id"]: job for job in jobs}


def shown(job: Job, names: set[str]) -> dict[str, Any]:
    found = {name: getattr(job, name) for name in names}
    found |= {"policy": by_name(job.policy)} if "policy" in names else {}
    found["state"] = int(job.state)
    found["body"] = sha256(job.body[:4_096]).hexdigest()
    found["result"] = job.result.hex()
    return found


@pytest.mark.parametrize("page_jobs", [1, 1_000])
@pytest.mark.parametrize("commit", COMMITS)
def test_the_same_jobs_counts_schedules_and_order(
    commit: str, page_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PAGE_JOBS", page_jobs)
    path, expected = unpacked(commit, tmp_path)
    store = SqliteStore(path)
    snapshot = store.open()
    jobs = expected_jobs(expected["jobs"])
    names = set(next(iter(jobs.values())))
    assert {job.id: shown(job, names) for job in store.find(JobQuery(limit=10_000))} == jobs
    assert {s.id: [s.job.queue, s.every_ms, s.cron, s.next_at] for s in snapshot.schedules} == {
        name: [renamed(queue), *rest] for name, (queue, *rest) in expected["schedules"].items()
    }
    broker = Broker(LIMITS, Random(1))
    broker.restore_at(snapshot, expected.get("now", NOW))
    counts: dict[str, list[int]] = {}
    order: dict[str, list[int]] = {}
    for queue, numbers in expected["counts"].items():
        before = counts.setdefault(renamed(queue), [0] * 5)
        counts[renamed(queue)] = [sum(pair) for pair in zip(before, numbers, strict=True)]
        order.setdefault(renamed(queue), []).extend(expected["order"][queue])
    assert counts == {
        c.queue: [c.scheduled, c.retrying, c.ready, c.leased, c.dead] for c in queue_counts(broker)
    }
    paused = {renamed(queue) for queue, is_paused in expected["paused"].items() if is_paused}
    assert paused == {q.name for q in broker.queues.values() if q.paused} != set()
    for queue, ids in order.items():
        assert given(broker, store, queue) == ids
    store.close()


def given(broker: Broker, store: SqliteStore, queue: str) -> list[int]:
    """The jobs of a queue in the order in which they are given out."""
    broker.resume(queue, NOW)
    session = broker.open_session(f"s-{queue}", OnHangUp.KEEP, None)
    found: list[int] = []
    while True:
        answer = broker.demand(Demand(session, (queue,), NOW), NOW)
        if isinstance(answer, Granted):
            found.append(answer.job.id)
        elif broker.has_wants():
            write_out(broker, store, NOW)
            store.commit()
        else:
            return found


@pytest.mark.parametrize("commit", COMMITS)
def test_a_name_that_is_no_utf8_is_one_queue(commit: str, tmp_path: Path) -> None:
    path, _ = unpacked(commit, tmp_path)
    store = SqliteStore(path)
    broker = Broker(LIMITS, Random(1))
    broker.restore_at(store.open(), NOW)
    assert broker.queues[text_of(b"\xff\xfe-job")].ready == 18
    store.close()


@pytest.mark.parametrize(
    ("commit", "cut"), [*((one, 1) for one in COMMITS), ("6424626", 2), ("6424626-killed", 2)]
)
def test_a_migration_that_is_cut_off_begins_anew(commit: str, cut: int, tmp_path: Path) -> None:
    path, expected = unpacked(commit, tmp_path)
    steps: list[str] = []

    def die(step: str) -> None:
        steps.append(step)
        if steps.count("migrate") == cut:
            raise Killed

    with pytest.raises(Killed):
        SqliteStore(path, step=die).open()
    store = SqliteStore(path)
    store.open()
    assert len(store.find(JobQuery(limit=10_000))) == len(expected["jobs"])
    store.close()


def test_an_older_server_refuses_a_newer_store(tmp_path: Path) -> None:
    path = str(tmp_path / "franca.db")
    store = SqliteStore(path)
    store.open()
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    with pytest.raises(StoreDamaged, match="newer release"):
        SqliteStore(path).open()
