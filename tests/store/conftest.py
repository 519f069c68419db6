"""A store in a folder of its own: of SQLite, for those who ask for no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from franca.store.memory import MemoryStore
from franca.store.port import Bounds, Store
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, killed_and_copied, sqlite_fixture


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def kept() -> Bounds:
    """How much history there is to be."""
    return Bounds(10)


@pytest.fixture
def s(request: pytest.FixtureRequest, path: str, kept: Bounds) -> Iterator[StoreFixture]:
    """A test may be parametrised with where jobs are kept, and how the server before it ended."""
    where = getattr(request, "param", "sqlite, stopped")
    if where == "memory":
        s = StoreFixture(MemoryStore(kept), lambda store: store)
    else:
        s = sqlite_fixture(path, ended=kept)
    if where == "sqlite, killed":
        s.opened_anew = _killed
    yield s
    s.close()


def _killed(store: Store) -> Store:
    assert isinstance(store, SqliteStore)
    heir = killed_and_copied(store, Path(store.path).parent / "heir", ended=store._ended)
    store.close()
    return heir
