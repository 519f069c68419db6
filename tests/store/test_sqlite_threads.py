"""A store is closed when other threads have let go of it, and they let go soon."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from franca.core.model import JobQuery
from franca.store import files
from franca.store.port import StoreError, StoreFull
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, a_job, tailed

PATIENCE_S = 10.0
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


class Aside:
    """Something that a thread of its own does; `error` is how it ended, if not well."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        self._thread.join(PATIENCE_S)
        return not self._thread.is_alive()


def test_a_search_is_interrupted_before_the_store_is_closed(s: StoreFixture) -> None:
    s.write(added=[tailed(n) for n in range(1, 50)])
    assert len(s.find(limit=99)) == 49
    store = s.sqlite
    searching = threading.Event()

    def endless(*_: object) -> None:
        searching.set()
        assert store._searcher.db is not None
        store._searcher.db.execute(ENDLESS).fetchone()

    store._reading.find_live = endless  # type: ignore[assignment,method-assign]
    search = Aside(lambda: store.find(JobQuery()))
    assert searching.wait(PATIENCE_S)
    closing = Aside(s.close)
    assert closing.is_over
    assert closing.error is None
    assert search.is_over
    assert "SQLITE_INTERRUPT" in str(search.error)
    with pytest.raises(StoreError, match="stopping"):
        store.find(JobQuery())


def test_a_search_of_many_pages_looks_at_no_more_of_them(s: StoreFixture) -> None:
    s.write(added=[a_job(1)])
    store = s.sqlite
    pages: list[int] = []

    def page(*_: object, **__: object) -> tuple[list[object], int]:
        pages.append(1)
        store._readers.ending = True
        return [], 1

    store._reading._page = page  # type: ignore[assignment,method-assign]
    with pytest.raises(StoreError, match="stopping"):
        store.find(JobQuery())
    assert len(pages) == 1


@pytest.fixture
def copied_by_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "COPIED_PAGES", 1)


@pytest.mark.usefixtures("copied_by_pages")
def test_a_copy_that_a_stop_ends_leaves_nothing_behind(s: StoreFixture, tmp_path: Path) -> None:
    s.write(added=[a_job(n) for n in range(1, 200)])
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    seen: list[list[str]] = []
    store, check = s.sqlite, s.sqlite._readers.check

    def stop_after_three() -> None:
        seen.append(sorted(path.name for path in target.parent.iterdir()))
        store._readers.ending = len(seen) > 2
        check()

    store._readers.check = stop_after_three  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="stopping"):
        store.backup(str(target))
    assert "copy.db" + files.PARTIAL in seen[-1]
    assert all("copy.db" not in names for names in seen), "it has its name before it is whole"
    assert list(target.parent.iterdir()) == []


@pytest.mark.usefixtures("copied_by_pages")
def test_a_copy_is_of_one_moment_whatever_is_written_meanwhile(
    s: StoreFixture, tmp_path: Path
) -> None:
    s.write(added=[a_job(n) for n in range(1, 200)])
    store = s.sqlite
    target = str(tmp_path / "copy.db")
    steps = 0

    def write_more() -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            return  # the copy has not begun
        s.write(added=[a_job(1_000 + steps)])
        if steps == 2:
            with pytest.raises(StoreError, match="another backup"):
                store.backup(target)

    store._readers.check = write_more  # type: ignore[method-assign]
    store.backup(target)
    copy = SqliteStore(target)
    assert [job.id for job in copy.open().held] == list(range(1, 200))
    copy.close()
    assert 10 < steps < 200, "it began anew"


def test_what_a_killed_server_left_of_a_copy_is_no_hindrance(
    s: StoreFixture, tmp_path: Path
) -> None:
    s.write(added=[a_job(1)])
    target = tmp_path / "copy.db"
    Path(str(target) + files.PARTIAL).write_bytes(b"half of it")
    s.store.backup(str(target))
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]


def test_a_copy_for_which_there_is_no_room_is_not_begun(s: StoreFixture, tmp_path: Path) -> None:
    s.write(added=[a_job(1)])
    target = tmp_path / "copy.db"
    with pytest.raises(StoreFull, match="a copy of the store needs"):
        s.store.backup(str(target), 1 << 60)
    assert not list(tmp_path.glob("copy*"))
    s.store.backup(str(target), 0)
    assert target.exists()
