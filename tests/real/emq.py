"""A peers for the real `eventmq` 0.3.13: its client, job manager, scheduler, shell and subscriber.

The package pins libraries that no longer build; it is installed without them, beside today's ones,
into a folder of its own, and run unchanged. With `FRANCA_TEST_EMQ_ROUTER=1` the same tests run
against the package's own daemons; `ORIGINAL` is for what they are known to do otherwise.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.real.fetched import pip
from tests.real.kit import Original, Program, Programs
from tests.support.server import HOST, ROOT, Server, free_port
from tests.support.shared import eventually

ORIGINAL = os.environ.get("FRANCA_TEST_EMQ_ROUTER") == "1"
PACKAGES = (
    "eventmq==0.3.13 croniter>=6 future>=1.0 psutil>=6 python-dateutil>=2.8 pyzmq>=26 six>=1.16"
)
"""All that the package needs, each without what it would bring along."""

JOBS = "tests.real.programs.eventmq_jobs"
ROLES = ("requests", "workers", "admin", "publish", "subscribe")

NOTICES_SOON = {"HEARTBEAT_TIMEOUT": 2}
"""Settings of a job manager that misses its broker after six seconds instead of fifteen."""

NO_REDIS = {"REDIS_STARTUP_ERROR_HARD_KILL": "false"}
NONE: Mapping[str, object] = {}

not_the_original = pytest.mark.skipif(ORIGINAL, reason="the original is known to do otherwise")


class Franca(Server):
    """One port for requests of every role; publishers and subscribers have their own."""

    def __init__(self, data: Path, args: Sequence[str] = ()) -> None:
        speaks = ("eventmq", "eventmq_publish", "eventmq_subscribe")
        super().__init__(data, speaks=speaks, extra_args=args)
        ports = [self.ports[name] for name in ("eventmq", "eventmq", *speaks)]
        self.addresses = dict(zip(ROLES, map(_address, ports), strict=True))


class Originals(Original):
    """`emq-router`, `emq-scheduler` and `emq-pubsub`, which forget everything when they die."""

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in ROLES]
        self.addresses = said = dict(zip(ROLES, map(_address, ports), strict=True))
        settings = {
            "FRONTEND_ADDR": said["requests"], "BACKEND_ADDR": said["workers"],
            "ADMINISTRATIVE_ADDR": said["admin"], "SCHEDULER_ADDR": said["requests"],
            "PUBLISHER_INCOMING_ADDR": said["publish"], "PUBLISHER_OUTGOING_ADDR": said["subscribe"],
            "WAL": folder / "wal.log", **NO_REDIS,
        }  # fmt: skip
        commands = [script(f"emq-{name}", settings) for name in ("router", "scheduler", "pubsub")]
        super().__init__(commands, ports, folder / "originals.stderr")


Broker = Franca | Originals
"""What the peers talk to."""


def script(name: str, settings: Mapping[str, object]) -> list[str]:
    """How a script of the package is run, with these settings of its own."""
    said = [f"EVENTMQ_{key}={value}" for key, value in settings.items()]
    return [*_python(*said), str(_peers() / "bin" / name)]


class Client(Program):
    """A process of the client library."""

    def do(self, verb: str, **how: Any) -> Any:
        """One word of `tests.real.programs.eventmq_client`."""
        return self.call(verb, how)

    def defer(self, job: str, *args: object, **how: Any) -> str:
        """A job of `JOBS` by `defer_job`; its message id."""
        return str(self.do("defer", func=f"{JOBS}.{job}", args=args, **how))

    def schedule(self, job: str, *args: object, **how: Any) -> str:
        """A job of `JOBS` by `schedule`."""
        return str(self.do("schedule", func=f"{JOBS}.{job}", args=args, **how))

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
        return dict(self.do("admin", command=command))

    def workers(self) -> dict[str, Any]:
        """Every connected job manager by its identity."""
        return dict(self.admin("ROUTER_SHOW_WORKERS")["connected_workers"])

    def until_schedulers(self, count: int) -> None:
        """Wait until so many schedulers are known."""
        known = "connected_schedulers"
        self._until(lambda: len(self.admin("ROUTER_SHOW_SCHEDULERS")[known]), count, known)

    def until_idle(self) -> None:
        """Wait until no job is waiting or running."""
        self._until(lambda: self.admin("STATUS")["inflight_messages_by_queue"], {}, "in flight")

    def until_slots(self, count: int) -> None:
        """Wait until the job managers together have so many free slots."""
        slots = "available_slots"
        self._until(lambda: sum(w[slots] for w in self.workers().values()), count, "free slots")

    def until_waiting(self, **wanted: int) -> None:
        """Wait until so many jobs wait in these queues, and none in any other."""
        self._until(lambda: self.admin("STATUS")["waiting_messages_by_queue"], wanted, "waiting")

    def _until(self, look: Callable[[], object], wanted: object, what: str) -> None:
        eventually(lambda: look() == wanted, f"{wanted} {what}")


class Manager(Program):
    """`emq-jobmanager` and the processes that it runs jobs in."""

    def ran(self, count: int) -> list[list[Any]]:
        """The arguments of the next jobs, in the order in which they ran."""
        return [self.said("ran")["args"] for _ in range(count)]

    def ran_before(self, last: object) -> list[list[Any]]:
        """The arguments of all jobs that ran before the one with this argument."""
        return list(iter(lambda: self.said("ran")["args"], [last]))


class EmqPeers(Programs):
    """Brokers and peers of the package."""

    def broker(self, *args: str) -> Broker:
        """A broker, started: Franca with these flags, or the original."""
        broker: Broker = Originals(self.folder) if ORIGINAL else Franca(self.folder / "data", args)
        self._stack.callback(broker.kill9)
        return broker.start()

    def client(self, broker: Broker) -> Client:
        """A client process that waits for words."""
        client = self.program("eventmq_client", json.dumps(broker.addresses))
        client.said("ready")
        return client

    def job_manager(
        self, broker: Broker | str, queues: Sequence[tuple[int, str]] = ((10, "default"),),
        jobs: int = 1, settings: Mapping[str, object] = NONE,
    ) -> Manager:  # fmt: skip
        """`emq-jobmanager`: its jobs tell of themselves. `settings` are its own, by their names."""
        address = broker if isinstance(broker, str) else broker.addresses["workers"]
        given = {
            "QUEUES": json.dumps(queues), "CONCURRENT_JOBS": jobs, "WORKER_ADDR": address,
            "WORKER_ADDR_DEFAULT": address, "WORKER_ADDR_FAILOVER": address,
            "GLOBAL_TIMEOUT": 60, **settings,
        }  # fmt: skip
        return self.started(Manager, *script("emq-jobmanager", given))

    def scheduler(self, broker: Broker) -> Program:
        """`emq-scheduler`, which keeps what it is told in its memory."""
        given = {"SCHEDULER_ADDR": broker.addresses["requests"], **NO_REDIS}
        return self.started(Program, *script("emq-scheduler", given))

    def program(self, module: str, *args: str) -> Client:
        """A program of ours that uses the package."""
        return self.started(Client, *_python(), "-m", f"tests.real.programs.{module}", *args)

    def shell(self, broker: Broker, *words: str) -> tuple[list[Any], str]:
        """What `emq-cli` prints when these words are typed: the answers it understood, and all."""
        argv = [*script("emq-cli", NONE), "-a", broker.addresses["admin"]]
        typed = "".join(f"{word}\n" for word in (*words, "quit"))
        done = subprocess.run(argv, cwd=ROOT, input=typed, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        # It prints dictionaries over several lines, each answer after a prompt.
        parts = [part.strip() for part in done.stdout.split("> ")]
        return [ast.literal_eval(part) for part in parts if part.startswith("{")], done.stdout


def _address(port: int) -> str:
    return f"tcp://{HOST}:{port}"


def _peers() -> Path:
    return pip("eventmq", *PACKAGES.split())


def _python(*variables: str) -> list[str]:
    """A Python that finds the package and its modules, with these variables besides."""
    path = os.pathsep.join((str(_peers()), str(ROOT)))
    return ["env", f"PYTHONPATH={path}", *variables, sys.executable]
