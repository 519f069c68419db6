"""The contract, kept by SQLite: after an orderly stop, and after a kill."""

from __future__ import annotations

from pathlib import Path

from franca.store.port import Store
from franca.store.sqlite import SqliteStore
from tests.store.contract import StoreContract
from tests.store.kit import Desk, killed_and_copied


class TestSqliteStore(StoreContract):
    def desk_in(self, folder: Path) -> Desk:
        return Desk(SqliteStore(str(folder / "store.db"), ended_jobs=10), self._stop_and_start)

    @staticmethod
    def _stop_and_start(store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        store.close()
        return SqliteStore(store.path, ended_jobs=10)


class TestKilledSqliteStore(StoreContract):
    def desk_in(self, folder: Path) -> Desk:
        def kill_and_start(store: Store) -> Store:
            assert isinstance(store, SqliteStore)
            folders.append(folder / str(len(folders)))
            heir = killed_and_copied(store, folders[-1], ended_jobs=10)
            store.close()
            return heir

        folders: list[Path] = []
        return Desk(SqliteStore(str(folder / "store.db"), ended_jobs=10), kill_and_start)
