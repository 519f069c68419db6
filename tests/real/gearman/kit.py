"""A stage for Gearman peers of nine kinds, each a client and a worker that others wrote.

FRANCA_TEST_GEARMAND=1 puts Debian's gearmand where Franca stands: what holds for both is what
clients rely on, and each test that knows better says so with `differs`.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.real.gearman.clients import Client, LibraryClient, ToolClient
from tests.real.gearman.kinds import KINDS, ORIGINAL, SLEEPERS, need
from tests.real.gearman.servers import Franca, Gearmand
from tests.real.kit import DEADLINE_S, NODE, Program, eventually
from tests.support.server import HOST

PROGRAMS = Path(__file__).with_name("programs")


def digest(workload: bytes) -> str:
    return hashlib.sha256(workload).hexdigest()


def bare(handle: str) -> str:
    """A handle as the server knows it; Perl's client puts the server's address before it."""
    return handle.rpartition("//")[2]


class Stage:
    """A server, and the peers that come to it; `find_node` skips where there is no Node.

    A stage `within` another has the server of that one, and peers of its own.
    """

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        find_node: Callable[[], str],
        within: Stage | None = None,
        server: Franca | None = None,
    ) -> None:
        self.folder = folder
        self._stack = stack
        self._find_node = find_node
        self._house = within or self
        self._number = 0
        self._clients: dict[str, Client] = {}
        self._workers: dict[str, Program] = {}
        self.server: Franca | Gearmand
        if within is not None:
            self.server = within.server
        elif server is not None:
            self.server = stack.enter_context(server)
        elif ORIGINAL:
            need("gearmand")
            self.server = stack.enter_context(Gearmand(folder / "data"))
        else:
            self.server = stack.enter_context(Franca(folder / "data"))

    @property
    def port(self) -> int:
        return self.server.gearman

    def client(self, kind: str, port: int | None = None) -> Client:
        """A client of that kind, connected."""
        need(kind)
        port = port or self.port
        return ToolClient(port) if kind == "gearman" else self.library(kind, port=port)

    def library(self, kind: str, **spec: object) -> LibraryClient:
        """A client of a library, connected."""
        need(kind)
        return LibraryClient(self._started(_CLIENTS[kind], {"port": self.port, **spec}))

    def worker(self, kind: str, functions: Mapping[str, str], **spec: object) -> Program:
        """A worker that does these functions, each in one of the ways of `programs`."""
        need(kind)
        if kind == "gearman":
            pairs = [word for pair in functions.items() for word in pair]
            port = str(spec.get("port", self.port))
            script = ["/bin/sh", str(PROGRAMS / "cli_worker.sh")]
            program = self._program([*script, port, sys.executable, *pairs])
            program.said("ready")
            return program
        said = {"port": self.port, "functions": functions, "id": f"{kind}-worker", **spec}
        return self._started(_WORKERS[kind], said)

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
        """What `gearadmin` prints; `AdminFailed` with what it prints when it is refused."""
        need("gearadmin")
        done = subprocess.run(
            ["gearadmin", "-h", HOST, "-p", str(self.port), *args],
            capture_output=True, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
        assert done.returncode == 0, done
        if done.stderr:
            raise AdminFailed(done.stderr)
        return done.stdout

    def table(self, command: str) -> list[list[str]]:
        """A list of the text protocol, asked for with a bare socket; one row of words a line."""
        with socket.create_connection((HOST, self.port), timeout=DEADLINE_S) as peer:
            peer.sendall(command.encode() + b"\n")
            found = b""
            while not found.endswith(b".\n"):
                found += peer.recv(65_536)
        return [line.split("\t") for line in found.decode("latin-1").splitlines()[:-1]]

    def counts(self, function: str) -> tuple[int, int, int]:
        """Jobs, running jobs and workers of a function, as `status` tells them."""
        for name, jobs, running, workers in self.table("status"):
            if name == function:
                return int(jobs), int(running), int(workers)
        return 0, 0, 0

    def until_counts(self, function: str, jobs: int, running: int, workers: int) -> None:
        wanted = (jobs, running, workers)
        eventually(lambda: self.counts(function) == wanted, f"{function}: {wanted}")

    def waiting(self, unique: str) -> int:
        """How many clients wait for the job of this unique, asked for with a bare socket."""
        body = unique.encode()
        with socket.create_connection((HOST, self.port), timeout=DEADLINE_S) as peer:
            peer.sendall(b"\0REQ" + struct.pack(">II", 41, len(body)) + body)
            found = peer.recv(65_536)
        assert found[:8] == b"\0RES" + struct.pack(">I", 42)
        return int(found.rpartition(b"\0")[2])

    def path(self, name: str) -> Path:
        """A file of the test's own."""
        self._number += 1
        return self.folder / f"{name}-{self._number}"

    def _started(self, script: str, spec: Mapping[str, object]) -> Program:
        runner = {".js": self._node, ".pl": _perl, ".php": _php, ".py": _python}
        argv = runner[Path(script).suffix](script)
        program = self._program([*argv, json.dumps(spec)])
        program.said("ready")
        return program

    def _node(self, script: str) -> list[str]:
        return [self._find_node(), str(NODE / script)]

    def _program(self, argv: Sequence[str]) -> Program:
        return self._stack.enter_context(Program(argv, self.path("program")))


class AdminFailed(Exception):
    """What gearadmin prints when the server says no."""


_CLIENTS = {
    "gear": "gear_client.py",
    "python3-gearman": "python3_gearman_client.py",
    "aiogear": "aiogear_client.py",
    "gearmanode": "gearmanode.js",
    "abraxas": "abraxas.js",
    "node-gearman": "node-gearman.js",
    "perl": "perl_client.pl",
    "php": "php_client.php",
}
_WORKERS = {
    "gear": "gear_worker.py",
    "python3-gearman": "python3_gearman_worker.py",
    "aiogear": "aiogear_worker.py",
    "gearmanode": "gearmanode-work.js",
    "abraxas": "abraxas-work.js",
    "node-gearman": "node-gearman-work.js",
    "perl": "perl_worker.pl",
    "php": "php_worker.php",
}


def _python(script: str) -> list[str]:
    return [sys.executable, "-m", f"tests.real.gearman.programs.{Path(script).stem}"]


def _perl(script: str) -> list[str]:
    return ["perl", str(PROGRAMS / script)]


def _php(script: str) -> list[str]:
    return ["php", str(PROGRAMS / script)]
