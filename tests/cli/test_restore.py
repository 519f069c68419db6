"""`franca restore`: the same jobs in an empty directory, or nothing at all."""

import itertools
import os
import re
import shutil
import sqlite3
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import asdict

from franca.cli.main import cli
from franca.core.changes import Changes
from franca.core.model import JobQuery, NewJob, Policy, Schedule, State
from franca.node import exits
from franca.node.datadir import DataDir
from franca.store.files import put_in_place
from franca.store.sqlite import SqliteStore
from tests.store.kit import BIG, LARGE, a_job, odd_jobs, tailed
from tests.store.test_upgrade import COMMITS, unpacked
from tests.support.faktory import Faktory, job
from tests.support.server import Server

ALL = JobQuery(limit=100_000)


def run(*words: str, code: int = exits.OK) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == code, done.output
    return done.output


def content(path: Path) -> dict[str, Any]:
    """Everything that a store holds."""
    store = SqliteStore(str(path))
    snapshot = store.open()
    try:
        jobs = {job.id: asdict(job) for job in store.find(ALL)}
        for job in jobs.values():
            job.pop("shelf")
        totals = [*map(repr, (snapshot.totals, *snapshot.schedules))]
        return {"jobs": jobs, "totals": totals, "queues": sorted(map(str, snapshot.queues))}
    finally:
        store.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a store that has some of everything."""
    folder = tmp_path_factory.mktemp("made")
    store = SqliteStore(str(folder / "franca.db"))
    store.open()
    jobs = [job for job in odd_jobs() if job.id < BIG]
    jobs += [tailed(n, body=b"b%d" % n * (LARGE if n % 7 == 0 else 1)) for n in range(100, 400)]
    jobs += [tailed(n, state=State.DEAD, run_at=n) for n in range(400, 420)]
    every = Schedule("s", NewJob("q", "k", b"[1.0]", Policy()), every_ms=60_000)
    ended = [a_job(n, state=State.DONE, ended_at=n, result=b"r") for n in range(500, 560)]
    store.write(Changes(added=jobs, schedules_saved=[every]), [])
    store.commit()
    store.write(Changes(ended=ended), [])
    store.commit()
    store.backup(str(folder / "copy"))
    store.close()
    return folder / "copy"


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE TRIGGER evil AFTER INSERT ON jobs BEGIN DELETE FROM jobs; END",
        "CREATE VIEW evil AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT * FROM c",
        "ALTER TABLE jobs RENAME TO old; CREATE VIEW evil AS SELECT 1; CREATE VIEW jobs AS SELECT * FROM old",
    ],
)  # fmt: skip
def test_what_would_act_when_it_is_read_is_no_backup(
    made: Path, tmp_path: Path, statements: str
) -> None:
    altered = Path(shutil.copy(made, tmp_path / "altered"))
    with sqlite3.connect(altered) as db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.executescript(statements)
    db.close()
    data = tmp_path / "data"
    said = run("restore", str(altered), "--data", str(data), code=exits.FAILURE)
    assert "is not a backup" in said
    assert "evil" in said
    assert not (data / "franca.db").exists()


def test_what_is_no_file_is_no_backup(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        said = run("restore", str(path), "--data", str(tmp_path / "data"), code=exits.FAILURE)
        assert "no regular file" in said


def test_the_same_jobs_are_there_and_the_backup_is_only_read(made: Path, tmp_path: Path) -> None:
    before = made.read_bytes(), made.stat().st_mtime_ns
    data = tmp_path / "new" / "data"
    told = run("restore", str(made), "--data", str(data))
    jobs = content(data / "franca.db")
    assert told == f"{len(jobs['jobs'])} jobs in {data}\n"
    assert len(jobs["jobs"]) == 389
    assert jobs == content(Path(shutil.copy(made, tmp_path / "other.db")))
    assert (made.read_bytes(), made.stat().st_mtime_ns) == before
    assert sorted(path.name for path in data.iterdir()) == ["franca.db", "lock"]
    assert {(path.stat().st_mode & 0o077) for path in (data, *data.iterdir())} == {0}


def test_what_a_killed_restore_or_a_start_left_is_no_obstacle(made: Path, tmp_path: Path) -> None:
    for name in ("lock", "ballast", "franca.db.fresh", "franca.db.fresh-wal", "franca.db.new"):
        (tmp_path / name).write_bytes(b"rest")
    run("restore", str(made), "--data", str(tmp_path), "--json")
    assert len(content(tmp_path / "franca.db")["jobs"]) == 389
    assert not list(tmp_path.glob("franca.db.*"))


@pytest.mark.parametrize("name", ["franca.db", "franca.db-wal", "suspect", "holiday.jpg"])
def test_a_directory_with_anything_in_it_is_left_alone(
    made: Path, tmp_path: Path, name: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / name).write_bytes(b"mine")
    assert f"there is {name}" in run("restore", str(made), "--data", str(data), code=exits.REFUSED)
    assert [path.name for path in data.iterdir()] == [name]


def test_a_directory_that_a_server_holds_is_left_alone(made: Path, tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    try:
        told = run("restore", str(made), "--data", str(tmp_path), code=exits.DATA_IN_USE)
    finally:
        data.close()
    assert "stop it first" in told
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_store_that_appears_at_the_last_moment_is_left_alone(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(DataDir):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            (path / "franca.db").write_bytes(b"of a server that came and went")

    monkeypatch.setattr("franca.node.restore.DataDir", Late)
    run("restore", str(made), "--data", str(tmp_path / "data"), code=exits.REFUSED)
    assert (tmp_path / "data" / "franca.db").read_bytes() == b"of a server that came and went"


def not_backups(made: Path, folder: Path) -> dict[str, Path]:
    """Files that are no backups, each with what is said of it."""
    whole = made.read_bytes()
    logged = folder / "logged"
    logged.write_bytes(whole)
    (folder / "logged-wal").write_bytes(b"log")
    newer = Path(shutil.copy(made, folder / "newer"))
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.execute("PRAGMA user_version = 999")
    db.close()
    files = {
        "No such file": folder / "nowhere",
        "there is a log beside it": logged,
        "newer release": newer,
    }
    for name, piece, said in (
        ("empty", b"", "is not a backup"),
        ("text", b"hello" * 100, "is not a backup"),
        ("half", whole[: len(whole) // 2 // 4096 * 4096], "nothing was restored"),
        ("head", whole[:16], "nothing was restored"),
    ):
        (folder / name).write_bytes(piece)
        files[f"{folder / name}" if said == "is not a backup" else f"{name}: {said}"] = (
            folder / name
        )
    return files


def test_what_is_no_backup_is_refused_and_nothing_stays(made: Path, tmp_path: Path) -> None:
    for said, file in not_backups(made, tmp_path).items():
        data = tmp_path / "data"
        told = run("restore", str(file), "--data", str(data), code=exits.FAILURE)
        assert said.partition(": ")[2] in told or said in told, (said, told)
        assert "nothing was restored" in told
        left = {path.name for path in data.iterdir()} if data.exists() else set()
        assert left <= {"lock"}, said


def test_a_damaged_backup_is_refused_or_its_damage_touches_no_job(
    made: Path, tmp_path: Path
) -> None:
    whole, rng = made.read_bytes(), Random(1)
    expected = content(Path(shutil.copy(made, tmp_path / "whole")))
    refused = 0
    for number in range(60):
        damaged = bytearray(whole)
        at = rng.randrange(100, len(whole))
        damaged[at] ^= 1 << rng.randrange(8)
        file, data = tmp_path / f"{number}", tmp_path / f"data-{number}"
        file.write_bytes(damaged)
        done = CliRunner().invoke(cli, ["restore", str(file), "--data", str(data)])
        if done.exit_code == exits.OK:
            assert content(data / "franca.db") == expected, at
        else:
            assert (done.exit_code, list(data.iterdir())) == (exits.FAILURE, [data / "lock"])
            refused += 1
    assert refused > 20


def test_the_name_comes_last(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the process is killed, there is a whole store or none."""
    steps: list[str] = []
    sync = os.fsync

    def put(fresh: str, path: str) -> None:
        assert not (tmp_path / "data" / "franca.db").exists()
        steps.append("put")
        put_in_place(fresh, path)

    def fsync(descriptor: int) -> None:
        steps.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    monkeypatch.setattr("franca.node.restore.put_in_place", put)
    monkeypatch.setattr(os, "fsync", fsync)
    run("restore", str(made), "--data", str(tmp_path / "data"))
    assert steps == ["franca.db.fresh", "put", "franca.db.fresh", "data", tmp_path.name]


