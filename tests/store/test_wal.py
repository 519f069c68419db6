"""A damaged log is refused; one that a crash has torn is not. The two must be told apart."""

import os
import shutil
import struct
from pathlib import Path
from random import Random

import pytest

from franca.core.changes import Changes
from franca.store.port import StoreDamaged
from franca.store.sqlite import SqliteStore
from franca.store.wal import check_log, reach_in_index
from tests.store.kit import a_job, sqlite_fixture

HEADER = 32
FRAME_HEADER = 24
PAGE = 4096
FRAME = FRAME_HEADER + PAGE


class Crashed:
    """The files of a server that was killed, and where the groups in its log end."""

    def __init__(self, folder: Path, groups: int = 6) -> None:
        self.folder = folder
        folder.mkdir()
        source = folder / "alive"
        source.mkdir()
        s = sqlite_fixture(source / "store.db")
        s.write(added=[a_job(1_000)])
        self.ends: list[int] = []  # pages in the log after each group
        for number in range(groups):
            s.write(added=[a_job(number * 10 + n, body=b"b" * 1_500) for n in range(1, 6)])
            self.ends.append(reach_in_index(s.sqlite.path)[0].frames)
        self.path = str(folder / "store.db")
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(s.sqlite.path + suffix, self.path + suffix)
        s.close()
        self.log = Path(f"{self.path}-wal")
        self.index = Path(f"{self.path}-shm")

    @property
    def pages(self) -> int:
        return self.ends[-1]

    def flip(self, at: int, bit: int = 0) -> None:
        """Turn one bit of the log over."""
        with self.log.open("r+b") as file:
            file.seek(at)
            [byte] = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ (1 << bit)]))

    def cut(self, size: int) -> None:
        os.truncate(self.log, size)

    def lose_index(self) -> None:
        """As a power cut may."""
        self.index.unlink()

    def jobs(self) -> int:
        """How many jobs the next server finds."""
        store = SqliteStore(self.path)
        try:
            return len(store.open().held)
        finally:
            store.close()


@pytest.fixture
def crashed(tmp_path: Path) -> Crashed:
    return Crashed(tmp_path / "crashed")


def at_page(number: int, offset: int = 0) -> int:
    """Where a page of the log begins, counted from 1."""
    return HEADER + (number - 1) * FRAME + offset


# -- what is fine -----------------------------------------------------------------------------------


def test_a_log_that_is_whole_is_fine_and_stays_as_it_is(crashed: Crashed) -> None:
    before = {p.name: p.read_bytes() for p in (crashed.log, Path(crashed.path))}
    check_log(crashed.path)
    assert {p.name: p.read_bytes() for p in (crashed.log, Path(crashed.path))} == before
    crashed.lose_index()
    check_log(crashed.path)
    assert crashed.jobs() == 31


def test_no_log_is_fine(crashed: Crashed) -> None:
    os.unlink(crashed.log)
    check_log(crashed.path)


def test_a_log_whose_last_group_was_torn_is_fine(tmp_path: Path) -> None:
    """The index was written after the last sync, so it speaks of the group before."""
    before, after = Crashed(tmp_path / "before", 5), Crashed(tmp_path / "after", 6)
    for end in range(at_page(after.ends[-2] + 1), at_page(after.pages + 1), 1_000):
        shutil.copy(after.log, before.log)
        os.truncate(before.log, end)
        before.lose_index()
        check_log(before.path)
    assert before.jobs() == 26


def test_an_index_of_another_log_says_nothing(tmp_path: Path) -> None:
    """After a power cut the index may be one of long ago."""
    crashed, other = Crashed(tmp_path / "crashed", 3), Crashed(tmp_path / "other", 6)
    shutil.copy(other.index, crashed.index)
    check_log(crashed.path)
    assert crashed.jobs() == 16


@pytest.mark.parametrize("content", [b"", b"\0" * 40_000, os.urandom(40_000)])
def test_an_index_that_is_not_one_says_nothing(crashed: Crashed, content: bytes) -> None:
    crashed.index.write_bytes(content)
    check_log(crashed.path)
    assert crashed.jobs() == 31


def test_what_an_older_log_left_behind_the_end_does_not_matter(tmp_path: Path) -> None:
    s = sqlite_fixture(tmp_path / "store.db")
    for number in range(8):
        s.write(added=[a_job(number + 1, body=b"b" * 1_500)])
    s.store.tidy()
    s.write(added=[a_job(99)])
    heir = tmp_path / "heir.db"
    for suffix in ("", "-wal"):
        shutil.copy(s.sqlite.path + suffix, f"{heir}{suffix}")
    used = reach_in_index(s.sqlite.path)[0].frames
    assert os.path.getsize(f"{heir}-wal") > at_page(used + 5)
    check_log(str(heir))
    s.close()


