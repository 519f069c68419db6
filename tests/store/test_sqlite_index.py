"""One bit of the tail or its indexes that is not what was written: refused, or it changes nothing."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from franca.core.model import JobQuery, State
from franca.core.wants import Snapshot
from franca.store import search, snapshot
from franca.store.port import StoreDamaged
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, all_fields, sqlite_fixture, tailed

PAGE_BYTES = 4_096
SEARCHES = {
    "all": JobQuery(),
    "ready": JobQuery(states=(State.READY,)),
    "waiting": JobQuery(states=(State.WAITING,)),
    "dead": JobQuery(states=(State.DEAD,), queue="b"),
    "queue": JobQuery(queue="a", newest_first=True),
    "kind": JobQuery(kind="k"),
    "name": JobQuery(names=("name-2", "name-17"), states=(State.READY, State.DEAD)),
}


def believed(snapshot: Snapshot) -> dict[str, Any]:
    """What a server tells of the tail right after its start."""
    return {count.queue: asdict(count) for count in snapshot.backlog}


def seen(path: Path) -> dict[str, object]:
    """What a server counts and finds; without what it refuses."""
    store = SqliteStore(str(path))
    found: dict[str, object] = {}
    try:
        found["counts"] = believed(store.open())
    except StoreDamaged:
        return found
    for name, query in SEARCHES.items():
        try:
            found[name] = all_fields(store.find(query))
        except StoreDamaged:
            pass
    store.close()
    return found


def tree_of(s: StoreFixture, path: Path, name: str) -> int:
    """Where the first page of a table or an index is in the file, once its store is closed."""
    question = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    [[root]] = s.sqlite._db.execute(question, (name,))
    s.close()
    return (int(root) - 1) * PAGE_BYTES


def refusals(path: Path, spots: Iterable[int]) -> int:
    """Turn each bit of these bytes over, one at a time: how often something was refused.

    What was not is right.
    """
    whole, right = path.read_bytes(), seen(path)
    assert len(right) == len(SEARCHES) + 1
    refused = 0
    for at in spots:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            found = seen(path)
            refused += len(found) < len(right)
            assert found == {name: right[name] for name in found}, f"bit {bit} of byte {at}"
    return refused


def varied(path: Path) -> StoreFixture:
    """A tail with jobs of every state, of two queues and priorities."""
    s = sqlite_fixture(path)
    s.write(
        added=[
            *(tailed(n, queue="ab"[n > 4], priority=n % 2, place=n) for n in range(8)),
            *(tailed(n, queue="ab"[n > 16], state=State.DEAD) for n in (16, 17, 20)),
            tailed(21, state=State.WAITING, run_at=5),
        ]
    )
    return s


@pytest.fixture(autouse=True)
def few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were many jobs: those that were submitted last are read at the start."""
    monkeypatch.setattr(snapshot, "RECENT_NAMES", 1)


@pytest.mark.parametrize("index", ["tail_ready", "tail_timed", "tail_states"])
def test_an_entry_that_is_not_what_was_written_changes_nothing(tmp_path: Path, index: str) -> None:
    path = tmp_path / "store.db"
    start = tree_of(varied(path), path, index)
    page = path.read_bytes()[start:][:PAGE_BYTES]
    entries = range(start + int.from_bytes(page[5:7], "big"), start + PAGE_BYTES)
    assert refusals(path, entries) > 100


@pytest.mark.parametrize("place", [2, 9, 11])
def test_a_row_that_is_not_what_was_written_is_not_passed_over(tmp_path: Path, place: int) -> None:
    """Its era among other things, by which rows are known that nobody deleted yet."""
    path = tmp_path / "store.db"
    start = tree_of(varied(path), path, "tail")
    pointer = start + 8 + 2 * place
    row = start + int.from_bytes(path.read_bytes()[pointer:][:2], "big")
    assert refusals(path, range(row, row + 30)) > 100


def test_a_search_that_is_led_astray_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOK_ROWS", 5)
    path = tmp_path / "store.db"
    s = sqlite_fixture(path)
    s.write(added=[tailed(n, body=b"b" * 500) for n in range(1, 60)])
    start = tree_of(s, path, "tail")
    page = path.read_bytes()[start:][:PAGE_BYTES]
    assert page[0] == 5, "it has one page only"
    entries = range(start + int.from_bytes(page[5:7], "big"), start + PAGE_BYTES)
    assert refusals(path, entries) > 100
