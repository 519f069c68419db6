"""A peers for Gearman peers of nine kinds, each a client and a worker that others wrote.

FRANCA_TEST_GEARMAND=1 puts Debian's gearmand where Franca stands: what holds for both is what
clients rely on, and each test that knows better says so with `differs`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.real.gearman.clients import Client, LibraryClient, ToolClient
from tests.real.gearman.kinds import GEARMAND, KINDS, ORIGINAL, SLEEPERS, need, script
from tests.real.kit import CallRefused, Original, Program, Programs
from tests.support.gearman import Gearman, Type
from tests.support.server import HOST, Server, free_port
from tests.support.shared import DEADLINE_S, eventually

WORKER_OF_TOOL = Path(__file__).with_name("programs") / "cli_worker.sh"


def digest(workload: bytes) -> str:
    return hashlib.sha256(workload).hexdigest()


def bare(handle: str) -> str:
    """A handle as the server knows it; Perl's client puts the server's address before it."""
    return handle.rpartition("//")[2]


class Gearmand(Original):
    """The original, with a store. Its handles begin at 1 with every start."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.ports = {"gearman": free_port()}
        argv = [
            GEARMAND, "--listen", HOST, "--port", str(self.ports["gearman"]),
            "--log-file", str(data / "log"), "--pid-file", str(data / "pid"),
            "--queue-type", "libsqlite3", "--libsqlite3-db", str(data / "queue"),
        ]  # fmt: skip
        super().__init__([argv], list(self.ports.values()), data / "stderr")


class Peers(Programs):
    """A server, and the peers that come to it.

    A peers `within` another has the server of that one, and peers of its own.
    """

    def __init__(
        self, folder: Path, stack: ExitStack, within: Peers | None = None,
        server: Server | None = None,
    ) -> None:  # fmt: skip
        super().__init__(folder, stack)
        self._house = within or self
        self._clients: dict[str, Client] = {}
        self._workers: dict[str, Program] = {}
        self.server: Server | Gearmand
        if within is not None:
            self.server = within.server
        elif ORIGINAL and server is None:
            need("gearmand")
            self.server = stack.enter_context(Gearmand(folder / "data").start())
        else:
            self.server = server or Server(folder / "data", speaks=("gearman",))
            stack.enter_context(self.server.start(DEADLINE_S))
        self.port = self.server.ports["gearman"]

    def client(self, kind: str, port: int | None = None) -> Client:
        """A client of that kind, connected."""
        need(kind)
        port = port or self.port
        return ToolClient(port) if kind == "gearman" else self.library(kind, port=port)

    def library(self, kind: str, **spec: object) -> LibraryClient:
        """A client of a library, connected."""
        need(kind)
        return self.ready(LibraryClient, script(kind, "client"), {"port": self.port, **spec})

    def worker(self, kind: str, functions: Mapping[str, str], **spec: object) -> Program:
        """A worker that does these functions, each in one of the ways of `programs`."""
        need(kind)
        said = {"port": self.port, "functions": functions, "id": f"{kind}-worker", **spec}
        if kind != "gearman":
            return self.ready(Program, script(kind, "worker"), said)
        pairs = [word for pair in functions.items() for word in pair]
        argv = ["/bin/sh", str(WORKER_OF_TOOL), str(said["port"]), sys.executable, *pairs]
        program = self.started(Program, *argv)
        program.said("ready")
        return program

    def shared_client(self, kind: str) -> Client:
        """One client of that kind for all tests that only want one."""
        clients = self._house._clients
        if kind not in clients:
            clients[kind] = self._house.client(kind)
        return clients[kind]

    def shared_library(self, kind: str) -> LibraryClient:
        """The same, of a kind that is no tool."""
        client = self.shared_client(kind)
        assert isinstance(client, LibraryClient)
        return client

    def shared_worker(self, kind: str) -> Program:
        """One worker of that kind that does `kind.reverse`, `kind.fail` and so on."""
        workers = self._house._workers
        if kind not in workers:
            ways = ["reverse", "empty", "fail"]
            ways += ["raise"] if KINDS[kind].raises else []
            ways += ["progress"] if KINDS[kind].tells else []
            functions = {f"{kind}.{way}": way for way in ways} | {"any.reverse": "reverse"}
            functions |= {"sleepers.reverse": "reverse"} if kind in SLEEPERS else {}
            workers[kind] = self._house.worker(kind, functions)
        return workers[kind]

    def admin(self, *args: str) -> str:
        """What `gearadmin` prints; `CallRefused` with what it prints when it is refused."""
        need("gearadmin")
        done = subprocess.run(
            ["gearadmin", "-h", HOST, "-p", str(self.port), *args],
            capture_output=True, encoding="latin-1", timeout=DEADLINE_S,
        )  # fmt: skip
        assert done.returncode == 0, done
        if done.stderr:
            raise CallRefused(done.stderr)
        return done.stdout

    def lines(self, text: str) -> list[str]:
        """What a line of text is answered, up to the dot."""
        with Gearman(self.port, timeout=DEADLINE_S) as witness:
            return [line.decode("latin-1").strip() for line in witness.lines(text)]

    def counts(self, function: str) -> tuple[int, ...]:
        """Jobs, running jobs and workers of a function, as `status` tells them."""
        lines = [line.split("\t") for line in self.lines("status")]
        return next((tuple(map(int, line[1:])) for line in lines if line[0] == function), (0, 0, 0))

    def until_counts(self, function: str, jobs: int, running: int, workers: int) -> None:
        wanted = (jobs, running, workers)
        eventually(lambda: self.counts(function) == wanted, f"{function}: {wanted}")

    def waiting(self, unique: str) -> int:
        """How many clients wait for the job of this unique."""
        with Gearman(self.port, timeout=DEADLINE_S) as witness:
            status = (Type.STATUS_RES_UNIQUE,)
            found = witness.call(Type.GET_STATUS_UNIQUE, unique.encode(), wanted=status).checked()
        return int(found.body.rpartition(b"\0")[2])
