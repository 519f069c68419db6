"""One server for many tests, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.faktory import Faktory
from tests.support.server import Server


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
