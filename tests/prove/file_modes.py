"""T22: what the server writes is for nobody else to read, and nothing of it lies where everybody may write.

A server is started under the most careless circumstances: a data directory that everybody may enter, an umask that
forbids nothing, a unix socket beside the TCP one. It serves, is backed up, is killed, heals a suspect store and
stops. After each step every file and socket that it made is looked at.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path

from tests.prove.looking import ask
from tests.prove.options import Options
from tests.support.faktory import Faktory, job
from tests.support.server import Server

NAME = "filemodes"
MUTANTS: tuple[str, ...] = ("loose-modes",)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Watch:
    """Every file of a server that somebody else could open, and every one in a common place."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        self.looked_at: set[str] = set()
        self.readable: set[str] = set()
        self.misplaced: set[str] = set()

    def look(self, server: Server) -> None:
        """At everything below our own directory, and at what the process has open."""
        for folder in (self.home / "open", self.home / "private"):
            for path in folder.rglob("*"):
                self.looked_at.add(path.name)
                if path.lstat().st_mode & _OTHERS:
                    self.readable.add(str(path.relative_to(self.home)))
        self.misplaced.update(path.name for path in self.temporary.iterdir())
        if server.running:
            for descriptor in Path(f"/proc/{server.process.pid}/fd").iterdir():
                target = _target(descriptor)
                common = target.startswith((tempfile.gettempdir(), "/var/tmp", "/dev/shm"))
                if common and not target.startswith(str(self.home)):
                    self.misplaced.add(target)


def _target(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:
        return ""


def run(options: Options) -> bool:
    began = time.monotonic()
    before = os.umask(0)
    try:
        with tempfile.TemporaryDirectory(prefix="franca-modes-") as scratch:
            watch = Watch(Path(scratch).resolve())
            made_private = _suffer(watch, options)
    finally:
        os.umask(before)
    print(
        f"T22 {NAME}: world_readable={len(watch.readable)} tmp_files={len(watch.misplaced)}"
        f" directory_private={made_private:d} files={len(watch.looked_at)}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    for name in sorted(watch.readable | watch.misplaced)[:10]:
        print(f"  {name}")
    seen = {
        "franca.db",
        "franca.db-wal",
        "franca.db-shm",
        "lock",
        "ballast",
        "faktory.sock",
        "copy.db",
    }
    assert seen <= watch.looked_at, f"not looked at: {sorted(seen - watch.looked_at)}"
    return not watch.readable and not watch.misplaced and made_private


def _suffer(watch: Watch, options: Options) -> bool:
    """Do everything that makes files; whether a directory that was not there was made private."""
    data = watch.home / "open"
    data.mkdir(mode=0o777)
    server = Server(
        data, argv_prefix=options.argv_prefix, env={"TMPDIR": str(watch.temporary)},
        extra_args=["--faktory", str(data / "faktory.sock")],
    )  # fmt: skip
    server.log_path = watch.home / "stderr"
    with server:
        _work(server)
        ask(server, "server.backup", path=str(data / "copy.db"))
        watch.look(server)
        server.kill9()
        watch.look(server)
        (data / "suspect").write_text("planted\n")
        (data / "suspect").chmod(0o600)
        server.start()
        _work(server)
        watch.look(server)
        server.terminate()
        watch.look(server)
    private = watch.home / "private" / "data"
    private.parent.mkdir(mode=0o700)
    other = Server(private, argv_prefix=options.argv_prefix, env={"TMPDIR": str(watch.temporary)})
    other.log_path = watch.home / "stderr"
    with other:
        watch.look(other)
        return not private.stat().st_mode & _OTHERS


def _work(server: Server) -> None:
    with Faktory(server.port) as client:
        client.hello(wid="worker-modes")
        for number in range(20):
            client.push(job(f"modes-{number:04}-{time.monotonic_ns()}", "x" * 5_000, queue="q"))
        for _ in range(10):
            got = client.fetch("q")
            if got is not None:
                client.ack(got["jid"])
