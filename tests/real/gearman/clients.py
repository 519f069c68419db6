"""Clients of every kind behind one face: a library's in its process, the tool once for each job."""

import base64
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.real.kit import Program
from tests.support.server import HOST
from tests.support.shared import DEADLINE_S

_PERCENT = re.compile(rb"(\d+)% Complete\n")
_tools = ThreadPoolExecutor(32)


class Outcome(NamedTuple):
    """How a foreground job went, as its client tells it."""

    outcome: str
    result: bytes = b""
    exception: bytes = b""
    heard: Mapping[str, Any] = {}


class Job(NamedTuple):
    """What is submitted; all that submit take these arguments."""

    function: str
    workload: bytes
    unique: str = ""
    priority: str | None = None

    def told(self) -> tuple[object, ...]:
        """As the programs are told it."""
        options = {"unique": self.unique, "priority": self.priority}
        given = {name: value for name, value in options.items() if value}
        return (self.function, b64(self.workload), given)


def b64(data: bytes) -> str:
    """Bytes as the programs are told them."""
    return base64.b64encode(data).decode()


class LibraryClient(Program):
    """A client of a library, in a process of its own that does what it is told."""

    def do(self, *job: Any, **more: Any) -> Outcome:
        return self.begin(*job, **more)()

    def begin(self, *job: Any, **more: Any) -> Callable[[], Outcome]:
        """Submit a `Job` and leave; what is returned waits for its end."""
        result = self.begin_call("do", *Job(*job, **more).told())
        return lambda: self._outcome(result())

    def many(self, function: str, workloads: Sequence[bytes]) -> list[bytes]:
        """The results of jobs that are all submitted before the first is waited for."""
        done = self.call("many", function, [b64(each) for each in workloads], {})
        return [_bytes(each["result"]) for each in done]

    def background(self, *job: Any, **more: Any) -> str:
        """The handle, or nothing where the library gives none."""
        return self.call("background", *Job(*job, **more).told()) or ""

    def status(self, handle: str) -> list[int]:
        """Known, running, numerator, denominator."""
        return list(self.call("status", handle))

    def _outcome(self, told: dict[str, Any]) -> Outcome:
        heard: dict[str, Any] = {
            name: told[name] for name in ("status", "last_status") if name in told
        }
        for name in ("data", "warnings"):
            heard[name] = [_bytes(each) for each in told.get(name, [])]
        result, exception = (_bytes(told.get(name)) for name in ("result", "exception"))
        return Outcome(told["outcome"], result, exception, heard)


class ToolClient:
    """The `gearman` tool, once for each job; it can do the same."""

    def __init__(self, port: int) -> None:
        self._port = port

    def do(self, *job: Any, **more: Any) -> Outcome:
        return self.begin(*job, **more)()

    def begin(self, *job: Any, **more: Any) -> Callable[[], Outcome]:
        running = _tools.submit(self._run, Job(*job, **more))

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

    def background(self, *job: Any, **more: Any) -> str:
        done = self._run(Job(*job, **more), "-b", "-v")
        assert done.returncode == 0, done.stderr
        prefix, _, handle = done.stdout.decode().strip().partition(": ")
        assert prefix == "Task created", done.stdout
        return handle

    def _run(self, job: Job, *flags: str) -> subprocess.CompletedProcess[bytes]:
        argv = ["gearman", "-h", HOST, "-p", str(self._port), "-f", job.function, *flags]
        argv += {"high": ["-I"], "low": ["-L"], None: []}[job.priority]
        argv += ["-u", job.unique] if job.unique else []
        return subprocess.run(argv, input=job.workload, capture_output=True, timeout=DEADLINE_S)


Client = LibraryClient | ToolClient


def _bytes(text: str | None) -> bytes:
    return base64.b64decode(text or "")
