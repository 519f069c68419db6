"""The servers under test: processes of their own, watched from outside, killed at the end."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.build import BUILD, ROOT
from franca.node.settings import LISTENERS, flag_of
from franca.protocols.registry import PROTOCOLS
from franca.web.settings import NAME as WEB

START_TIMEOUT_S = 30.0
RETRY_EVERY_S = 0.005
STATUS_TIMEOUT_S = 2.0

SOURCE = ROOT / "src"
MEMORY_MAX_KB = 8_000_000
FOREIGN_SETTINGS = ("FRANCA_", "FAKTORY_", "GEARMAND_", "EVENTMQ_")

Process = subprocess.Popen[bytes]

NOTHING: Mapping[str, str] = {}
# The values of `serve --store` that the benchmarks know; the embedded store is the default.
STORE_FLAGS: dict[str, list[str]] = {"sqlite": [], "memory": ["--store", "memory:"]}


class ServerFailed(Exception):
    """A server did not start, or died; the text ends with the last lines it wrote."""


@dataclass(slots=True)
class Server:
    """A running server, seen from outside."""

    name: str
    port: int
    process: Process
    log: Path
    data: Path | None = None
    worker_port: int | None = None  # where workers connect, if not where clients do
    ports: dict[str, int] = field(default_factory=dict)  # by protocol, where it speaks several

    def rss_mb(self) -> float:
        """Resident memory now, in megabytes of a million bytes."""
        return self._status_kb("VmRSS") * 1024 / 1e6

    def rss_max_mb(self) -> float:
        """The most memory that was ever resident: the kernel keeps it, no peak goes unseen."""
        return self._status_kb("VmHWM") * 1024 / 1e6

    def cpu_s(self) -> float:
        """Processor time so far."""
        user, system = self._proc("stat").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def loop_lag_p99_ms(self) -> float | None:
        """The event loop's lag as the server tells it, or None where it does not."""
        if self.data is None:
            return None
        try:
            status = control_status(self.data / "control.sock")
        except (OSError, ValueError):
            return None
        lag = status.get("loop_lag_p99_ms")
        return float(lag) if isinstance(lag, int | float) else None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def _status_kb(self, key: str) -> int:
        for line in self._proc("status").splitlines():
            name, _, value = line.partition(":")
            if name == key:
                return int(value.split()[0])
        raise ServerFailed(f"{self.name} has no {key}: it died\n{tail(self.log)}")

    def _proc(self, name: str) -> str:
        return Path(f"/proc/{self.process.pid}/{name}").read_text()


