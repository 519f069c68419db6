"""How the Python programs are told what to do and tell of it, and the jobs that those of Faktory run."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def say(event: str, **facts: object) -> None:
    """One line on standard output, in one write: several processes share it."""
    os.write(1, json.dumps({"event": event, **facts}).encode() + b"\n")


def work(spec: dict[str, Any], worker: Any, beat: Callable[[], object]) -> None:
    """Run a worker of Faktory's jobs until it is asked to stop; one on `hold` beats when told so until it is told to go."""
    for run in JOBS:
        worker.register(run.__name__, run, bind=True)
    say("ready")
    while spec.get("hold") and json.loads(next(sys.stdin)) != "go":
        beat()
        say("beat")
    with suppress(SystemExit):  # it always ends so, however it was asked
        worker.run()


def obey(*verbs: Callable[..., Any]) -> None:
    """A line `[number, verb, ...args]` in, an answer with the number out, until nobody asks any more.

    An object is named arguments.
    """
    known = {verb.__name__: verb for verb in verbs}
    say("ready")
    for line in sys.stdin:
        number, verb, *args = json.loads(line)
        named = args.pop() if args and isinstance(args[-1], dict) else {}
        try:
            say("answer", number=number, value=known[verb](*args, **named))
        except Exception as error:
            say("answer", number=number, error=f"{type(error).__name__}: {error}")


def until_exists(path: str) -> None:
    """Run until the test makes this file."""
    while not Path(path).exists():
        time.sleep(0.02)


def echo(jid: str, *args: object) -> None:
    say("ran", jid=jid, args=args)


def boom(jid: str, *args: object) -> None:
    echo(jid, *args)
    raise ValueError("boom")


def measure(jid: str, text: str) -> None:
    """For arguments that are too big to be repeated."""
    echo(jid, len(text), hashlib.sha256(text.encode()).hexdigest())


def wait(jid: str, path: str) -> None:
    """Run until the test allows it to end."""
    say("started", jid=jid)
    until_exists(path)
    echo(jid)


JOBS: tuple[Callable[..., None], ...] = (echo, boom, measure, wait)
