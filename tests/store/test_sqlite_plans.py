"""Every statement that a server issues while it serves finds its rows by an index.

A real server is taken through all that its peers and operators can ask for, with windows so small that
most jobs lie in the store; whatever it said to SQLite is then explained by SQLite, on its own file, before
that was ever analysed and after.
"""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from franca.control import client
from franca.core.changes import Changes
from franca.core.history import Search
from franca.core.model import Job, JobQuery, Shelf, State
from franca.store import files, search
from franca.store.sqlite import SqliteStore
from tests.store.kit import a_job
from tests.store.recording import VARIABLE
from tests.support.faktory import Faktory, compact, job
from tests.support.gearman import Gearman
from tests.support.periodic import Periodic
from tests.support.server import Server

RECORDING = ("-m", "tests.store.recording")
LIMITS = {
    "WINDOW_JOBS": 20, "SUPPLY_JOBS": 5, "DUE_JOBS": 5, "RECENT_NAMES": 5, "DEAD_JOBS": 5, "ENDED_JOBS": 10,
}  # fmt: skip
OF_JOBS = re.compile(r"SCAN (jobs|tail|bodies|j|b|idempotency_keys)\b")
"""A scan of these. Read as a whole are only: what a server must know at its start, before it listens (`open`);
the copy that `backup` makes of all pages, on another thread, without a statement; the bounded history
of ended jobs (`SELECT * FROM ended`), on that thread too; and what `doctor` looks at while no server runs."""
LONG_AGO, TOMORROW = "2020-01-01T00:00:00Z", "2199-01-01T00:00:00Z"
PATIENCE_S = 20.0


def statements_of_a_life(folder: Path) -> Iterator[str]:
    record = folder / "statements"
    record.touch()
    env = {f"FRANCA_LIMITS__{name}": str(value) for name, value in LIMITS.items()}
    with Server(
        folder / "data",
        env=env | {VARIABLE: str(record)},
        argv_prefix=RECORDING,
        speaks=("gearman", "periodic"),
    ) as server:
        live(server, folder)
        server.terminate()
    for line in record.read_text().splitlines():
        yield json.loads(line)


def live(server: Server, folder: Path) -> None:
    with Faktory(server.port) as faktory:
        faktory.hello(wid="worker")
        push(faktory, 100, "large", args=["x" * 3_000])
        push(faktory, 100, "some")
        push(faktory, 100, "waiting", at=TOMORROW)
        push(faktory, 100, "due", at=LONG_AGO)
        for _ in range(60):
            jid = (faktory.fetch("some", "large") or {})["jid"]
            faktory.ack(jid) if jid.endswith("0") else faktory.fail(jid)
        for target in ("scheduled", "retries", "dead"):
            for filter in (
                {"jids": ["some-number-1", "waiting-number-1"]},
                {"jobtype": "prove"},
                {"regexp": "*nobody*"},
            ):
                for cmd in ("requeue", "kill", "discard"):
                    mutate(faktory, cmd=cmd, target=target, filter=filter)
        mutate(faktory, cmd="kill", target="scheduled")
        operate(server, folder)
        with Gearman(server.ports["gearman"]) as gearman:
            handles = [gearman.submit("work", b"body", b"unique-%d" % n) for n in range(50)]
            for handle in handles:
                gearman.status(handle)
            gearman.line(f"cancel job {handles[40].decode()}")
        with Periodic(server.ports["periodic"]) as periodic:
            for number in range(50):
                periodic.submit("func", f"name-{number}", b"w")
            periodic.dump()
            periodic.drop("func")
        push(faktory, 300, "purged")
        faktory.call("QUEUE REMOVE purged").checked()
        wait_for_sweeps(server)
        faktory.call("FLUSH").checked()
        push(faktory, 100, "after")
        wait_for_sweeps(server)


def push(client: Faktory, count: int, queue: str, **fields: object) -> None:
    jobs = [{**job(f"{queue}-number-{number}", queue=queue), **fields} for number in range(count)]
    assert client.push_many(jobs) == {}


def mutate(client: Faktory, **order: object) -> None:
    client.call(f"MUTATE {compact(order)}").checked()


def operate(server: Server, folder: Path) -> None:
    def do(operation: str, **params: object) -> None:
        client.call(str(server.data), operation, params, timeout_s=PATIENCE_S)

    for _ in range(2):
        do("jobs.push", queue="keyed", type="t", idempotency_key="key")
    do("server.backup", path=str(folder / "copy.db"))
    do("jobs.find")
    do("jobs.find", newest_first=True)
    do("jobs.show", job="some-number-99")
    for state in ("waiting", "ready", "leased", "dead", "done", "cancelled"):
        do("jobs.find", states=[state])
        do("jobs.find", states=[state], name="some-number-9", newest_first=True, after=99)
        do("jobs.find", states=[state], queue="some", type="prove")
    do("jobs.retry", jobs=["waiting-number-9", "5"])
    do("jobs.kill", jobs=["some-number-98", "nobody"])
    do("jobs.cancel", jobs=["some-number-97"])
    do("jobs.kill", queue="due")
    do("jobs.delete", states=["dead"], type="prove")
    do("queues.purge", queues=["large"])


