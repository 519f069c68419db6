"""The data directory: one server at a time, a fresh copy after a failed write, room in reserve."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from franca.core.broker import LARGE_SUBMIT_BYTES, Broker
from franca.core.changes import Changes
from franca.core.errors import StoreFull
from franca.core.limits import Limits
from franca.core.model import NewJob, Policy
from franca.node import datadir
from franca.node.datadir import DataDir, RoomWatch
from franca.store import files
from franca.store.port import StoreBusy, StoreDamaged, StoreError
from franca.store.sqlite import SqliteStore
from tests.store.kit import a_job, killed_and_copied
from tests.support.server import Server


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDir]:
    data = DataDir(tmp_path / "data")
    yield data
    data.close()


# -- one server at a time -----------------------------------------------------------------------------


def test_a_second_server_is_turned_away_until_the_first_lets_go(tmp_path: Path) -> None:
    first = DataDir(tmp_path)
    with pytest.raises(StoreBusy, match=str(tmp_path)):
        DataDir(tmp_path)
    first.close()
    DataDir(tmp_path).close()


def test_the_lock_of_a_killed_server_does_not_outlive_it(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom franca.node.datadir import DataDir\n"
        "DataDir(Path(sys.argv[1]))\nos._exit(9)"
    )
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert died.returncode == 9
    DataDir(tmp_path).close()


def test_a_second_server_on_the_same_data_ends_with_the_code_for_it(tmp_path: Path) -> None:
    held = DataDir(tmp_path / "data")
    server = Server(tmp_path / "data")
    server.launch()
    assert server.wait(10) == 75
    assert "another server holds" in server.log_tail()
    held.close()


def test_the_directory_and_its_files_are_for_nobody_else(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "deep" / "data")
    data.take_ballast(4_096)
    assert stat.S_IMODE(data.path.stat().st_mode) == 0o700
    for name in ("lock", "ballast"):
        assert stat.S_IMODE((data.path / name).stat().st_mode) == 0o600
    data.close()


# -- a store that cannot be trusted -------------------------------------------------------------------


def fill(data: DataDir, first: int = 1, count: int = 5) -> None:
    store = SqliteStore(data.store_path)
    store.open()
    store.write(
        Changes(added=[a_job(n, body=b"b" * 3_000) for n in range(first, first + count)]), []
    )
    store.commit()
    store.close()


def jobs_in(data: DataDir) -> list[int]:
    store = SqliteStore(data.store_path)
    try:
        return [job.id for job in store.open().held]
    finally:
        store.close()


def test_without_a_mark_nothing_is_copied(data: DataDir) -> None:
    fill(data)
    inode = os.stat(data.store_path).st_ino
    assert (data.heal(), os.stat(data.store_path).st_ino) == ("", inode)


def test_a_suspect_store_is_copied_into_a_fresh_file_once(data: DataDir) -> None:
    fill(data)
    inode = os.stat(data.store_path).st_ino
    data.mark_suspect("SQLITE_IOERR_FSYNC")
    assert (data.path / "suspect").read_text() == "SQLITE_IOERR_FSYNC\n"
    assert data.heal()
    assert os.stat(data.store_path).st_ino != inode
    assert jobs_in(data) == [1, 2, 3, 4, 5]
    assert data.heal() == ""
    assert sorted(os.listdir(data.path)) == ["franca.db", "lock"]


def test_what_is_only_in_the_log_is_copied_too(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "franca.db"))
    store.open()
    store.write(Changes(added=[a_job(1), a_job(2)]), [])
    store.commit()
    heir = killed_and_copied(store, tmp_path / "killed")
    store.close()
    data = DataDir(tmp_path / "killed")
    data.mark_suspect("sync")
    assert data.heal()
    assert (jobs_in(data), heir.path) == ([1, 2], data.store_path)
    data.close()


def test_a_mark_without_a_store_is_just_removed(data: DataDir) -> None:
    data.mark_suspect("sync")
    assert data.heal()
    assert os.listdir(data.path) == ["lock"]


@pytest.mark.parametrize("cut_off", [False, True])
def test_without_room_for_a_copy_the_store_is_written_over_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_off: bool
) -> None:
    store = SqliteStore(str(tmp_path / "franca.db"))
    store.open()
    for number in (1, 2, 3):
        store.write(Changes(added=[a_job(number)]), [])
        store.commit()
    killed_and_copied(store, tmp_path / "killed")
    store.close()
    data = DataDir(tmp_path / "killed")
    data.mark_suspect("sync")
    inode = os.stat(data.store_path).st_ino
    monkeypatch.setattr(DataDir, "free_bytes", lambda self: 4_096)
    synced: list[int] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        if cut_off and len(synced) == 2:
            raise Killed
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        if cut_off:
            with pytest.raises(Killed):
                data.heal()
            assert (data.path / "suspect").exists()
        else:
            assert "written over" in data.heal()
            log = os.stat(f"{data.store_path}-wal").st_ino
            assert synced[:2] == [log, inode], "the log first"
    data.heal()
    assert os.stat(data.store_path).st_ino == inode
    assert jobs_in(data) == [1, 2, 3]
    data.close()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["copy_into", "os.replace", "sync", "Path.unlink"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_server_killed_while_it_copies_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    store = SqliteStore(str(tmp_path / "franca.db"))
    store.open()
    for number in (1, 2, 3):
        store.write(Changes(added=[a_job(number)]), [])
        store.commit()
    killed_and_copied(store, tmp_path / "killed")
    store.close()
    data = DataDir(tmp_path / "killed")
    data.mark_suspect("sync")
    holder, _, name = step.rpartition(".")
    place: object = {"": datadir, "os": os, "Path": Path}[holder]
    real: Callable[..., object] = getattr(place, name)

    def killing(*arguments: object, **options: object) -> object:
        if when == "after":
            real(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(place, name, killing)
        with pytest.raises(Killed):
            data.heal()
    data.heal()
    assert jobs_in(data) == [1, 2, 3]
    assert sorted(os.listdir(data.path)) == ["franca.db", "lock"]
    data.close()


def test_no_store_is_served_without_its_copy(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(data)
    data.mark_suspect("sync")

    def failing(path: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(files, "sync", failing)
        with pytest.raises(StoreError, match="Input/output"):
            data.heal()
    assert (data.path / "suspect").exists()
    assert data.heal()
    assert jobs_in(data) == [1, 2, 3, 4, 5]


def test_a_damaged_store_is_not_copied_as_if_it_were_whole(data: DataDir) -> None:
    Path(data.store_path).write_bytes(b"no database" * 1_000)
    data.mark_suspect("sync")
    with pytest.raises(StoreDamaged, match=r"franca\.db"):
        data.heal()
    assert (data.path / "suspect").exists()


def test_a_log_that_is_damaged_in_its_middle_is_not_copied_without_its_end(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "franca.db"))
    store.open()
    for number in range(1, 6):
        store.write(Changes(added=[a_job(number)]), [])
        store.commit()
    heir = killed_and_copied(store, tmp_path / "killed")
    store.close()
    os.unlink(f"{heir.path}-shm")
    with open(f"{heir.path}-wal", "r+b") as log:
        log.seek(32 + 500)
        log.write(b"damage")
    data = DataDir(tmp_path / "killed")
    data.mark_suspect("sync")
    with pytest.raises(StoreDamaged, match="-wal"):
        data.heal()
    data.close()


def test_a_mark_that_cannot_be_left_is_no_reason_to_fail(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refused)
    data.mark_suspect("no room")


# -- room -------------------------------------------------------------------------------------------------


def test_ballast_is_real_room_that_is_given_up_once(data: DataDir) -> None:
    data.take_ballast(1 << 20)
    ballast = data.path / "ballast"
    assert ballast.stat().st_blocks * 512 >= 1 << 20
    assert (data.drop_ballast(), ballast.exists()) == (True, False)
    assert data.drop_ballast() is False


@pytest.mark.parametrize("size", [8_192, 100_000])
def test_ballast_takes_the_size_that_is_asked_for_now(data: DataDir, size: int) -> None:
    data.take_ballast(50_000)
    data.take_ballast(size)
    assert (data.path / "ballast").stat().st_size == size


def test_no_ballast_is_asked_for_and_none_is_taken(data: DataDir) -> None:
    data.take_ballast(0)
    assert not (data.path / "ballast").exists()


def test_ballast_is_taken_whole_or_not(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refused)
    data.take_ballast(50_000)
    assert not (data.path / "ballast").exists()


class Disk:
    """A directory on a disk whose room a test sets."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.ballast = 0

    def free_bytes(self) -> int:
        return self.free

    def take_ballast(self, size: int) -> None:
        self.free -= size - self.ballast
        self.ballast = size

    def drop_ballast(self) -> bool:
        had, self.ballast = self.ballast, 0
        self.free += had
        return had > 0