def test_without_room_nothing_is_written(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DataDir, "free_bytes", lambda self: 10)
    told = run("restore", str(made), "--data", str(tmp_path / "d"), code=exits.FAILURE)
    assert "10 are free" in told


@pytest.mark.parametrize("commit", COMMITS)
def test_a_store_of_an_earlier_release_is_restored(commit: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    path, expected = unpacked(commit, old)
    copy = str(tmp_path / "copy")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    shutil.copy(path, copy)
    told = run("restore", copy, "--data", str(tmp_path / "data"))
    assert told.startswith(f"{len(expected['jobs'])} jobs in ")
    assert content(tmp_path / "data" / "franca.db") == content(Path(path))


def test_a_store_under_load_is_backed_up_and_restored(tmp_path: Path) -> None:
    stop, enough = threading.Event(), threading.Event()
    with Server(tmp_path / "data") as server:

        def load() -> None:
            with Faktory(server.port) as client:
                client.hello()
                for number in itertools.count():
                    if stop.is_set():
                        return
                    client.push(job(f"job-{number:08}", number, "x" * 3_000))
                    if number == 100:
                        enough.set()

        pushing = threading.Thread(target=load)
        pushing.start()
        try:
            assert enough.wait(20)
            run("backup", str(tmp_path / "copy"), "--data", str(server.data))
        finally:
            stop.set()
            pushing.join()
    run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "new"))
    copied = content(Path(shutil.copy(tmp_path / "copy", tmp_path / "look.db")))
    assert len(copied["jobs"]) > 100
    with Server(tmp_path / "new") as server:
        told = run("jobs", "ls", "--limit", "1", "--json", "--data", str(server.data))
        assert f'"id": {max(copied["jobs"])},' in told
    assert content(tmp_path / "new" / "franca.db")["jobs"] == copied["jobs"]


