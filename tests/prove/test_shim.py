"""The shim records what a process asked of its disk, and fails exactly what it was asked to fail."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.prove import shim
from tests.prove.crash import Disk, Kind, read_trace
from tests.prove.shim import NoCompiler


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return shim.build(tmp_path_factory.mktemp("shim"))
    except NoCompiler as missing:
        pytest.skip(str(missing))


class Shimmed:
    """A directory in which programs run under the shim."""

    def __init__(self, library: Path, home: Path) -> None:
        self.library = library
        self.directory = home / "data"
        self.directory.mkdir()
        self.notes, self.trace, self.switch = (home / n for n in ("notes", "trace", "switch"))

    def run(self, program: str, **settings: object) -> str:
        """What a Python program prints."""
        env = shim.preloaded(self.library, self.directory, notes=self.notes, **settings)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=self.directory, env=env,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def shimmed(library: Path, tmp_path: Path) -> Shimmed:
    return Shimmed(library, tmp_path)


SQLITE = """
import os, sqlite3
db = sqlite3.connect(os.getcwd() + "/x.db", isolation_level=None)
db.execute("PRAGMA journal_mode = WAL"); db.execute("PRAGMA synchronous = FULL")
db.execute("CREATE TABLE t (n)")
for n in range(20):
    try:
        db.execute("INSERT INTO t VALUES (?)", (n,))
    except sqlite3.OperationalError as error:
        print(n, error.sqlite_errorname)
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
"""


def test_a_recorded_database_can_be_rebuilt_byte_for_byte(shimmed: Shimmed) -> None:
    shimmed.run(SQLITE, trace=shimmed.trace)

    records = read_trace(shimmed.trace)
    disk = Disk()
    for record in records:
        disk.feed(record)
    (content,) = [c for c in disk.contents if c.durable.startswith(b"SQLite format 3")]
    content.sync(len(records))
    assert content.durable == (shimmed.directory / "x.db").read_bytes()
    assert Counter(record.kind for record in records)[Kind.SYNC] >= 20
    assert all("-shm" not in r.name for r in records if r.kind is Kind.OPEN)


def test_one_sync_fails_and_the_next_succeeds(shimmed: Shimmed) -> None:
    assert shimmed.run(SQLITE, fail_sync=10).count("SQLITE_IOERR_FSYNC") == 1
    word, number, _, path = shimmed.notes.read_text().split()
    assert (word, number, Path(path).name) == ("sync-eio", "10", "x.db-wal")


def test_faults_wait_for_their_switch(shimmed: Shimmed) -> None:
    assert shimmed.run(SQLITE, fail_sync=1, switch=shimmed.switch) == ""
    shimmed.switch.touch()
    program = "import os\ntry:\n" + _SYNC + _CATCH
    assert "IOERR" in shimmed.run(program, fail_sync=1, switch=shimmed.switch)


def test_a_slow_disk_takes_its_time(shimmed: Shimmed) -> None:
    program = "import os, time\nbegan = time.monotonic()\nif True:\n" + _SYNC
    program += "print(time.monotonic() - began)\n"
    assert float(shimmed.run(program, slow_sync=40)) >= 0.04


_SYNC = """    file = os.open("plain", os.O_CREAT | os.O_WRONLY)
    os.write(file, b"x")
    os.fsync(file)
"""
_CATCH = """except OSError as error:
    print("IOERR", error)
"""


def test_every_way_to_write_is_recorded_in_order(shimmed: Shimmed) -> None:
    shimmed.run("""
import os
file = os.open("a", os.O_CREAT | os.O_RDWR | os.O_APPEND)
os.write(file, b"one"); os.write(file, b"two"); os.writev(file, [b"th", b"ree"])
other = os.open("b", os.O_CREAT | os.O_RDWR)
os.pwrite(other, b"four", 10); os.pwritev(other, [b"fi", b"ve"], 2)
os.posix_fallocate(other, 0, 100); os.ftruncate(other, 12)
os.rename("a", "c"); os.unlink("b"); os.fsync(file)
open("/dev/null", "w").write("not ours")
""", trace=shimmed.trace)  # fmt: skip
    seen = [(r.kind.name, r.offset, r.data) for r in read_trace(shimmed.trace)]
    assert seen == [
        ("OPEN", 0, b"a"), ("WRITE", 0, b"one"), ("WRITE", 3, b"two"), ("WRITE", 6, b"three"),
        ("OPEN", 0, b"b"), ("WRITE", 10, b"four"), ("WRITE", 2, b"five"),
        ("TRUNCATE", 100, b""), ("TRUNCATE", 12, b""),
        ("RENAME", 0, b"a\0c"), ("UNLINK", 0, b"b"), ("SYNC", 0, b""),
    ]  # fmt: skip


def test_what_is_sent_to_a_peer_is_recorded_with_its_port(shimmed: Shimmed) -> None:
    port = int(shimmed.run("""
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
peer, (_, port) = listener.accept()
peer.send(b"one"); os.write(peer.fileno(), b"two"); os.writev(peer.fileno(), [b"th", b"ree"])
peer.sendmsg([b"fo", b"ur"])
print(port)
""", trace=shimmed.trace))  # fmt: skip
    sent = [r for r in read_trace(shimmed.trace) if r.kind is Kind.SEND]
    assert [(r.handle, r.data) for r in sent] == [
        (port, b"one"), (port, b"two"), (port, b"three"), (port, b"four"),
    ]  # fmt: skip


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompiler, match="C compiler"):
        shim.build(tmp_path)
