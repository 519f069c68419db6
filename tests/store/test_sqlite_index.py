"""A store whose index of the tail is not what was written is refused, or counts as it should."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from franca.core.model import State
from franca.core.wants import Snapshot
from franca.store.port import StoreDamaged
from franca.store.sqlite import SqliteStore
from tests.store.kit import sqlite_fixture, tailed

PAGE_BYTES = 4_096


def believed(snapshot: Snapshot) -> dict[str, Any]:
    """What a server tells of the tail right after its start."""
    return {count.queue: asdict(count) for count in snapshot.backlog}


def entries(page: bytes) -> range:
    """Where the entries of a leaf are."""
    return range(int.from_bytes(page[5:7], "big"), PAGE_BYTES)


@pytest.mark.parametrize("index", ["tail_ready", "tail_timed", "tail_states"])
def test_an_entry_that_is_not_what_was_written_changes_no_count(tmp_path: Path, index: str) -> None:
    path = tmp_path / "store.db"
    s = sqlite_fixture(path)
    s.write(
        added=[
            *(tailed(n, queue="ab"[n > 4], priority=n % 2, place=n) for n in range(8)),
            *(tailed(n, queue="ab"[n > 17], state=State.DEAD) for n in (16, 17, 20)),
            tailed(21, state=State.WAITING, run_at=5),
        ]
    )
    right = believed(s.reopen())
    question = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    [[root]] = s.sqlite._db.execute(question, (index,))
    s.close()
    whole = path.read_bytes()
    start = (root - 1) * PAGE_BYTES
    refused = 0
    for at in entries(whole[start : start + PAGE_BYTES]):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[start + at] ^= 1 << bit
            path.write_bytes(damaged)
            store = SqliteStore(str(path))
            try:
                found = believed(store.open())
            except StoreDamaged:
                refused += 1
                continue
            store.close()
            assert found == right, f"bit {bit} of byte {at}"
    assert refused > 100
