"""The write-ahead log of SQLite's store stays small, and so does the file behind it."""

import os

import pytest

from franca.store import files, sqlite
from tests.store.kit import StoreFixture, a_job, odd_jobs, sqlite_fixture


def churn(s: StoreFixture, groups: int, size: int = 1_000, jobs: int = 20) -> int:
    """Jobs that come and go; the size that the log had at most."""
    log, largest = f"{s.sqlite.path}-wal", 0
    for number in range(groups):
        ids = range(number * jobs + 1, (number + 1) * jobs + 1)
        batch = [a_job(job_id, body=b"b" * size) for job_id in ids]
        s.write(added=batch)
        s.write(gone_from_memory=batch, ended=batch)
        if s.store.wants_tidying():
            s.store.tidy()
        largest = max(largest, os.path.getsize(log))
    return largest


def test_the_log_stays_small_however_much_passes_through_it(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 100)
    assert churn(s, 60) < 300 * 4_096
    assert s.held() == {}


def test_the_file_does_not_grow_with_what_has_passed_through_it(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 100)
    churn(s, 20)
    size = os.path.getsize(s.sqlite.path)
    churn(s, 60)
    assert os.path.getsize(s.sqlite.path) <= size * 1.2


def test_a_log_that_was_moved_is_not_moved_again_after_each_group(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 100)
    churn(s, 60)
    tidied = 0
    for number in range(20):
        s.write(added=[a_job(10_000 + number)])
        if s.store.wants_tidying():
            s.store.tidy()
            tidied += 1
    assert tidied <= 2


def test_a_log_that_grew_in_one_go_is_cut_when_it_begins_anew(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOG_BYTES_KEPT", 200_000)
    s = sqlite_fixture(path)
    s.write(added=[a_job(1, body=b"b" * 2_000_000)])
    assert os.path.getsize(f"{path}-wal") > 2_000_000
    s.store.tidy()
    s.write(added=[a_job(2)])
    assert os.path.getsize(f"{path}-wal") <= 200_000
    assert list(s.held()) == [1, 2]
    s.close()


def test_an_orderly_stop_leaves_one_file(s: StoreFixture, path: str) -> None:
    s.write(added=odd_jobs())
    s.find()
    s.close()
    assert os.listdir(os.path.dirname(path)) == ["store.db"]
