"""What the processes of `emq-jobmanager` run. A job tells of itself by its arguments: it has no id."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from tests.real.programs.jobs import say


def echo(*args: object, **kwargs: object) -> list[object]:
    """The plainest of jobs."""
    say("ran", args=args, kwargs=kwargs, at=time.time(), pid=os.getpid())
    return list(args)


def boom(*args: object) -> None:
    """A job that raises: to its manager that is a result like any other."""
    say("ran", args=args, kwargs={}, at=time.time(), pid=os.getpid())
    raise ValueError("boom")


def nothing() -> None:
    """A job without a result."""


def measure(text: str) -> int:
    """For an argument that is too big to be repeated."""
    say("ran", args=[len(text), hashlib.sha256(text.encode()).hexdigest()], kwargs={})
    return len(text)


def large(name: str, size: int) -> str:
    """A job with a large result."""
    say("ran", args=[name], kwargs={})
    return "x" * size


def wait(name: str, path: str) -> str:
    """Run until the test allows it to end, by making a file."""
    say("started", name=name, pid=os.getpid())
    while not Path(path).exists():
        time.sleep(0.02)
    say("ran", args=[name], kwargs={}, at=time.time(), pid=os.getpid())
    return name


class Adder:
    """Its methods are deferred by the class's name and what the class is made with."""

    def __init__(self, first: int, *, second: int) -> None:
        self._sum = first + second

    def add(self, third: int) -> int:
        """One more number."""
        say("ran", args=[self._sum + third], kwargs={})
        return self._sum + third