class Watched:
    """A disk with a broker that is told when it is short: reserve 100, ballast 30."""

    def __init__(self, free: int) -> None:
        self.limits = Limits(disk_reserve_bytes=100, ballast_bytes=30)
        self.broker = Broker(self.limits, Random(1))
        self.disk = Disk(free)
        self.room = RoomWatch(self.disk, self.broker, self.limits)  # type: ignore[arg-type]


def test_new_jobs_are_refused_below_the_reserve_and_taken_well_above_it() -> None:
    watched = Watched(free=130)
    assert (watched.room.look(), watched.broker.refusing_new) == (False, False)
    watched.disk.free = 99
    assert (watched.room.look(), watched.broker.refusing_new) == (True, True)
    assert (watched.room.look(), watched.broker.refusing_new) == (False, True)
    watched.disk.free = 129
    assert (watched.room.look(), watched.broker.refusing_new) == (False, True)
    watched.disk.free = 130
    assert (watched.room.look(), watched.broker.refusing_new) == (True, False)


def test_a_full_disk_gives_up_the_ballast_and_takes_it_back_before_new_jobs() -> None:
    watched = Watched(free=200)
    watched.disk.free = 0
    assert (watched.room.make_room(), watched.broker.refusing_new) == (True, True)
    assert watched.disk.free == 30
    assert watched.room.make_room() is False
    watched.disk.free = 120
    assert watched.room.look() is False
    watched.disk.free = 131
    assert (watched.room.look(), watched.disk.ballast, watched.disk.free) == (True, 30, 101)
    assert watched.broker.refusing_new is False


def test_ballast_that_somebody_else_took_first_leaves_new_jobs_refused() -> None:
    watched = Watched(free=200)
    watched.room.make_room()
    watched.disk.free = 130

    def greedy(size: int) -> None:
        watched.disk.free = 50

    watched.disk.take_ballast = greedy  # type: ignore[method-assign]
    assert (watched.room.look(), watched.broker.refusing_new) == (False, True)


def test_between_two_looks_no_more_is_taken_than_there_was_room_for() -> None:
    watched = Watched(free=100 + 30 + 10_000)
    broker, now = watched.broker, 1_000
    watched.room.look()
    with pytest.raises(StoreFull):
        broker.submit(NewJob("q", "k", b"x" * LARGE_SUBMIT_BYTES, Policy()), now)
    broker.submit(NewJob("q", "k", b"x" * 6_000, Policy()), now)
    broker.drain()
    with pytest.raises(StoreFull):
        broker.submit(NewJob("q", "k", b"x", Policy()), now)
    broker.submit(NewJob("q", "k", b"x", Policy(durable=False)), now)
    watched.room.look()
    broker.submit(NewJob("q", "k", b"x", Policy()), now)
