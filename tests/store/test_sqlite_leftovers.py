"""What lies beside the store's file, or is missing there, when a server starts or while it serves."""

import os
from pathlib import Path
from typing import Any

import pytest

from franca.store.port import StoreError
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, a_job


def test_a_file_that_is_gone_is_a_failure_of_the_store_even_while_nothing_is_written(
    s: StoreFixture, path: str
) -> None:
    s.write(added=[a_job(1)])
    os.rename(path, f"{path}.away")
    for ask in (s.store.has_leftovers, s.store.tidy):
        with pytest.raises(StoreError):
            ask()
    s.sqlite._room_seen = 0
    with pytest.raises(StoreError):
        s.store.wants_tidying()
    os.rename(f"{path}.away", path)


def test_after_its_start_a_store_needs_no_further_descriptor(
    s: StoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: Any, **__: Any) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", none_left)
    s.write(added=[a_job(1)])
    assert not s.store.wants_tidying()
    s.store.tidy()


@pytest.mark.parametrize("leftover", [".fresh", ".new"])
def test_what_was_left_of_a_file_that_was_to_be_put_in_its_place_is_removed(
    path: str, leftover: str
) -> None:
    for number in range(2):  # with no store there yet, and with one
        for suffix in ("", "-wal", "-journal"):
            Path(path + leftover + suffix).write_bytes(b"half of it")
        store = SqliteStore(path)
        store.open()
        store.close()
        assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)], number
