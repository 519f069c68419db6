"""A control socket that answers, on a loop of its own thread, for tests that block."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from franca.control.server import ControlServer
from tests.control.kit import FakeNode


@contextmanager
def served(node: FakeNode, directory: Path) -> Iterator[list[Exception]]:
    """Serve `node` in this data directory; yields the errors that the server had to report."""
    errors: list[Exception] = []
    loop = asyncio.new_event_loop()
    server = ControlServer(node, str(directory), on_error=errors.append)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.open(), loop).result(10)
        yield errors
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
