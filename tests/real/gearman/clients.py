"""Clients of every kind behind one face: a library's in its process, the tool once for each job."""

from __future__ import annotations

import base64
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.real.kit import DEADLINE_S, Program
from tests.support.server import HOST

_PERCENT = re.compile(rb"(\d+)% Complete\n")
_tools = ThreadPoolExecutor(32)


class Outcome(NamedTuple):
    """How a foreground job went, as its client tells it."""

    outcome: str
    result: bytes = b""
    exception: bytes = b""
    heard: Mapping[str, Any] = {}


def b64(data: bytes) -> str:
    """Bytes as the programs are told them."""
    return base64.b64encode(data).decode()


class Client(ABC):
    """What all of them can do."""

    @abstractmethod
    def begin(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Callable[[], Outcome]:
        """Submit a job and leave; what is returned waits for its end."""

    @abstractmethod
    def background(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> str:
        """The handle, or nothing where the library gives none."""

    def do(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Outcome:
        return self.begin(function, workload, unique, priority)()


class LibraryClient(Program, Client):
    """A client of a library, in a process of its own that does what it is told."""

    def begin(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Callable[[], Outcome]:
        self.tell(["do", function, b64(workload), _options(unique, priority)])
        return self._ended

    def many(self, function: str, workloads: Sequence[bytes]) -> list[bytes]:
        """The results of jobs that are all submitted before the first is waited for."""
        done = self.call("many", function, [b64(each) for each in workloads], {})
        return [_bytes(each["result"]) for each in done]

    def background(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> str:
        options = _options(unique, priority)
        return self.call("background", function, b64(workload), options) or ""

    def status(self, handle: str) -> list[int]:
        """Known, running, numerator, denominator."""
        found: list[int] = self.call("status", handle)
        return found

    def _ended(self) -> Outcome:
        told = self.answer()
        heard = {name: told[name] for name in ("status", "last_status") if name in told}
        for name in ("data", "warnings"):
            heard[name] = [_bytes(each) for each in told.get(name, [])]
        result, exception = (_bytes(told.get(name)) for name in ("result", "exception"))
        return Outcome(told["outcome"], result, exception, heard)


class ToolClient(Client):
    """The `gearman` tool, once for each job."""

    def __init__(self, port: int) -> None:
        self._port = port

    def begin(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Callable[[], Outcome]:
        running = _tools.submit(self._run, function, workload, unique, priority)

        def ended() -> Outcome:
            done = running.result()
            if done.returncode == 0:
                # It prints what it hears of progress after the result.
                status = [[int(each), 100] for each in _PERCENT.findall(done.stdout)]
                heard = {"status": status, "warnings": [done.stderr]}
                return Outcome("complete", _PERCENT.sub(b"", done.stdout), b"", heard)
            assert (done.returncode, done.stderr) == (1, b"Job failed\n")
            return Outcome("fail", done.stdout)

        return ended

    def background(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> str:
        done = self._run(function, workload, unique, priority, "-b", "-v")
        assert done.returncode == 0, done.stderr
        prefix, _, handle = done.stdout.decode().strip().partition(": ")
        assert prefix == "Task created", done.stdout
        return handle

    def _run(
        self, function: str, workload: bytes, unique: str, priority: str | None, *flags: str
    ) -> subprocess.CompletedProcess[bytes]:
        argv = ["gearman", "-h", HOST, "-p", str(self._port), "-f", function, *flags]
        argv += {"high": ["-I"], "low": ["-L"], None: []}[priority]
        argv += ["-u", unique] if unique else []
        return subprocess.run(argv, input=workload, capture_output=True, timeout=DEADLINE_S)


def _options(unique: str, priority: str | None) -> dict[str, str]:
    return ({"unique": unique} if unique else {}) | ({"priority": priority} if priority else {})


def _bytes(text: str | None) -> bytes:
    return base64.b64decode(text or "")
