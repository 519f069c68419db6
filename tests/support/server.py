"""A real server process that a test may start, kill, stop and start again.

The port stays the same across restarts, so that clients can come back as they would in life.
Everything the process says goes to a file beside its data directory; a start that fails shows it.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Self

from franca.node.settings import LISTENERS, flag_of
from tests.support.scoped import Scoped

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
PRODUCT: tuple[str, ...] = ("-m", "franca")
READY = b" is ready"
OF_TESTS = "FRANCA_CASES_"
LAUNCHER = "FRANCA_CASES_LAUNCHER"
"""What Python is told to run, where it is not the product as it is: a server with a planted bug."""

_POLL_S = 0.005
_TAIL_CHARS = 4_000
_PORT_FIRST, _PORT_LAST = 16_000, 32_000
_TEST_WORKERS = 8


class ServerFailed(RuntimeError):
    """The process ended, or did not answer, where the test needed it alive."""


def inherited() -> dict[str, str]:
    """This process's variables but for those of the tests, which the product takes for settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OF_TESTS)}


def launcher() -> Sequence[str]:
    """How Python runs the server that is tested."""
    return os.environ.get(LAUNCHER, "").split() or PRODUCT


def _own_ports() -> Iterator[int]:
    """Ports one after the other; those of tests that run at the same time are apart.

    Not those the kernel would choose: they are also given to outgoing connections, and a client
    that knocks while the server is down may then be connected to itself and hold the port.
    """
    ports = range(_PORT_FIRST, _PORT_LAST)
    if test_worker := os.environ.get("PYTEST_XDIST_WORKER"):
        ports = ports[int(test_worker.removeprefix("gw")) % _TEST_WORKERS :: _TEST_WORKERS]
    first = random.SystemRandom().randrange(len(ports))
    return cycle([*ports[first:], *ports[:first]])


_ports = _own_ports()


def free_port() -> int:
    """A TCP port that nobody listened on a moment ago."""
    for port in _ports:
        with suppress(OSError):
            # Asked for as the server will ask: a port in TIME_WAIT is not refused.
            socket.create_server((HOST, port)).close()
            return port
    raise AssertionError("the ports never end")


class Server(Scoped):
    """One data directory, and a port for each protocol it `speaks`, served by one process at a time.

    Every other listener is off: the default ports belong to nobody here, but for listeners that a
    test leaves `by_default` as they are. `port` is Faktory's.
    """

    def __init__(
        self, data: Path, *, extra_args: Sequence[str] = (), env: Mapping[str, str] | None = None,
        argv_prefix: Sequence[str] = (), port: int | None = None, speaks: Sequence[str] = (),
        by_default: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.data = data
        self.by_default = by_default
        self.port = free_port() if port is None else port
        self.ports = {"faktory": self.port}
        for name in speaks:
            self.ports.setdefault(name, free_port())
        self.extra_args = list(extra_args)
        self.env = dict(env or {})
        self.python = sys.executable
        self.argv_prefix = list(argv_prefix or launcher())
        self.log_path = data.parent / f"{data.name}.stderr"
        self._process: subprocess.Popen[bytes] | None = None

    # -- life ------------------------------------------------------------------------------

    def start(self, timeout: float = 30.0) -> Self:
        """Start the process and return once it says that it is ready: by then it listens.

        `ServerFailed` with its last words if it does not.
        """
        before = self.log_path.stat().st_size if self.log_path.exists() else 0
        self.launch()
        deadline = time.monotonic() + timeout
        while READY not in self.log_path.read_bytes()[before:]:
            code = self.process.poll()
            if code is not None:
                raise ServerFailed(f"the server ended with {code}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill9()
                raise ServerFailed(f"not ready within {timeout} s\n{self.log_tail()}")
            time.sleep(_POLL_S)
        return self

    def launch(self) -> None:
        """Start the process without waiting for it: for tests of a start that must not succeed."""
        assert self._process is None or self._process.poll() is not None, "already running"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv(), cwd=ROOT, env=inherited() | self.env, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip

    def kill9(self) -> None:
        """End the process as the kernel's OOM killer would, and wait until it is gone."""
        if self.running:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self, timeout: float = 30.0) -> int:
        """Ask the process to stop; its exit code. `ServerFailed` if it does not stop in time."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float) -> int:
        """The exit code of a process that is expected to end by itself."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise ServerFailed(f"did not stop within {timeout} s\n{self.log_tail()}") from None

    def restart(self, timeout: float = 30.0) -> Self:
        """Kill the process if it still runs, then start it again on the same data and port."""
        self.kill9()
        return self.start(timeout)

    # -- what can be seen from outside -----------------------------------------------------

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "never started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def rss_kib(self, what: str = "VmRSS") -> int:
        """Resident memory of the process; as `VmHWM`, the most that it has ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        if found := re.search(rf"^{what}:\s+(\d+)", status, re.MULTILINE):
            return int(found[1])
        raise ServerFailed("the process has no memory any more")

    def cpu_seconds(self) -> float:
        """User and system time the process has used so far."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        # The second field is the program's name in brackets and may itself hold spaces.
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log_lines(self) -> list[str]:
        """All that every process of this server has written, oldest first."""
        if not self.log_path.exists():
            return []
        return self.log_path.read_text(errors="replace").splitlines()

    def log_tail(self) -> str:
        return "\n".join(self.log_lines())[-_TAIL_CHARS:]

    # -- scope -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def close(self) -> None:
        if self._process is not None:
            self.kill9()

    # -- inside ----------------------------------------------------------------------------

    def _argv(self) -> list[str]:
        listeners: list[str] = []
        for name in LISTENERS:
            if name not in self.by_default:
                address = f"{HOST}:{self.ports[name]}" if name in self.ports else "off"
                listeners += [flag_of(name), address]
        return [
            self.python, *self.argv_prefix, "serve", "--data", str(self.data),
            *listeners, "--log-format", "json", *self.extra_args,
        ]  # fmt: skip


def listens(port: int, host: str = HOST) -> bool:
    """Whether anybody does, on this machine."""
    try:
        socket.create_connection((host, port), timeout=2.0).close()
    except OSError:
        return False
    return True
