"""A store in a folder of its own: of SQLite, for those who ask for no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from franca.store.memory import MemoryStore
from franca.store.port import Store
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, killed_and_copied, sqlite_fixture

ENDED_JOBS = 10


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def s(request: pytest.FixtureRequest, path: str) -> Iterator[StoreFixture]:
    """A test may be parametrised with where jobs are kept, and how the server before it ended."""
    kept = getattr(request, "param", "sqlite, stopped")
    if kept == "memory":
        s = StoreFixture(MemoryStore(ended_jobs=ENDED_JOBS), lambda store: store)
    else:
        s = sqlite_fixture(path, ended_jobs=ENDED_JOBS)
    if kept == "sqlite, killed":
        s.opened_anew = _killed
    yield s
    s.close()


def _killed(store: Store) -> Store:
    assert isinstance(store, SqliteStore)
    heir = killed_and_copied(store, Path(store.path).parent / "heir", ended_jobs=ENDED_JOBS)
    store.close()
    return heir
