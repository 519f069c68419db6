"""Idempotency keys: what every store remembers of them, and for how long."""

import sqlite3
from pathlib import Path

import pytest

from franca.core.changes import IDEMPOTENCY_MS, Changes, IdempotencyKey
from franca.store.memory import MemoryStore
from franca.store.port import Bounds, Store, StoreDamaged
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, a_job

STORES = pytest.mark.parametrize(
    "s", ["memory", "sqlite, stopped", "sqlite, killed"], indirect=True
)
AT = 1_000_000


def a_key(number: int, at: int = AT, job_id: int = 0) -> IdempotencyKey:
    return IdempotencyKey(f"key-{number}", 2**62 - number, job_id or number, f"ü-{number}", at)


def found(store: Store, *numbers: int) -> list[IdempotencyKey]:
    return sorted(store.find_keys([f"key-{number}" for number in numbers]))


@STORES
def test_a_key_is_found_again_as_it_was_written(s: StoreFixture) -> None:
    keys = [a_key(n) for n in range(1, 6)]
    s.write(added=[a_job(n) for n in range(1, 4)], idempotency_keys=keys[:3])
    s.write(idempotency_keys=keys[3:])
    assert found(s.store, 2, 4, 99) == [keys[1], keys[3]]
    s.reopen()
    assert found(s.store, 1, 2, 3, 4, 5) == keys
    assert s.store.find_keys([]) == []


@STORES
def test_a_key_that_comes_again_means_the_later_job(s: StoreFixture) -> None:
    s.write(idempotency_keys=[a_key(1), a_key(2)])
    s.write(idempotency_keys=[a_key(1, job_id=7)])
    s.reopen()
    assert found(s.store, 1, 2) == [a_key(1, job_id=7), a_key(2)]


@STORES
def test_keys_outlive_their_jobs_and_not_a_flush(s: StoreFixture) -> None:
    job = a_job(1)
    s.write(added=[job], idempotency_keys=[a_key(1)])
    s.write(gone_from_memory=[job])
    s.reopen()
    assert found(s.store, 1) == [a_key(1)]
    s.write(flushed=True, idempotency_keys=[a_key(2)])
    s.reopen()
    assert found(s.store, 1, 2) == [a_key(2)]


@STORES
def test_a_flush_of_many_keys_puts_them_aside(s: StoreFixture) -> None:
    s.write(idempotency_keys=[a_key(n) for n in range(3_000)])
    s.write(flushed=True, idempotency_keys=[a_key(1)])
    assert found(s.store, 1, 2) == [a_key(1)]
    s.reopen()
    s.sweep()
    s.write(idempotency_keys=[a_key(3)])
    assert found(s.store, 1, 2, 3) == [a_key(1), a_key(3)]


@STORES
def test_new_keys_take_those_away_that_are_over(s: StoreFixture) -> None:
    s.write(idempotency_keys=[a_key(n) for n in range(1, 11)])
    s.write(idempotency_keys=[a_key(11, AT + IDEMPOTENCY_MS - 1)])
    assert len(found(s.store, *range(1, 12))) == 11
    for number in range(12, 22):
        s.write(idempotency_keys=[a_key(number, AT + IDEMPOTENCY_MS)])
    s.reopen()
    assert [key.job_id for key in s.store.find_keys([f"key-{n}" for n in range(1, 30)])] == [
        *range(11, 22)
    ]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_beyond_the_bound_the_oldest_go(kind: str, tmp_path: Path) -> None:
    kept = Bounds(10, keys=3)
    store: Store = (
        MemoryStore(kept) if kind == "memory" else SqliteStore(str(tmp_path / "db"), ended=kept)
    )
    store.open()
    for number in range(1, 6):
        store.write(Changes(idempotency_keys=[a_key(number)]), ())
        store.commit()
    assert [key.job_id for key in found(store, *range(1, 6))] == [3, 4, 5]
    store.close()


def test_a_damaged_key_is_an_error_not_another_job(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    store = SqliteStore(path)
    store.open()
    store.write(Changes(idempotency_keys=[a_key(1)]), ())
    store.commit()
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE idempotency_keys SET job_id = 2")
    store = SqliteStore(path)
    store.open()
    with pytest.raises(StoreDamaged):
        store.find_keys(["key-1"])
    store.close()