def control_status(path: Path, timeout_s: float = STATUS_TIMEOUT_S) -> dict[str, object]:
    """What `server.status` answers on the control socket at `path`."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(timeout_s)
        # A unix socket's path has at most 107 bytes and a data directory may lie deeper:
        # an open directory's name under /proc is always short.
        directory = os.open(path.parent, os.O_PATH)
        try:
            sock.connect(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)
        sock.sendall(b'{"op":"server.status"}\n')
        with sock.makefile("rb") as lines:
            answer = json.loads(lines.readline())
    result = answer.get("result") if isinstance(answer, dict) else None
    return result if isinstance(result, dict) else {}


def start_echo() -> Server:
    """Start the echo server; it listens when this returns."""
    port = free_port()
    log = BUILD / "echo.log"
    process = spawn([sys.executable, "-m", "bench.echo", str(port)], log)
    server = Server("echo", port, process, log)
    await_listening(server)
    return server


def start_franca(
    store: str,
    data: Path,
    port: int | None = None,
    *flags: str,
    protocol: str = "faktory",
    source: Path = SOURCE,
    has_web: bool = False,
) -> Server:
    """Start a server of one protocol and return at once: `await_ready` tells when it answers.

    `source` is where its package is, if not in this tree. The web side is off but with `has_web`.
    """
    ports = {protocol: port or free_port()} | ({WEB: free_port()} if has_web else {})
    process = _serve(data, ports, *STORE_FLAGS[store], *flags, source=source)
    return Server(store, ports[protocol], process, _log_of(data), data, ports=ports)


def start_all(
    data: Path,
    *flags: str,
    files: int | None = None,
    extra: Mapping[str, str] = NOTHING,
    has_web: bool = False,
) -> Server:
    """Start a durable server of all protocols; it answers when this returns.

    `port` is Faktory's. `files` is how many it may have open, if not as many as we may, and `extra`
    what its environment has besides ours. The web side is off but with `has_web`.
    """
    names = (*PROTOCOLS, "eventmq_subscribe", *([WEB] if has_web else []))
    ports = {name: free_port() for name in names}
    # A server that would take all memory of the machine fails, and nobody else does.
    limits = f"ulimit -v {MEMORY_MAX_KB}" + (f" && ulimit -n {files}" if files else "")
    process = _serve(data, ports, *flags, limits=limits, extra=extra)
    server = Server("franca", ports["faktory"], process, _log_of(data), data, ports=ports)
    for port in ports.values():
        await_listening(replace(server, port=port))
    return server


def _serve(
    data: Path,
    ports: dict[str, int],
    *flags: str,
    source: Path = SOURCE,
    limits: str = "",
    extra: Mapping[str, str] = NOTHING,
) -> Process:
    """A process that serves these protocols and no others, under these limits of the shell."""
    command = [sys.executable, "-m", "franca", "serve", "--data", str(data)]
    for name in LISTENERS:
        # An earlier commit has no flag for a protocol that it does not speak.
        if name in ports:
            command += [flag_of(name), f"127.0.0.1:{ports[name]}"]
        elif any(
            (source / "franca" / folder / name.partition("_")[0]).is_dir()
            for folder in (".", "protocols")
        ):
            command += [flag_of(name), "off"]
    command += ["--log-format", "json", *flags]
    if limits:
        command = ["sh", "-c", f'{limits} && exec "$0" "$@"', *command]
    return spawn(command, _log_of(data), source=source, extra=extra)


def _log_of(data: Path) -> Path:
    return data.with_suffix(".log")


@contextmanager
def franca(
    store: str, protocol: str, parent: Path, source: Path = SOURCE, *, has_web: bool = False
) -> Iterator[Server]:
    """A server of one protocol that listens, in a fresh directory, as long as the block lasts."""
    with ExitStack() as stack:
        data = stack.enter_context(scratch(parent)) / "data"
        started = start_franca(store, data, protocol=protocol, source=source, has_web=has_web)
        server = stack.enter_context(running(started))
        for port in server.ports.values():
            await_listening(replace(server, port=port))
        yield server


def await_ready(server: Server, timeout_s: float = START_TIMEOUT_S) -> None:
    """Return when the server greets a new connection as a Faktory server does."""
    await_line(server, b"+HI ", timeout_s)


def await_listening(server: Server) -> None:
    """Return when the server takes connections, in a protocol in which it does not speak first."""
    await_line(server, b"", START_TIMEOUT_S)


def await_line(server: Server, greeting: bytes, timeout_s: float) -> None:
    """Return when the server accepts a connection on which it says `greeting` first."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            code = server.process.returncode
            raise ServerFailed(f"{server.name} ended with code {code}\n{tail(server.log)}")
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s) as sock:
                if not greeting or sock.recv(4096).startswith(greeting):
                    return
        except OSError:
            pass
        time.sleep(RETRY_EVERY_S)
    server.kill()
    raise ServerFailed(f"{server.name} did not answer in {timeout_s:.0f} s\n{tail(server.log)}")


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, killed when the block ends however it ends. Its data is nobody's, so no grace."""
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A fresh directory on a real disk, removed afterwards.

    Not in the system's temporary directory, which is memory on many machines: there a sync is free.
    """
    parent = parent or BUILD
    parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def spawn(
    command: list[str],
    log: Path,
    modules: Path | None = None,
    source: Path = SOURCE,
    extra: Mapping[str, str] = NOTHING,
) -> Process:
    """Start a command; what it says goes to `log`.

    `source` is where it finds our package, `modules` where else it finds modules, and `extra` what
    its environment has besides ours.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**environment(modules, source), **extra},
        )


def environment(modules: Path | None = None, source: Path = SOURCE) -> dict[str, str]:
    """Ours, with the package's own modules first and without settings meant for another server."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN_SETTINGS)}
    path = [str(source), str(ROOT), str(modules or ""), kept.get("PYTHONPATH", "")]
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
