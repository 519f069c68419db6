"""The servers that Franca is compared with: how each is got and started."""

import shutil
import subprocess
import sys
from pathlib import Path

from bench.build import BUILD, CannotBuild
from bench.servers import Server, await_listening, free_port, spawn

PYNNG = ["pynng==0.9.0", "cbor2"]
EVENTMQ = ["eventmq==0.3.13"]
# What eventmq asks for is so old that it must be compiled; it works with the newest as well.
EVENTMQ_NEEDS = ["pyzmq", "six", "monotonic", "croniter", "future", "psutil"]


def start_gearmand(queue: str, directory: Path) -> Server:
    """Debian's gearmand, with `queue` as its --queue-type; it listens when this returns."""
    gearmand = shutil.which("gearmand", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if gearmand is None:
        raise CannotBuild("gearmand is not here (Debian: apt install gearman-job-server)")
    port, log = free_port(), directory / "gearmand.log"
    command = [gearmand, "--port", str(port), "--listen", "127.0.0.1", "--queue-type", queue]
    command += ["--log-file", "stderr", "--pid-file", str(directory / "gearmand.pid")]
    if queue == "libsqlite3":
        command += ["--libsqlite3-db", str(directory / "queue.db")]
    server = Server(f"gearmand {queue}", port, spawn(command, log), log)
    await_listening(server)
    return server


def start_beanstalkd(directory: Path) -> Server:
    """Debian's beanstalkd with a log, synced for each write; it listens when this returns."""
    beanstalkd = shutil.which("beanstalkd")
    if beanstalkd is None:
        raise CannotBuild("beanstalkd is not here (Debian: apt install beanstalkd)")
    port, log = free_port(), directory / "beanstalkd.log"
    command = [beanstalkd, "-l", "127.0.0.1", "-p", str(port), "-b", str(directory), "-f0"]
    server = Server("beanstalkd", port, spawn(command, log), log)
    await_listening(server)
    return server


def start_pynng_broker(contexts: int, directory: Path) -> Server:
    """The minimal broker on NNG's contexts; it listens when this returns."""
    port, log = free_port(), directory / "pynng.log"
    command = [sys.executable, "-m", "bench.peers.pynng_broker", str(port), str(contexts)]
    server = Server("pynng", port, spawn(command, log, modules=installed("pynng", PYNNG)), log)
    await_listening(server)
    return server


def start_emq_router(directory: Path) -> Server:
    """EventMQ's own router; it listens when this returns."""
    modules = installed("eventmq", EVENTMQ, EVENTMQ_NEEDS)
    clients, workers, admin, log = free_port(), free_port(), free_port(), directory / "router.log"
    process = spawn(
        [sys.executable, str(modules / "bin" / "emq-router")],
        log,
        modules,
        extra={
            "EVENTMQ_FRONTEND_ADDR": f"tcp://127.0.0.1:{clients}",
            "EVENTMQ_BACKEND_ADDR": f"tcp://127.0.0.1:{workers}",
            "EVENTMQ_ADMINISTRATIVE_ADDR": f"tcp://127.0.0.1:{admin}",
        },
    )
    server = Server("emq-router", clients, process, log, worker_port=workers)
    await_listening(server)
    return server


def installed(name: str, packages: list[str], needs: list[str] | None = None) -> Path:
    """A folder of our build with `packages` in it, installed on first use.

    With `needs` given, those are installed instead of what the packages themselves ask for.
    """
    target = BUILD / "peers" / name
    if (target / "complete").exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    _install(target, packages, *(["--no-deps"] if needs else []))
    if needs:
        _install(target, needs)
    (target / "complete").touch()
    return target


def _install(target: Path, packages: list[str], *flags: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    command = [*pip, *flags, "--target", str(target), *packages]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CannotBuild(f"{', '.join(packages)} cannot be installed:\n{result.stderr}")
