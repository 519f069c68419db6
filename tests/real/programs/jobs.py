"""The jobs that the Python workers run, and how they tell of it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def say(event: str, **facts: object) -> None:
    """One line on standard output, in one write: several processes share it."""
    os.write(1, json.dumps({"event": event, **facts}).encode() + b"\n")


def until_go() -> Iterator[str]:
    """What a worker on hold is told on standard input, up to the word that lets it run."""
    for line in sys.stdin:
        word = json.loads(line)
        if word == "go":
            return
        yield word


def echo(jid: str, *args: object) -> None:
    say("ran", jid=jid, args=args)


def boom(jid: str, *args: object) -> None:
    say("ran", jid=jid, args=args)
    raise ValueError("boom")


def measure(jid: str, text: str) -> None:
    """For arguments that are too big to be repeated."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    say("ran", jid=jid, args=[len(text), digest])


def wait(jid: str, path: str) -> None:
    """Run until the test allows it to end, by making a file."""
    say("started", jid=jid)
    while not Path(path).exists():
        time.sleep(0.02)
    say("ran", jid=jid, args=[])


JOBS: dict[str, Callable[..., None]] = {
    "echo": echo,
    "boom": boom,
    "measure": measure,
    "wait": wait,
}
