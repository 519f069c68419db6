"""What can be seen of a running server from outside: its operations, its memory, how soon it answers."""

import json
import threading
import time
from typing import Any

from franca.control.client import call
from tests.support.scoped import Scoped
from tests.support.server import Server

_PATIENCE_S = 60.0
_EVERY_S = 0.01
_FOR_EVER = 1e9


Facts = dict[str, Any]


def ask(server: Server, op: str, *, timeout_s: float = _PATIENCE_S, **params: object) -> Facts:
    """The result of one operation, over the control socket."""
    return dict(json.loads(call(str(server.data), op, params, timeout_s=timeout_s)))


def show(server: Server, jid: str) -> Facts:
    """Everything the server knows of the newest job of that name."""
    return dict(ask(server, "jobs.show", job=jid)["jobs"][0])


def live_jobs(server: Server, queue: str = "", **options: Any) -> int:
    """How many jobs of this queue, or of all, have not ended."""
    states = ("ready", "leased", "scheduled", "retrying")
    queues = ask(server, "queues.list", **options)["queues"]
    return sum(q[state] for q in queues if queue in ("", q["queue"]) for state in states)


def errors_logged(server: Server) -> int:
    """Lines of the server's log that tell of an error that nobody expected."""
    return sum('"error"' in line or "Traceback" in line for line in server.log_lines())


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of them lies; for ever if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else _FOR_EVER


class Memory(Scoped):
    """Watches how much more memory the server takes than at the beginning, in MiB."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._base_kib = server.rss_kib()
        self.peak_mib = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def growth_mib(self) -> float:
        """How much more it takes now."""
        return (self._server.rss_kib() - self._base_kib) / 1_024

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
