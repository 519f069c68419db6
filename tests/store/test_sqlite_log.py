"""The write-ahead log of SQLite's store stays small, and so does the file behind it."""

import os

import pytest

from franca.store import files, sqlite
from tests.store.kit import StoreFixture, a_job, odd_jobs, sqlite_desk


def churn(desk: StoreFixture, groups: int, size: int = 1_000, jobs: int = 20) -> int:
    """Jobs that come and go; the size that the log had at most."""
    log, largest = f"{desk.sqlite.path}-wal", 0
    for number in range(groups):
        ids = range(number * jobs + 1, (number + 1) * jobs + 1)
        batch = [a_job(job_id, body=b"b" * size) for job_id in ids]
        desk.write(added=batch)
        desk.write(gone_from_memory=batch, ended=batch)
        if desk.store.wants_tidying():
            desk.store.tidy()
        largest = max(largest, os.path.getsize(log))
    return largest


def test_the_log_stays_small_however_much_passes_through_it(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 100)
    assert churn(desk, 60) < 300 * 4_096
    assert desk.held() == {}


def test_the_file_does_not_grow_with_what_has_passed_through_it(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 100)
    churn(desk, 20)
    size = os.path.getsize(desk.sqlite.path)
    churn(desk, 60)
    assert os.path.getsize(desk.sqlite.path) <= size * 1.2


def test_a_log_that_was_moved_is_not_moved_again_after_each_group(
    desk: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 100)
    churn(desk, 60)
    tidied = 0
    for number in range(20):
        desk.write(added=[a_job(10_000 + number)])
        if desk.store.wants_tidying():
            desk.store.tidy()
            tidied += 1
    assert tidied <= 2


def test_a_log_that_grew_in_one_go_is_cut_when_it_begins_anew(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOG_BYTES_KEPT", 200_000)
    desk = sqlite_desk(path)
    desk.write(added=[a_job(1, body=b"b" * 2_000_000)])
    assert os.path.getsize(f"{path}-wal") > 2_000_000
    desk.store.tidy()
    desk.write(added=[a_job(2)])
    assert os.path.getsize(f"{path}-wal") <= 200_000
    assert list(desk.held()) == [1, 2]
    desk.close()


def test_an_orderly_stop_leaves_one_file(desk: StoreFixture, path: str) -> None:
    desk.write(added=odd_jobs())
    desk.find()
    desk.close()
    assert os.listdir(os.path.dirname(path)) == ["store.db"]
