"""What the processes of `emq-jobmanager` run. A job tells of itself by its arguments: it has no id."""

import hashlib
import os
import time

from tests.real.programs.jobs import say, until_exists


def echo(*args: object, **kwargs: object) -> list[object]:
    """The plainest of jobs."""
    say("ran", args=args, kwargs=kwargs, at=time.time(), pid=os.getpid())
    return list(args)


def boom(*args: object) -> None:
    """A job that raises: to its manager that is a result like any other."""
    echo(*args)
    raise ValueError("boom")


def nothing() -> None:
    """A job without a result."""


def measure(text: str) -> int:
    """For an argument that is too big to be repeated."""
    echo(len(text), hashlib.sha256(text.encode()).hexdigest())
    return len(text)


def large(name: str, size: int) -> str:
    """A job with a large result."""
    echo(name)
    return "x" * size


def wait(name: str, path: str) -> str:
    """Run until the test allows it to end, by making a file."""
    say("started", name=name, pid=os.getpid())
    until_exists(path)
    echo(name)
    return name


class Adder:
    """Its methods are deferred by the class's name and what the class is made with."""

    def __init__(self, first: int, *, second: int) -> None:
        self._sum = first + second

    def add(self, third: int) -> int:
        """One more number."""
        say("ran", args=[self._sum + third], kwargs={})
        return self._sum + third
