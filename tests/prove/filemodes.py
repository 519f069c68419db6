"""T22: what the server writes is for nobody else to read, and nothing of it lies where everybody may write.

A server is started under the most careless circumstances: a data directory that everybody may enter, an umask that
forbids nothing, a unix socket beside the TCP one. It serves, is backed up, is killed, heals a suspect store and
stops. After each step every file and socket that it made is looked at.
"""

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.prove.harness import Options, Result
from tests.prove.observe import ask
from tests.support.faktory import Faktory, job
from tests.support.server import Server

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MADE = "franca.db franca.db-wal franca.db-shm lock ballast faktory.sock copy.db"


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
        """At everything below our own directories, and at what the process has open."""
        for path in (*self.home.glob("open/**/*"), *self.home.glob("private/**/*")):
            self.looked_at.add(path.name)
            if path.lstat().st_mode & _OTHERS:
                self.readable.add(str(path.relative_to(self.home)))
        self.misplaced.update(path.name for path in self.temporary.iterdir())
        if server.running:
            for descriptor in Path(f"/proc/{server.process.pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # closed in this moment
                    target = os.readlink(descriptor)
                    common = target.startswith((tempfile.gettempdir(), "/var/tmp", "/dev/shm"))
                    if common and not target.startswith(str(self.home)):
                        self.misplaced.add(target)


def run(options: Options) -> Result:
    before = os.umask(0)
    try:
        watch = Watch(options.home)
        _do_everything(watch, options)
        is_private = _makes_a_private_directory(watch, options)
    finally:
        os.umask(before)
    missed = set(_MADE.split()) - watch.looked_at
    assert not missed, f"not looked at: {sorted(missed)}"
    return Result(
        not watch.readable and not watch.misplaced and is_private,
        f"world_readable={len(watch.readable)} tmp_files={len(watch.misplaced)}"
        f" directory_private={is_private:d} files={len(watch.looked_at)}",
        sorted(watch.readable | watch.misplaced)[:10],
    )


def _do_everything(watch: Watch, options: Options) -> None:
    data = watch.home / "open"
    data.mkdir(mode=0o777)
    env = {"TMPDIR": str(watch.temporary)}
    extra_args = ["--faktory", str(data / "faktory.sock")]
    with options.server(data, env=env, extra_args=extra_args) as server:
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


def _makes_a_private_directory(watch: Watch, options: Options) -> bool:
    data = watch.home / "private" / "data"
    data.parent.mkdir(mode=0o700)
    server = options.server(data, env={"TMPDIR": str(watch.temporary)})
    server.log_path = watch.home / "private.stderr"
    with server:
        watch.look(server)
        return not data.stat().st_mode & _OTHERS


def _work(server: Server) -> None:
    with Faktory(server.port).hello(wid="worker-modes") as client:
        for number in range(20):
            client.push(job(f"modes-{number:04}-{time.monotonic_ns()}", "x" * 5_000, queue="q"))
            if number % 2 and (got := client.fetch("q")) is not None:
                client.ack(got["jid"])
