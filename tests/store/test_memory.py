"""The contract, kept by a store in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from franca.store.memory import MemoryStore
from franca.store.port import StoreError
from tests.store.contract import StoreContract
from tests.store.kit import Desk, same_object


class TestMemoryStore(StoreContract):
    def desk_in(self, folder: Path) -> Desk:
        return Desk(MemoryStore(ended_jobs=10), same_object)


def test_what_is_in_memory_cannot_be_backed_up(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="memory"):
        MemoryStore().backup(str(tmp_path / "copy"))
