"""Clients of every kind behind one face: a library's in its process, the tool once for each job."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.real.kit import DEADLINE_S, Program
from tests.support.server import HOST

_PERCENT = re.compile(rb"(\d+)% Complete\n")


class Outcome(NamedTuple):
    """How a foreground job went, as its client tells it."""

    outcome: str
    result: bytes = b""
    exception: bytes = b""
    heard: Mapping[str, Any] = {}


def b64(data: bytes) -> str:
    """Bytes as the programs are told them."""
    return base64.b64encode(data).decode()


class LibraryClient:
    """A client of a library, in a process of its own that does what it is told."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def begin(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Callable[[], Outcome]:
        """Submit a job and leave; what is returned waits for its end."""
        self.program.tell(["do", function, b64(workload), _options(unique, priority)])
        return self._ended

    def do(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Outcome:
        return self.begin(function, workload, unique, priority)()

    def many(self, function: str, workloads: Sequence[bytes]) -> list[bytes]:
        """The results of jobs that are all submitted before the first is waited for."""
        done = self.call("many", function, [b64(each) for each in workloads], {})
        return [_bytes(each["result"]) for each in done]

    def background(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> str:
        """The handle, or nothing where the library gives none."""
        options = _options(unique, priority)
        return self.call("background", function, b64(workload), options) or ""

    def status(self, handle: str) -> list[int]:
        """Known, running, numerator, denominator."""
        found: list[int] = self.call("status", handle)
        return found

    def call(self, verb: str, *args: object) -> Any:
        return self.program.call(verb, *args)

    def _ended(self) -> Outcome:
        answer = self.program.said("answer")
        if "error" in answer:
            raise AssertionError(f"{answer['error']}\n{self.program.stderr()}")
        told = answer["value"]
        result, exception = (_bytes(told.get(name)) for name in ("result", "exception"))
        heard = {name: told[name] for name in ("status", "last_status") if name in told}
        for name in ("data", "warnings"):
            heard[name] = [_bytes(each) for each in told.get(name, [])]
        return Outcome(told["outcome"], result, exception, heard)


class ToolClient:
    """The `gearman` tool, once for each job."""

    def __init__(self, port: int) -> None:
        self._port = port

    def begin(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Callable[[], Outcome]:
        process = self._start(function, unique, priority)
        assert process.stdin is not None
        process.stdin.write(workload)
        process.stdin.close()
        process.stdin = None

        def ended() -> Outcome:
            out, err = self._finish(process)
            if process.returncode == 0:
                # It prints what it hears of progress after the result.
                result = _PERCENT.sub(b"", out)
                status = [[int(each), 100] for each in _PERCENT.findall(out)]
                return Outcome("complete", result, b"", {"status": status, "warnings": [err]})
            assert (process.returncode, err) == (1, b"Job failed\n")
            return Outcome("fail", out)

        return ended

    def do(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> Outcome:
        return self.begin(function, workload, unique, priority)()

    def background(
        self, function: str, workload: bytes, unique: str = "", priority: str | None = None
    ) -> str:
        process = self._start(function, unique, priority, "-b", "-v")
        out, err = self._finish(process, workload)
        assert process.returncode == 0, err
        prefix, _, handle = out.decode().strip().partition(": ")
        assert prefix == "Task created", out
        return handle

    def _start(
        self, function: str, unique: str, priority: str | None, *flags: str
    ) -> subprocess.Popen[bytes]:
        argv = ["gearman", "-h", HOST, "-p", str(self._port), "-f", function, *flags]
        argv += {"high": ["-I"], "low": ["-L"], None: []}[priority]
        argv += ["-u", unique] if unique else []
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def _finish(
        self, process: subprocess.Popen[bytes], workload: bytes | None = None
    ) -> tuple[bytes, bytes]:
        try:
            return process.communicate(workload, timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError("the gearman tool hangs") from None


Client = LibraryClient | ToolClient


def _options(unique: str, priority: str | None) -> dict[str, str]:
    return ({"unique": unique} if unique else {}) | ({"priority": priority} if priority else {})


def _bytes(text: str | None) -> bytes:
    return base64.b64decode(text or "")
