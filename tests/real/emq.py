"""A stage for the real `eventmq` 0.3.13: its client, job manager, scheduler, shell and subscriber.

The package pins libraries that no longer build; it is installed without them, beside today's ones,
into a folder of its own, and run unchanged. With `FRANCA_TEST_EMQ_ROUTER=1` the same tests run
against the package's own daemons; `ORIGINAL` is for what they are known to do otherwise.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.real.kit import Program, eventually
from tests.support.server import HOST, ROOT, Server, free_port

ORIGINAL = os.environ.get("FRANCA_TEST_EMQ_ROUTER") == "1"
PACKAGES = (
    "eventmq==0.3.13", "croniter>=6", "future>=1.0", "psutil>=6", "python-dateutil>=2.8",
    "pyzmq>=26", "six>=1.16",
)  # fmt: skip
"""All that the package needs, each without what it would bring along."""

JOBS = "tests.real.programs.eventmq_jobs"
ROLES = ("requests", "workers", "admin", "publish", "subscribe")

NOTICES_SOON = {"HEARTBEAT_TIMEOUT": 2}
"""Settings of a job manager that misses its broker after six seconds instead of fifteen."""

NONE: Mapping[str, object] = {}
P = TypeVar("P", bound=Program)

_TRIES_S = 10.0

not_the_original = pytest.mark.skipif(ORIGINAL, reason="the original is known to do otherwise")


def install() -> Path:
    """The folder with the package and its scripts; made once for each Python, by one process."""
    wanted = hashlib.sha256(" ".join((sys.version, *PACKAGES)).encode()).hexdigest()[:12]
    peers = ROOT / ".venv" / "peers"
    folder = peers / f"eventmq-{wanted}"
    peers.mkdir(parents=True, exist_ok=True)
    with (peers / "eventmq.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".installed").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
            done = subprocess.run(
                [*pip, "--target", str(folder), *PACKAGES], capture_output=True, text=True
            )
            if done.returncode != 0:
                reason = f"eventmq could not be installed, its peers are NOT tested:\n{done.stderr}"
                if os.environ.get("CI"):
                    pytest.fail(reason)
                pytest.skip(reason)
            (folder / ".installed").touch()
    return folder


class Broker(Protocol):
    """What the peers talk to: Franca, or the package's own daemons."""

    addresses: dict[str, str]

    def start(self) -> None: ...
    def kill9(self) -> None: ...
    def terminate(self) -> int: ...


class Franca:
    """One port for requests of every role; publishers and subscribers have their own."""

    def __init__(self, data: Path, args: Sequence[str] = ()) -> None:
        speaks = ("eventmq", "eventmq_publish", "eventmq_subscribe")
        self.server = Server(data, speaks=speaks, extra_args=args)
        named = dict.fromkeys(ROLES[:3], "eventmq")
        named |= {"publish": "eventmq_publish", "subscribe": "eventmq_subscribe"}
        self.addresses = {role: _address(self.server.ports[n]) for role, n in named.items()}

    def start(self) -> None:
        self.server.start()

    def kill9(self) -> None:
        self.server.kill9()

    def terminate(self) -> int:
        return self.server.terminate()


