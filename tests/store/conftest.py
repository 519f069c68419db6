"""A store of SQLite in a folder of its own, for those who ask for no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from franca.store.sqlite import SqliteStore
from tests.store.kit import Desk, closed_and_opened


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def desk(path: str) -> Iterator[Desk]:
    desk = Desk(SqliteStore(path, ended_jobs=10), closed_and_opened)
    yield desk
    desk.close()