def test_a_server_under_load_is_exported_and_another_has_the_same_jobs(tmp_path: Path) -> None:
    stop, enough = threading.Event(), threading.Event()
    first, again = tmp_path / "first", tmp_path / "again"
    with Server(tmp_path / "data") as server:

        def load() -> None:
            with Faktory(server.port) as client:
                client.hello()
                for number in itertools.count():
                    if stop.is_set():
                        return
                    client.push(job(f"job-{number:08}", number, "\u00e9 1.50" * 100))
                    if number == 100:
                        enough.set()

        pushing = threading.Thread(target=load)
        pushing.start()
        try:
            assert enough.wait(20)
            run("export", str(first), "--data", str(server.data))
        finally:
            stop.set()
            pushing.join()
    with Server(tmp_path / "new") as server:
        run("import", str(first), "--data", str(server.data))
        run("export", str(again), "--data", str(server.data))
    lines = first.read_bytes().splitlines()
    assert len(lines) > 100
    assert sorted(map(_without_id, again.read_bytes().splitlines())) == sorted(
        map(_without_id, lines)
    )


def _without_id(line: bytes) -> bytes:
    """A line of an export, byte for byte but for the number that each server gives itself."""
    return re.sub(rb'"id":[0-9]+,', b"", line, count=1)
