"""What the dashboard asks for: the calls of each page, and pages that are left open."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection
from itertools import cycle
from typing import Any, Self
from urllib.parse import quote, urlencode

from bench.client import Unexpected
from bench.servers import ServerFailed

API = "/api/v1/"
PATIENCE_S = 60.0
READ_ROOM = 1 << 16

# As in `web/static/js/live.js` and `main.js`.
STEP_S = 1.0
QUIET_S = 10.0
COUNTS_S = 5.0
LIVE = ("overview", "jobs", "queues", "workers", "errors")
"""Pages of five dashboards that are left open."""

EVENTS = b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"


def jobs(state: str = "", q: str = "", after: str = "") -> str:
    """The call for a page of jobs."""
    said = {"state": state, "q": q, "after": after, "limit": "50"}
    return f"jobs?{urlencode({name: value for name, value in said.items() if value})}"


def calls(ended: str, ready: str, dead: str, queue: str) -> dict[str, tuple[str, ...]]:
    """The calls that each page waits for, before it shows anything.

    A page has the name of its module, and behind a colon which of several it is. What begins with a
    slash is not under the API.
    """
    ranged = {
        "overview": "overview?range={}",
        "queue": f"queues/{quote(queue)}?range={{}}",
        "types": "types?range={}",
    }
    return {
        **{page: (path.format("1h"),) for page, path in ranged.items()},
        **{
            f"{page}:{span}": (path.format(span),)
            for page, path in ranged.items()
            for span in ("24h", "7d")
        },
        "jobs": (jobs("ready"), "counts", "known"),
        **{f"jobs:{state}": (jobs(state), "counts") for state in ("done", "dead", "scheduled")},
        **{
            f"job:{state}": (f"jobs/{name}",)
            for state, name in (("ended", ended), ("ready", ready), ("dead", dead))
        },
        "queues": ("queues",),
        "workers": ("workers",),
        "schedules": ("schedules",),
        "errors": ("errors",),
        "settings": ("health", "history"),
        "audit": ("audit",),
        "index": ("/",),
        "try": ("/try", "/openapi.json"),
    }


class Peer:
    """A client that keeps its connection."""

    def __init__(self, port: int) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def get(self, path: str) -> bytes:
        """What is answered, which must be no refusal."""
        self._http.request("GET", path if path.startswith("/") else API + path)
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Unexpected(f"{path}: {answer.status} {body[:200]!r}")
        return body

    def json(self, path: str) -> Any:
        """The same, read."""
        return json.loads(self.get(path))

    def close(self) -> None:
        """Hang up."""
        self._http.close()


class Busy:
    """Something that is done on a thread until the block ends."""

    def __init__(self) -> None:
        self.ends = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._try, name=type(self).__name__)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self._thread.join()
        if self._error is not None:
            raise ServerFailed(f"a client broke off: {self._error}") from self._error

    def _try(self) -> None:
        try:
            self.work()
        except (OSError, ValueError, Unexpected) as error:
            self._error = error

    def work(self) -> None:
        """What is done, until `ends`."""
        raise NotImplementedError


class Poller(Busy):
    """One client that asks again as soon as it is answered."""

    def __init__(self, port: int, paths: Sequence[str]) -> None:
        super().__init__()
        self.asked = 0
        self._peer, self._paths = Peer(port), cycle(paths)

    def work(self) -> None:
        """Ask for one after the other."""
        while not self.ends.is_set():
            self._peer.get(next(self._paths))
            self.asked += 1
        self._peer.close()


class Dashboard(Busy):
    """One page that is left open: a stream of events, and its calls when there is news."""

    def __init__(self, port: int, paths: Sequence[str]) -> None:
        super().__init__()
        self.refreshed = 0
        self.heard = 0
        self._port, self._peer, self._paths = port, Peer(port), paths
        self._counted_at = 0.0

    def work(self) -> None:
        """Look every second, as a browser does that shows the page."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S) as stream:
            stream.sendall(EVENTS)
            if not stream.recv(READ_ROOM).startswith(b"HTTP/1.1 200"):
                raise Unexpected("the server has no stream of events for us")
            stream.setblocking(False)
            asked_at = 0.0
            while not self.ends.wait(STEP_S):
                if self._has_news(stream) or time.monotonic() - asked_at >= QUIET_S:
                    asked_at = time.monotonic()
                    self._refresh()
        self._peer.close()

    def _has_news(self, stream: socket.socket) -> bool:
        news = 0
        try:
            while piece := stream.recv(READ_ROOM):
                news += piece.count(b"event: ")
        except BlockingIOError:
            self.heard += news
            return news > 0
        raise Unexpected("the stream of events has ended")

    def _refresh(self) -> None:
        for path in self._paths:
            self._peer.get(path)
        knows = any(path == "counts" or path.startswith("overview") for path in self._paths)
        if not knows and time.monotonic() - self._counted_at >= COUNTS_S:
            self._peer.get("counts")
            self._counted_at = time.monotonic()
        self.refreshed += 1
