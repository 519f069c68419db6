"""Live jobs in all states, imported as an operator would import them."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.client import Unexpected
from bench.million.ended import KINDS, QUEUES
from bench.million.fill import FILLER
from bench.servers import Server
from tests.support.web import api

AT_ONCE = 1_000
SPAN = timedelta(days=1)
MONTH = timedelta(days=30)
ERRORS = (
    ("Timeout", "no answer from 10.0.0.%d within 30 s"),
    ("CardDeclined", "insufficient funds for order %d"),
    ("KeyError", "'customer-%d'"),
    ("ConnectionRefusedError", "[Errno 111] nobody listens on port %d"),
)


@dataclass(frozen=True, slots=True)
class Living:
    """So many jobs in one state, submitted one after the other within the last day."""

    state: str
    count: int

    def name(self, number: int) -> str:
        """The name of a job."""
        return f"{self.state}-{number:09}"

    def lines(self, now: datetime) -> Iterator[dict[str, object]]:
        """What is imported, a line for each job."""
        for number in range(self.count):
            created = now - SPAN + SPAN * number / self.count
            line: dict[str, object] = {
                "kind": "job", "name": self.name(number), "queue": f"queue-{number % QUEUES}",
                "type": f"Kind{number % KINDS}", "state": self.state, "via": "faktory",
                "media": "json-args", "body": _BODY, "created_at": created.isoformat(),
                "policy": {"max_failures": 25, "lease_ms": 1_800_000},
            }  # fmt: skip
            if self.state in ("scheduled", "retrying"):
                line["run_at"] = (now + MONTH + timedelta(seconds=number)).isoformat()
            if self.state in ("retrying", "dead"):
                line |= {"attempts": 3, "failures": 3, "attempt_log": [_attempt(number, created)]}
            yield line


_BODY = b64encode(b'[123,"%s"]' % FILLER.encode()).decode()


def _attempt(number: int, at: datetime) -> dict[str, object]:
    error, text = ERRORS[number % len(ERRORS)]
    return {
        "worker": "worker-7", "started_at": at.isoformat(), "ended_at": at.isoformat(),
        "outcome": "failed", "error": error, "text": text % number,
        "trace": ["in charge", "in main"],
    }  # fmt: skip


def bring_to_life(server: Server, *parts: Living) -> None:
    """Import all of them; each must be taken in."""
    now = datetime.now(UTC)
    for part in parts:
        lines: list[dict[str, object]] = []
        for line in part.lines(now):
            lines.append(line)
            if len(lines) == AT_ONCE:
                _import(server, lines)
                lines = []
        if lines:
            _import(server, lines)


def _import(server: Server, lines: list[dict[str, object]]) -> None:
    told = api(server.ports["web"], "POST", "store/import", {"lines": lines})
    if told["added"] != len(lines):
        raise Unexpected(f"of {len(lines)} jobs {told['added']} came in: {told['refused'][:3]}")
