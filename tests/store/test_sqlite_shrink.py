"""The file gives room back that it no longer needs; one of an earlier release once it was written anew."""

import os
import sqlite3
from itertools import pairwise

import pytest

from franca.core.model import Job
from franca.store import files, sweep
from franca.store.port import StoreError
from tests.store.kit import StoreFixture, a_job, all_fields, sqlite_fixture, tailed

MIB = 1 << 20


@pytest.fixture(autouse=True)
def few_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "SPARE_PAGES", 64)
    monkeypatch.setattr(sweep, "STEP_PAGES", 100)


def size(s: StoreFixture) -> int:
    return os.path.getsize(s.sqlite.path)


def many(count: int = 2_000) -> list[Job]:
    return [tailed(n, body=b"b" * 1_500) for n in range(1, count + 1)]


@pytest.mark.parametrize("how", ["flushed", "purged", "drained"])
def test_a_backlog_that_is_gone_leaves_a_small_file(s: StoreFixture, how: str) -> None:
    jobs = many()
    s.write(added=[*jobs, a_job(9_999)])
    s.store.tidy()
    assert size(s) > 3 * MIB
    if how == "flushed":
        s.write(flushed=True, added=[a_job(10_000)])
    elif how == "purged":
        s.write(emptied_backlogs=["q"])
    else:
        for start in range(0, len(jobs), 100):
            s.write(gone_from_backlog=jobs[start : start + 100])
    s.sweep()
    assert size(s) < MIB // 2
    assert list(s.held()) == [10_000 if how == "flushed" else 9_999]


def test_a_step_gives_few_pages_back(s: StoreFixture) -> None:
    jobs = many()
    s.write(added=jobs)
    s.write(gone_from_backlog=jobs)
    pages = [s.sqlite._shrinker._pages()[1]]
    while s.store.has_leftovers():
        s.store.tidy()
        pages.append(s.sqlite._shrinker._pages()[1])
    steps = [before - after for before, after in pairwise(pages)]
    assert len(steps) > 5
    assert max(steps) < 110


def test_a_backlog_that_comes_and_goes_finds_the_room_that_it_left(s: StoreFixture) -> None:
    """A quarter of the file may be unused: growing and shrinking for nothing costs writes."""
    jobs = many()
    s.write(added=jobs)
    s.write(gone_from_backlog=jobs[:300])
    assert not s.store.has_leftovers()


# -- files of an earlier release ------------------------------------------------------------------------


def without_auto_vacuum(path: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("VACUUM")
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    db.close()


@pytest.mark.parametrize("small", [True, False])
def test_a_small_file_of_an_earlier_release_is_written_anew_at_the_start(
    path: str, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = sqlite_fixture(path)
    s.write(added=many(500))
    s.close()
    without_auto_vacuum(path)
    if not small:
        monkeypatch.setattr(files, "WRITTEN_ANEW_BYTES", 1_000)
    s = sqlite_fixture(path)
    assert s.live() == all_fields(many(500))
    s.write(flushed=True)
    s.sweep()
    assert (size(s) < MIB // 2) is small
    s.close()


def test_a_compact_file_has_the_same_jobs_and_gives_room_back(path: str) -> None:
    s = sqlite_fixture(path)
    jobs = many()
    s.write(added=jobs)
    s.write(gone_from_backlog=jobs[10:])
    s.close()
    without_auto_vacuum(path)
    assert not files.gives_room_back(path)
    files.compact(path, 1 << 40)
    assert files.gives_room_back(path)
    anew = sqlite_fixture(path)
    assert anew.live() == all_fields(jobs[:10])
    anew.close()


def test_a_file_that_somebody_reads_is_not_replaced(
    s: StoreFixture, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log stays, and would be taken for that of the new file, whose pages are others."""
    connect = files.connect

    def connect_without_patience(path: str) -> sqlite3.Connection:
        db = connect(path)
        db.execute("PRAGMA busy_timeout = 0")
        return db

    monkeypatch.setattr(files, "connect", connect_without_patience)
    s.write(added=many(10))
    s.close()
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM tail").fetchall()
    inode = os.stat(path).st_ino
    with pytest.raises(StoreError, match="somebody reads it"):
        files.compact(path, 1 << 40)
    reader.close()
    assert os.stat(path).st_ino == inode
    anew = sqlite_fixture(path)
    assert anew.live() == all_fields(many(10))
    anew.close()