class Originals:
    """`emq-router`, `emq-scheduler` and `emq-pubsub`, which forget everything when they die."""

    def __init__(self, peers: Path, folder: Path) -> None:
        self._peers = peers
        self._folder = folder
        self.addresses = {role: _address(free_port()) for role in ROLES}
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        said = self.addresses
        env = _environment(self._peers) | {
            "EVENTMQ_FRONTEND_ADDR": said["requests"],
            "EVENTMQ_BACKEND_ADDR": said["workers"],
            "EVENTMQ_ADMINISTRATIVE_ADDR": said["admin"],
            "EVENTMQ_SCHEDULER_ADDR": said["requests"],
            "EVENTMQ_PUBLISHER_INCOMING_ADDR": said["publish"],
            "EVENTMQ_PUBLISHER_OUTGOING_ADDR": said["subscribe"],
            "EVENTMQ_WAL": str(self._folder / "wal.log"),
            "EVENTMQ_REDIS_STARTUP_ERROR_HARD_KILL": "false",
        }
        for name in ("emq-router", "emq-scheduler", "emq-pubsub"):
            with (self._folder / f"{name}.stderr").open("ab") as log:
                argv = [sys.executable, str(self._peers / "bin" / name)]
                self._running.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log))
        for role in ROLES:
            _until_listening(said[role])

    def kill9(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        self._end(signal.SIGTERM)
        return 0

    def _end(self, how: signal.Signals) -> None:
        for process in self._running:
            process.send_signal(how)
            process.wait()
        self._running.clear()


class Client(Program):
    """A process of the client library."""

    def do(self, verb: str, **how: Any) -> Any:
        """One word of `tests.real.programs.eventmq_client`."""
        return self.call(verb, how)

    def defer(self, job: str, *args: object, **how: Any) -> str:
        """A job of `JOBS` by `defer_job`; its message id."""
        found: str = self.do("defer", func=f"{JOBS}.{job}", args=args, **how)
        return found

    def schedule(self, job: str, *args: object, **how: Any) -> str:
        """A job of `JOBS` by `schedule`."""
        found: str = self.do("schedule", func=f"{JOBS}.{job}", args=args, **how)
        return found

    def unschedule(self, job: str, *args: object) -> str:
        """The same call once more, to be forgotten."""
        return self.schedule(job, *args, unschedule=True)

    def subscribe(self, prefix: str) -> None:
        """Subscribe, and publish until the first message comes: more of them may be on their way."""
        self.do("subscribe", prefix=prefix)

        def reached() -> bool:
            self.do("publish", topic=prefix, message="?")
            return bool(self.do("heard", prefix=prefix, count=1, within_ms=50))

        eventually(reached, f"the subscription of {prefix!r}")

    def admin(self, command: str) -> dict[str, Any]:
        """An admin's question and its answer."""
        found: dict[str, Any] = self.do("admin", command=command)
        return found

    def workers(self) -> dict[str, Any]:
        """Every connected job manager by its identity."""
        found: dict[str, Any] = self.admin("ROUTER_SHOW_WORKERS")["connected_workers"]
        return found

    def until_workers(self, count: int) -> None:
        """Wait until so many job managers are known."""
        eventually(lambda: len(self.workers()) == count, f"{count} job managers")

    def until_schedulers(self, count: int) -> None:
        """Wait until so many schedulers are known."""

        def look() -> bool:
            known = self.admin("ROUTER_SHOW_SCHEDULERS")["connected_schedulers"]
            return len(known) == count

        eventually(look, f"{count} schedulers")

    def until_idle(self) -> None:
        """Wait until no job is waiting or running."""
        eventually(
            lambda: self.admin("STATUS")["inflight_messages_by_queue"] == {}, "an idle server"
        )

    def until_slots(self, count: int) -> None:
        """Wait until the job managers together have so many free slots."""

        def look() -> bool:
            slots: int = sum(worker["available_slots"] for worker in self.workers().values())
            return slots == count

        eventually(look, f"{count} free slots in {self.workers()}")

    def until_waiting(self, **wanted: int) -> None:
        """Wait until so many jobs wait in these queues, and none in any other."""

        def look() -> bool:
            return bool(self.admin("STATUS")["waiting_messages_by_queue"] == wanted)

        eventually(look, f"{wanted} waiting")


class Manager(Program):
    """`emq-jobmanager` and the processes that it runs jobs in."""

    def ran(self, count: int) -> list[list[Any]]:  # type: ignore[override]
        """The arguments of the next jobs, in the order in which they ran."""
        return [self.said("ran")["args"] for _ in range(count)]

    def ran_before(self, last: object) -> list[list[Any]]:
        """The arguments of all jobs that ran before the one with this argument."""
        return list(iter(lambda: self.said("ran")["args"], [last]))

    def heard(self, event: str = "ran") -> list[dict[str, Any]]:
        """All of this kind that it has said and nobody asked for yet, without waiting."""
        while not self._events.empty():
            told = self._events.get()
            if told is None:
                self._events.put(None)
                break
            self._unclaimed.append(told)
        found = [told for told in self._unclaimed if told["event"] == event]
        self._unclaimed = [told for told in self._unclaimed if told["event"] != event]
        return found

    def kill9(self) -> None:
        """End it and its processes, in the middle of whatever they do."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class EmqStage:
    """What one test needs; everything ends with it."""

    def __init__(self, folder: Path, stack: ExitStack, peers: Path) -> None:
        self.folder = folder
        self._stack = stack
        self._peers = peers
        self._number = 0

    def broker(self, *args: str) -> Broker:
        """A broker, started: Franca with these flags, or the original."""
        broker: Broker
        if ORIGINAL:
            broker = Originals(self._peers, self.folder)
        else:
            broker = Franca(self.folder / "data", args)
        self._stack.callback(broker.kill9)
        broker.start()
        return broker

    def client(self, broker: Broker) -> Client:
        """A client process that waits for words."""
        spec = json.dumps(dict(broker.addresses))
        module = "tests.real.programs.eventmq_client"
        client = Client(self._argv([], "-m", module, spec), self._log())
        self._stack.enter_context(client)
        client.said("ready")
        return client

    def job_manager(
        self,
        broker: Broker | str,
        queues: Sequence[tuple[int, str]] = ((10, "default"),),
        jobs: int = 1,
        settings: Mapping[str, object] = NONE,
    ) -> Manager:
        """`emq-jobmanager`: its jobs tell of themselves. `settings` are its own, by their names."""
        address = broker if isinstance(broker, str) else broker.addresses["workers"]
        given = {
            "QUEUES": json.dumps(queues), "CONCURRENT_JOBS": jobs, "WORKER_ADDR": address,
            "WORKER_ADDR_DEFAULT": address, "WORKER_ADDR_FAILOVER": address,
            "GLOBAL_TIMEOUT": 60, **settings,
        }  # fmt: skip
        return self._script(Manager, "emq-jobmanager", given)

    def scheduler(self, broker: Broker) -> Program:
        """`emq-scheduler`, which keeps what it is told in its memory."""
        given = {
            "SCHEDULER_ADDR": broker.addresses["requests"],
            "REDIS_STARTUP_ERROR_HARD_KILL": "false",
        }  # fmt: skip
        return self._script(Program, "emq-scheduler", given)

    def program(self, module: str, *args: str) -> Program:
        """A program of ours that uses the package."""
        argv = self._argv([], "-m", f"tests.real.programs.{module}", *args)
        return self._stack.enter_context(Program(argv, self._log()))

    def shell(self, broker: Broker, *words: str) -> tuple[list[Any], str]:
        """What `emq-cli` prints when these words are typed: the answers it understood, and all."""
        argv = self._argv([], str(self._peers / "bin" / "emq-cli"), "-a", broker.addresses["admin"])
        typed = "".join(f"{word}\n" for word in (*words, "quit"))
        done = subprocess.run(argv, cwd=ROOT, input=typed, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        # It prints dictionaries over several lines, each answer after a prompt.
        parts = [part.strip() for part in done.stdout.split("> ")]
        return [ast.literal_eval(part) for part in parts if part.startswith("{")], done.stdout

    def _script(self, kind: type[P], name: str, settings: Mapping[str, object]) -> P:
        said = [f"EVENTMQ_{key}={value}" for key, value in settings.items()]
        argv = self._argv(said, str(self._peers / "bin" / name))
        program = kind(argv, self._log())
        self._stack.enter_context(program)
        return program

    def _argv(self, settings: Sequence[str], *python: str) -> list[str]:
        path = _environment(self._peers)["PYTHONPATH"]
        return ["env", f"PYTHONPATH={path}", *settings, sys.executable, *python]

    def _log(self) -> Path:
        self._number += 1
        return self.folder / f"peer-{self._number}.stderr"


def _address(port: int) -> str:
    return f"tcp://{HOST}:{port}"


def _environment(peers: Path) -> dict[str, str]:
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join((str(peers), str(ROOT)))}


def _until_listening(address: str) -> None:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    deadline = time.monotonic() + _TRIES_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1.0).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {address}"
            time.sleep(0.02)
