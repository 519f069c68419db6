"""What the Python programs share: how they are told what to be, and how they tell what they do."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PARTS: tuple[tuple[str, Any], ...] = (
    ("status", (1, 4)),
    ("data", "part"),
    ("warning", "careful"),
    ("status", (3, 4)),
)
"""What a job that makes `progress` tells before its end, as far as its library can."""
WHOLE = "whole"
"""Its result."""


def spec() -> Any:
    return json.loads(sys.argv[1])


def tls(told: Any) -> dict[str, str]:
    """What gear's connections take to be encrypted, where files for it are given."""
    return {f"ssl_{name}": path for name, path in told.get("tls", {}).items()}


def say(event: str, **facts: object) -> None:
    """One line on standard output, in one write."""
    os.write(1, json.dumps({"event": event, **facts}).encode() + b"\n")


def ran(function: str, workload: bytes, **facts: object) -> None:
    digest = hashlib.sha256(workload).hexdigest()
    say("ran", function=function, digest=digest, **facts)


def until_allowed(function: str, workload: bytes) -> None:
    """Run until the test makes the file that is named in the workload."""
    path = workload.decode()
    say("started", function=function, path=path)
    while not Path(path).exists():
        time.sleep(0.02)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def outcome(kind: str, result: bytes = b"", **facts: object) -> dict[str, object]:
    """How a job went: `complete`, `fail` or `exception`, and what was heard before its end."""
    return {"outcome": kind, "result": b64(result), **facts}


def obey(verbs: Mapping[str, Callable[..., Any]]) -> None:
    """A line `[verb, ...args]` in, an answer out, until nobody asks any more."""
    say("ready")
    for line in sys.stdin:
        verb, *args = json.loads(line)
        try:
            value = verbs[verb](*args)
        except Exception as error:
            say("answer", error=f"{type(error).__name__}: {error}")
        else:
            say("answer", value=value)
