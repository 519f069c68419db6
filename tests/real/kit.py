"""Real clients and workers as processes, servers of others, and the Faktory libraries.

A program of a client library tells what it does as JSON, one object a line, on its standard
output: `ready`, `started`, `ran`, `stopped`, or the answer to a call. Nothing here waits for a
fixed time: everything is awaited, up to a deadline that only a broken server reaches.
"""

import difflib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import faktory
import pyfaktory
import pytest

from tests.real.fetched import node
from tests.support.faktory import Faktory, JobDict
from tests.support.scoped import Scoped
from tests.support.server import HOST, ROOT, Server, listens
from tests.support.shared import DEADLINE_S, eventually

REAL = Path(__file__).parent
PYTHON_KINDS = ("pyfaktory", "faktory")
NODE_KINDS = ("faktory-worker", "faktory-client")
KINDS = PYTHON_KINDS + NODE_KINDS
"""The four client libraries, by the names under which they are published."""

_TAIL_CHARS = 4_000


def compare(path: Path, found: str) -> None:
    """Fail if a transcript is not what was kept of it; UPDATE_TRANSCRIPTS=1 keeps it."""
    if os.environ.get("UPDATE_TRANSCRIPTS") == "1":
        path.write_text(found, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = kept.splitlines(), found.splitlines()
    changes = difflib.unified_diff(*lines, "as kept", "as heard now", lineterm="")
    if found != kept:
        pytest.fail("\n".join([f"{path} differs", *changes]), pytrace=False)


# -- programs --------------------------------------------------------------------------------------


class CallRefused(Exception):
    """A client library threw; the text is that of its error."""


class Program(Scoped):
    """A process that tells what it does. Its children end with it."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._log = log
        self._told: list[dict[str, Any]] = []
        self._is_over = False
        self._numbers = count(1)
        self._news = threading.Condition()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("FAKTORY_", "GEARMAN_"))}
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                list(argv), cwd=ROOT, env=env, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def said(self, event: str, **facts: object) -> dict[str, Any]:
        """The next thing of this kind that it says, or has said and nobody asked for yet."""
        wanted = {"event": event, **facts}.items()

        def found() -> dict[str, Any] | None:
            return next((told for told in self._told if wanted <= told.items()), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._is_over, DEADLINE_S)
            told = found()
            if told is None:
                code = self.process.poll()
                raise AssertionError(f"no {event!r}, exit code {code}\n{self.stderr()}")
            self._told.remove(told)
        return told

    def has_said(self, event: str = "ran") -> list[dict[str, Any]]:
        """All of this kind that it has said by now and nobody asked for yet."""
        with self._news:
            found = [each for each in self._told if each["event"] == event]
            self._told = [each for each in self._told if each["event"] != event]
        return found

    def tell(self, value: object) -> None:
        """One line of JSON to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def begin_call(self, verb: str, *args: object) -> Callable[[], Any]:
        """Have a client do something; what is returned waits for the result, or `CallRefused`.

        Calls have numbers, so that an answer nobody waited for is not taken for that of a later one.
        """
        number = next(self._numbers)
        self.tell([number, verb, *args])

        def result() -> Any:
            answer = self.said("answer", number=number)
            if "error" in answer:
                raise CallRefused(answer["error"])
            return answer.get("value")

        return result

    def call(self, verb: str, *args: object) -> Any:
        """Have a client do something; its result."""
        return self.begin_call(verb, *args)()

    def terminate(self) -> None:
        """Ask it to stop, as an init system would."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end\n{self.stderr()}") from None

    def stderr(self) -> str:
        """The last of what it wrote for people."""
        return self._log.read_text(errors="replace")[-_TAIL_CHARS:]

    def close(self) -> None:
        """End it and its children, in the middle of whatever they do."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith(b"{"):
                    with self._news:
                        self._told.append(json.loads(line))
                        self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()


P = TypeVar("P", bound=Program)


class Programs:
    """What one test starts and writes; programs end with it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._number = 0

    def path(self, name: str) -> Path:
        """A file of the test's own."""
        self._number += 1
        return self.folder / f"{name}-{self._number}"

    def started(self, kind: type[P], *argv: str) -> P:
        """A program that has just been started."""
        program = kind(argv, self.path("program"))
        self._stack.callback(program.close)
        return program

    def ready(self, kind: type[P], script: str, spec: object) -> P:
        """A program of ours by its path, which is told what to be and has said that it is ready."""
        path = REAL / script
        match path.suffix:
            case ".py":
                argv = [sys.executable, "-m", f"tests.real.{script[:-3].replace('/', '.')}"]
            case ".js":
                argv = [node(), str(path)]
            case suffix:
                argv = [suffix[1:].replace("pl", "perl"), str(path)]
        program = self.started(kind, *argv, json.dumps(spec))
        program.said("ready")
        return program


# -- servers ---------------------------------------------------------------------------------------


class Original(Scoped):
    """Somebody else's server: processes that are started and killed together."""

    def __init__(self, commands: Sequence[Sequence[str]], ports: Sequence[int], log: Path) -> None:
        self._commands = commands
        self._ports = ports
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> Self:
        with self._log.open("ab") as log:
            self._processes = [
                subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                for argv in self._commands
            ]
        eventually(self._has_started, f"{self._commands[0][0]} listens")
        return self

    def _has_started(self) -> bool:
        ended = [process.args for process in self._processes if process.poll() is not None]
        assert not ended, f"ended at the start: {ended}"
        return all(map(listens, self._ports))

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The first of them."""
        return self._processes[0]

    def kill9(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        return self._end(signal.SIGTERM)

    def restart(self) -> Self:
        self.kill9()
        return self.start()

    def wait(self, timeout: float) -> int:
        return self.process.wait(timeout)

    close = kill9

    def _end(self, how: signal.Signals) -> int:
        for process in self._processes:
            process.send_signal(how)
        return max(process.wait(DEADLINE_S) for process in self._processes)


# -- Faktory ---------------------------------------------------------------------------------------


def url(port: int, password: str = "", scheme: str = "tcp") -> str:
    """An address as the clients take it."""
    secret = ":" + quote(password, safe="") + "@" if password else ""
    return f"{scheme}://{secret}{HOST}:{port}"


def counts(port: int) -> dict[str, int]:
    """What a witness reads in INFO: the sets, the totals, `workers`, and each queue's length."""
    with Faktory(port) as witness:
        facts = witness.hello().info()["faktory"]
    found: dict[str, int] = {f"queue {name}": size for name, size in facts["queues"].items()}
    found |= {name: facts[name] for name in ("total_processed", "total_failures")}
    found |= facts["sets"] | {"workers": facts["tasks"]["Workers"]["size"]}
    return found


def until_counts(port: int, **wanted: int) -> dict[str, int]:
    """INFO, once it shows these numbers."""

    def look() -> dict[str, int] | None:
        found = counts(port)
        return found if wanted.items() <= found.items() else None

    return eventually(look, f"{wanted} in INFO")


def take(port: int, name: str = "default") -> JobDict:
    """The next job of a queue as it comes over the wire, fetched and acknowledged by a witness."""
    with Faktory(port) as witness:
        found = witness.hello(wid="witness-1").fetch(name)
        assert found is not None, f"nothing in {name}"
        witness.ack(found["jid"])
    return found


class Worker(Program):
    """A worker of Faktory."""

    def ran(self, count: int) -> dict[str, Any]:
        """The arguments of the next jobs it runs, by jid."""
        return {each["jid"]: each["args"] for each in (self.said("ran") for _ in range(count))}


class Peers(Programs):
    """Servers, and peers of the Faktory libraries."""

    def server(
        self, *, password: str = "", args: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> Server:
        """A server of its own data directory and port, started."""
        variables = {"FAKTORY_PASSWORD": password, **(env or {})}
        return self._stack.enter_context(Server(self.path("data"), extra_args=args, env=variables))

    def worker(self, kind: str, address: str, wid: str = "worker-1", **spec: object) -> Worker:
        """A worker of that library, connected, and running unless told to `hold`."""
        said = {"url": address, "wid": wid, "queues": ["default"], "beat_s": 60, **spec}
        script = f"node/{kind}-work.js" if kind in NODE_KINDS else f"programs/{kind}_worker.py"
        return self.ready(Worker, script, said)

    def client(self, kind: str, address: str, **spec: object) -> Program:
        """A client of one of the Node libraries, to be told what to do with `call`."""
        return self.ready(Program, f"node/{kind}.js", {"url": address, **spec})

    def push(
        self, kind: str, address: str, jid: str, jobtype: str, *args: object, **fields: object
    ) -> None:
        """Push a job into `default` with the library of that name, in its own words."""
        if kind == "pyfaktory":
            with pyfaktory.Client(faktory_url=address, role="producer") as producer:
                job = pyfaktory.Job(jid=jid, jobtype=jobtype, args=list(args), **fields)
                assert pyfaktory.Producer(producer).push(job)
        elif kind == "faktory":
            with faktory.connection(address) as connection:
                assert connection.queue(jobtype, args=list(args), jid=jid, **fields)
        else:
            client = self.client(kind, address)
            client.call("connect")
            job = {"jid": jid, "jobtype": jobtype, "args": args, **fields}
            assert client.call("push", job) == jid
