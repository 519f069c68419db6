"""A stage for real clients: servers, worker processes and Node clients, all ended with the test.

A program of a client library tells what it does as JSON, one object a line, on its standard
output: `ready`, `started`, `ran`, `stopped`, or the answer to a call. Nothing here waits for a
fixed time: everything is awaited, up to a deadline that only a broken server reaches.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import trustme

from tests.support.faktory import Faktory, JobDict
from tests.support.scoped import Scoped
from tests.support.server import HOST, ROOT, Server

DEADLINE_S = 30.0
NODE = Path(__file__).with_name("node")

PYTHON_KINDS = ("pyfaktory", "faktory")
NODE_KINDS = ("faktory-worker", "faktory-client")
KINDS = PYTHON_KINDS + NODE_KINDS
"""The four client libraries, by the names under which they are published."""

_POLL_S = 0.02
_TAIL_CHARS = 4_000
T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str) -> T:
    """The first answer of `look` that is neither None nor False."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(_POLL_S)


def url(port: int, password: str = "", scheme: str = "tcp") -> str:
    """An address as the clients take it."""
    secret = ":" + quote(password, safe="") + "@" if password else ""
    return f"{scheme}://{secret}{HOST}:{port}"


def counts(port: int, password: str | None = None) -> dict[str, int]:
    """What a witness reads in INFO: the sets, the totals, `workers`, and each queue's length."""
    with Faktory(port) as witness:
        facts = witness.hello(password=password).info()["faktory"]
    found: dict[str, int] = {f"queue {name}": size for name, size in facts["queues"].items()}
    found |= facts["sets"]
    found |= {name: facts[name] for name in ("total_processed", "total_failures")}
    found["workers"] = facts["tasks"]["Workers"]["size"]
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


class ProgramFailed(AssertionError):
    """A program ended, or said nothing, where the test needed its word."""


class CallRefused(Exception):
    """A client library threw; the text is that of its error."""


class Program(Scoped):
    """A process that tells what it does. Its children end with it."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._log = log
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._unclaimed: list[dict[str, Any]] = []
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
        wanted = {"event": event, **facts}
        for index, early in enumerate(self._unclaimed):
            if wanted.items() <= early.items():
                return self._unclaimed.pop(index)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            told = self._next(deadline, event)
            if wanted.items() <= told.items():
                return told
            self._unclaimed.append(told)

    def has_said(self, event: str) -> list[dict[str, Any]]:
        """All of this kind that it has said by now and nobody asked for yet."""
        while True:
            try:
                told = self._events.get_nowait()
            except queue.Empty:
                break
            if told is None:
                self._events.put(None)
                break
            self._unclaimed.append(told)
        found = [each for each in self._unclaimed if each["event"] == event]
        self._unclaimed = [each for each in self._unclaimed if each["event"] != event]
        return found

    def ran(self, count: int) -> dict[str, Any]:
        """The arguments of the next jobs it runs, by jid."""
        told = [self.said("ran") for _ in range(count)]
        return {each["jid"]: each["args"] for each in told}

    def tell(self, value: object) -> None:
        """One line of JSON to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, verb: str, *args: object) -> Any:
        """Have a Node client do something; what its promise resolves to, or `CallRefused`."""
        self.tell([verb, *args])
        answer = self.said("answer")
        if "error" in answer:
            raise CallRefused(answer["error"])
        return answer.get("value")

    def terminate(self) -> None:
        """Ask it to stop, as an init system would."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise ProgramFailed(f"did not end\n{self.stderr()}") from None

    def stderr(self) -> str:
        """The last of what it wrote for people."""
        return self._log.read_text(errors="replace")[-_TAIL_CHARS:]

    def close(self) -> None:
        """End it and its children, whatever they do."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _next(self, deadline: float, wanted: str) -> dict[str, Any]:
        try:
            told = self._events.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            told = None
        if told is None:
            code = self.process.poll()
            raise ProgramFailed(f"no {wanted!r}, exit code {code}\n{self.stderr()}")
        return told

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{"):
                self._events.put(json.loads(line))
        self._events.put(None)


class TlsServer(Server):
    """A server whose every word is encrypted, its greeting too."""

    def _greets(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with (
                socket.create_connection((HOST, self.port), timeout=1.0) as raw,
                context.wrap_socket(raw) as peer,
            ):
                return peer.recv(3) == b"+HI"
        except OSError:
            return False


class Stage:
    """What one test needs; `find_node` skips the test where there is no Node."""

    def __init__(self, folder: Path, stack: ExitStack, find_node: Callable[[], str]) -> None:
        self.folder = folder
        self._stack = stack
        self._find_node = find_node
        self._number = 0

    def server(
        self,
        *,
        password: str = "",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        tls: bool = False,
    ) -> Server:
        """A server of its own data directory and port, started."""
        self._number += 1
        make = TlsServer if tls else Server
        environment = {"FAKTORY_PASSWORD": password, **(env or {})}
        data = self.folder / f"data-{self._number}"
        return self._stack.enter_context(make(data, extra_args=args, env=environment))

    def certificate(self, ca: trustme.CA) -> list[str]:
        """The flags of a server that shows a certificate of this authority."""
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        issued = ca.issue_cert(HOST, "localhost")
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return ["--tls-cert", str(cert), "--tls-key", str(key)]

    def worker(self, kind: str, address: str, wid: str = "worker-1", **spec: object) -> Program:
        """A worker of that library, connected, and running unless told to `hold`."""
        said = {"url": address, "wid": wid, "queues": ["default"], "beat_s": 60, **spec}
        if kind in NODE_KINDS:
            program = self._node(f"{kind}-work.js", said)
        else:
            module = f"tests.real.programs.{kind}_worker"
            program = self._program([sys.executable, "-m", module, json.dumps(said)])
        program.said("ready")
        return program

    def client(self, kind: str, address: str, **spec: object) -> Program:
        """A client of one of the Node libraries, to be told what to do with `call`."""
        program = self._node(f"{kind}.js", {"url": address, **spec})
        program.said("ready")
        return program

    def _node(self, script: str, spec: Mapping[str, object]) -> Program:
        return self._program([self._find_node(), str(NODE / script), json.dumps(spec)])

    def _program(self, argv: Sequence[str]) -> Program:
        self._number += 1
        log = self.folder / f"program-{self._number}.stderr"
        return self._stack.enter_context(Program(argv, log))
