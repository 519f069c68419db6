"""What tests of real servers share: one server, one after the other, and waiting for what it does."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.support.faktory import Faktory
from tests.support.server import Server

DEADLINE_S = 30.0
"""Far longer than anything takes; only a broken server reaches it."""
T = TypeVar("T")
_POLL_S = 0.02


def emptied(server: Server, session: pytest.Session) -> Iterator[Server]:
    """The server, running and without any job, queue, schedule and count; a test may end it.

    After a test that failed the next one has a process of its own.
    """
    failed_before = session.testsfailed
    if not server.running:
        server.start()
    with Faktory(server.port) as operator:
        assert operator.hello().call("FLUSH").text == "OK"
    yield server
    if session.testsfailed > failed_before:
        server.kill9()


def eventually(look: Callable[[], T | None], what: str) -> T:
    """The first answer of `look` that is neither None nor False."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(_POLL_S)
