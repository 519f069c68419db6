"""The package's own subscriber, which knows one address only: a call to it is put through to ours.

What it prints for people is told as a program's events.
"""

import contextlib
import io
import runpy
import sys
from typing import Any

import zmq

from tests.real.programs.jobs import say

KNOWN = "tcp://127.0.0.1:47299"


class Teller(io.TextIOBase):
    """Standard output whose every line is an event."""

    def write(self, text: str) -> int:
        if text.strip():
            say("heard", line=text)
        return len(text)


connect = zmq.Socket.connect


def put_through(socket: Any, address: str) -> Any:
    assert address == KNOWN
    return connect(socket, sys.argv[1])


if __name__ == "__main__":
    setattr(zmq.Socket, "connect", put_through)  # noqa: B010 -- a method is not to be assigned to
    with contextlib.redirect_stdout(Teller()):
        runpy.run_module("eventmq.subscriber", run_name="__main__")
