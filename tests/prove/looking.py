"""What can be seen of a running server from outside: its operations, its memory, its clock's lag."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from franca.control.client import call
from tests.support.scoped import Scoped
from tests.support.server import Server

MIB_KIB = 1_024
PATIENCE_S = 60.0
_EVERY_S = 0.01


def ask(
    server: Server, op: str, *, timeout_s: float = PATIENCE_S, **params: object
) -> dict[str, Any]:
    """The result of one operation, over the control socket."""
    answer = call(str(server.data), op, params, timeout_s=timeout_s)
    result: dict[str, Any] = json.loads(answer)
    return result


def show(server: Server, jid: str) -> dict[str, Any]:
    """Everything the server knows of the newest job of that name."""
    job: dict[str, Any] = ask(server, "jobs.show", job=jid)["jobs"][0]
    return job


class Memory(Scoped):
    """Watches how much more memory the server takes than at the beginning, in MiB."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.base_mib = server.rss_kib() / MIB_KIB
        self.peak_mib = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def growth_mib(self) -> float:
        """How much more it takes now."""
        return self._server.rss_kib() / MIB_KIB - self.base_mib

    def _look(self) -> None:
        while not self._stopping.is_set() and self._server.running:
            try:
                self.peak_mib = max(self.peak_mib, self.growth_mib())
            except (OSError, RuntimeError):
                return  # it ended in this moment
            time.sleep(_EVERY_S)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
