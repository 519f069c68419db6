"""`franca compact` makes a store's file small, and one of an earlier release able to shrink."""

import os
import sqlite3
from pathlib import Path

from click.testing import CliRunner

from franca.cli.main import cli
from franca.core.changes import Changes
from franca.core.model import JobQuery
from franca.node import exits
from franca.node.datadir import DataDir
from franca.store.files import gives_room_back
from franca.store.sqlite import SqliteStore
from tests.store.kit import a_job
from tests.store.test_upgrade import COMMITS, unpacked


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_a_file_of_an_earlier_release_is_made_one_that_gives_room_back(tmp_path: Path) -> None:
    path, expected = unpacked(COMMITS[0], tmp_path)
    assert not gives_room_back(path)
    assert "franca compact" in run("doctor", "--data", str(tmp_path))[1]
    code, output = run("compact", "--data", str(tmp_path))
    assert (code, gives_room_back(path)) == (exits.OK, True), output
    assert "franca compact" not in run("doctor", "--data", str(tmp_path))[1]
    store = SqliteStore(path)
    store.open()
    assert len(store.find(JobQuery(limit=10_000))) == len(expected["jobs"])
    store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_unused_room_is_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "franca.db")
    store = SqliteStore(path)
    store.open()
    store.write(Changes(added=[a_job(n, body=b"b" * 100_000) for n in range(1, 40)]), [])
    store.commit()
    store.write(Changes(flushed=True), [])
    store.commit()
    store.close()
    assert run("compact", "--data", str(tmp_path))[0] == exits.OK
    assert os.path.getsize(path) < 4_100_000


def test_a_store_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    try:
        assert run("compact", "--data", str(tmp_path))[0] == exits.DATA_IN_USE
    finally:
        data.close()