def wait_for_sweeps(server: Server) -> None:
    """Until no row is left of what is gone, in tables that a flush put aside or in this one's."""
    deadline = time.monotonic() + PATIENCE_S
    with closing(sqlite3.connect(server.data / "franca.db")) as db:
        while time.monotonic() < deadline:
            [left] = db.execute(
                "SELECT (SELECT count(*) FROM sqlite_schema WHERE name LIKE 'dropped%') + "
                "(SELECT count(*) FROM gone) + "
                "(SELECT count(*) FROM tail t JOIN eras e USING (queue) WHERE t.era < e.era)"
            ).fetchone()
            if not left:
                return
            time.sleep(0.05)
    raise AssertionError("rows of what is gone are still there")


def scans(db: sqlite3.Connection, sql: str) -> list[str]:
    """The steps of a plan that go through all of a table that has jobs or bodies in it."""
    sql = re.sub(r"\bdropped_\d+_", "", sql)  # they are gone by now; these are made alike
    plan = db.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?")).fetchall()
    return [str(step[-1]) for step in plan if OF_JOBS.match(str(step[-1]))]


def test_every_statement_of_a_servers_life_finds_its_rows_by_an_index(tmp_path: Path) -> None:
    statements = list(statements_of_a_life(tmp_path))
    served = [s for s in statements if s.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
    for table in ("jobs", "tail", "bodies", "dropped_1_tail"):
        assert any(f"DELETE FROM {table} " in sql for sql in served), f"{table}: {served}"
    with closing(files.connect(str(tmp_path / "data" / "franca.db"))) as db:
        for when in ("never analysed", "analysed"):
            found = {sql: scans(db, sql) for sql in served}
            bad = {sql: steps for sql, steps in found.items() if steps}
            assert not bad, f"{when}: {json.dumps(bad, indent=2)}"
            db.execute("ANALYZE")


def test_a_scan_is_noticed(tmp_path: Path) -> None:
    """As the file of an earlier release would have it: the condition of the index is not said."""
    store = SqliteStore(str(tmp_path / "store.db"))
    store.open()
    waiting = "SELECT id FROM tail WHERE state = 0{} AND run_at > ? ORDER BY run_at LIMIT 9"
    assert scans(store._db, waiting.format("")) == ["SCAN tail"]
    assert scans(store._db, waiting.format(" AND state <> 1")) == []
    store.close()


READY, WAITING, DEAD = State.READY, State.WAITING, State.DEAD


@pytest.mark.parametrize("shares", [(98, 1), (1, 98), (1, 1)], ids=str)
@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (JobQuery(states=(WAITING,)), {"PRIMARY KEY", "tail_states"}),
        (JobQuery(states=(WAITING,), after=500), {"PRIMARY KEY", "tail_states"}),
        (JobQuery(states=(WAITING, DEAD), newest_first=True), {"PRIMARY KEY", "tail_states"}),
        (JobQuery(states=(DEAD,)), {"tail_states"}),
        (JobQuery(states=(DEAD,), by_time=True), {"tail_timed"}),
        (JobQuery(states=(DEAD,), names=("a", "b")), {"tail_named"}),
        (JobQuery(states=(WAITING, DEAD), names=("a",)), {"PRIMARY KEY", "tail_named"}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_jobs_of_one_state_are_found_by_an_index_in_the_tail(
    tmp_path: Path, query: JobQuery, indexes: set[str], shares: tuple[int, int]
) -> None:
    """Whatever most jobs are. Held ones are few, and looked through in order of their ids."""
    store = SqliteStore(str(tmp_path / "store.db"))
    store.open()
    store.write(Changes(added=list(mixed(*shares))), [])
    store.commit()
    used: set[str] = set()

    class Explained:
        def execute(self, sql: str, values: list[object]) -> sqlite3.Cursor:
            for step in store._db.execute(f"EXPLAIN QUERY PLAN {sql}", values):
                used.update(re.findall(r"USING (?:COVERING )?INDEX (\w+)|(PRIMARY KEY)", step[-1]))
            return store._db.execute(sql, values)

    db: Any = Explained()
    search.read_page(db, query, search.sources_of(query), {})
    store.close()
    assert {name for pair in used for name in pair if name} == indexes


def mixed(ready: int, waiting: int) -> Iterator[Job]:
    """Jobs of which so many in a hundred are ready and waiting; the rest is dead."""
    for number in range(1, 1_001):
        share = number * 7919 % 100
        state = READY if share < ready else WAITING if share < ready + waiting else DEAD
        shelf = Shelf.HELD if number % 5 == 0 and state is not DEAD else Shelf.BACKLOG
        yield a_job(number, state=state, shelf=shelf, run_at=number * 31 % 1_000)


@pytest.mark.parametrize("states", [(), (WAITING,), (READY,), (DEAD,), (State.DONE,)], ids=str)
def test_searches_find_their_rows_by_an_index(tmp_path: Path, states: tuple[State, ...]) -> None:
    store = SqliteStore(str(tmp_path / "store.db"))
    store.open()
    store.write(Changes(added=list(mixed(50, 25))), [])
    store.commit()
    store.search(Search())
    statements: list[str] = []
    assert store._searcher.db is not None
    store._searcher.db.set_trace_callback(statements.append)
    for asked in (
        Search(states),
        Search(states, names=("a",), cursor=store.search(Search(states, limit=1)).cursor),
        Search(states, ids=(1, 2, 3)),
        Search(states, queues=("q",), kinds=("k*",), look_max=5_000),
        Search(states, fits=lambda job: False, look_max=5_000),
    ):
        store.search(asked)
    store._searcher.db.set_trace_callback(None)
    selects = [sql for sql in statements if sql.startswith("SELECT")]
    assert len(selects) > 9
    with closing(files.connect(store.path)) as db:
        assert {sql: steps for sql in selects if (steps := scans(db, sql))} == {}
    store.close()