def test_the_remains_of_an_older_torn_end_are_not_taken_for_damage(tmp_path: Path) -> None:
    """Two servers in a row die while they write; the second wrote over half of the first's end."""
    crashed = Crashed(tmp_path / "crashed")
    crashed.flip(at_page(crashed.ends[-2] + 2, 500))
    crashed.lose_index()
    store = SqliteStore(crashed.path)
    store.open()
    store.write(Changes(added=[a_job(2_000)]), [])
    store.commit()
    end = reach_in_index(crashed.path)[0].frames
    heir = str(tmp_path / "heir.db")
    shutil.copy(crashed.path, heir)
    shutil.copy(crashed.log, f"{heir}-wal")
    store.close()
    with open(f"{heir}-wal", "r+b") as file:
        file.seek(at_page(end, 700))
        file.write(b"torn")
    check_log(heir)


# -- what is not ---------------------------------------------------------------------------------------


def test_any_bit_that_turned_over_before_the_last_group_is_noticed(crashed: Crashed) -> None:
    rng = Random(1)
    whole = crashed.log.read_bytes()
    crashed.lose_index()
    unnoticed: list[int] = []
    for _ in range(150):
        at = rng.randrange(at_page(crashed.ends[-2] + 1))
        crashed.log.write_bytes(whole)
        crashed.flip(at, rng.randrange(8))
        try:
            check_log(crashed.path)
        except StoreDamaged:
            continue
        unnoticed.append(at)
    assert unnoticed == []


@pytest.mark.parametrize("offset", [0, 3, 4, 7, 8, 11, 15, 16, 23, FRAME_HEADER, FRAME - 1])
def test_each_part_of_a_page_in_the_log_is_watched(crashed: Crashed, offset: int) -> None:
    crashed.lose_index()
    crashed.flip(at_page(crashed.ends[-2], offset), 1)
    with pytest.raises(StoreDamaged, match=r"store\.db-wal is damaged"):
        check_log(crashed.path)


@pytest.mark.parametrize("at", range(HEADER))
def test_each_byte_of_the_header_is_watched(crashed: Crashed, at: int) -> None:
    crashed.lose_index()
    crashed.flip(at)
    with pytest.raises(StoreDamaged, match="header"):
        check_log(crashed.path)


def test_the_index_of_a_killed_server_tells_of_damage_in_the_last_group_too(
    crashed: Crashed,
) -> None:
    crashed.flip(at_page(crashed.pages, 2_000))
    with pytest.raises(
        StoreDamaged, match=f"held {crashed.pages} pages, {crashed.ends[-2]} can be read"
    ):
        check_log(crashed.path)


def test_without_the_index_damage_in_the_last_group_passes_for_a_torn_write(
    crashed: Crashed,
) -> None:
    """What we cannot tell, and say that we cannot."""
    crashed.lose_index()
    crashed.flip(at_page(crashed.pages, 2_000))
    check_log(crashed.path)
    assert crashed.jobs() == 26


@pytest.mark.parametrize("left", [0, 1, HEADER - 1, HEADER, HEADER + 1, HEADER + 3 * FRAME])
def test_the_index_of_a_killed_server_tells_that_the_log_was_cut(
    crashed: Crashed, left: int
) -> None:
    crashed.cut(left)
    with pytest.raises(StoreDamaged, match="damaged"):
        check_log(crashed.path)


def test_either_copy_of_the_index_is_enough(crashed: Crashed) -> None:
    whole = crashed.index.read_bytes()
    crashed.cut(at_page(3))
    for start in (0, 48):
        crashed.index.write_bytes(whole[:start] + b"\xff" * 48 + whole[start + 48 :])
        with pytest.raises(StoreDamaged):
            check_log(crashed.path)


def test_a_log_of_an_empty_file_is_refused(crashed: Crashed) -> None:
    os.truncate(crashed.path, 0)
    with pytest.raises(StoreDamaged, match="empty"):
        check_log(crashed.path)
    assert crashed.log.exists()


def test_opening_a_store_looks_at_the_log_first_and_leaves_it_for_inspection(
    crashed: Crashed,
) -> None:
    crashed.lose_index()
    crashed.flip(at_page(2, 100))
    damaged = crashed.log.read_bytes()
    with pytest.raises(StoreDamaged, match=r"store\.db-wal"):
        SqliteStore(crashed.path).open()
    assert crashed.log.read_bytes() == damaged


def test_the_index_says_how_far_the_log_reaches(crashed: Crashed) -> None:
    salts = crashed.log.read_bytes()[16:24]
    assert reach_in_index(crashed.path) == [(salts, crashed.pages)] * 2
    [pages] = struct.unpack("=I", crashed.index.read_bytes()[16:20])
    assert pages == crashed.pages == (crashed.log.stat().st_size - HEADER) // FRAME
