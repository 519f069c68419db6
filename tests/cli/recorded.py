"""Answers as a server gives them, for the double: each with every member that it has."""

from typing import Any


def job(number: int = 1, **members: Any) -> dict[str, Any]:
    """A JobRow."""
    return {
        "id": number, "name": f"name-{number}", "queue": "mail", "type": "SendMail",
        "state": "running", "via": "gearman", "by": "faktory", "attempts": 2, "failures": 1,
        "losses": 0, "retries": 25, "created_at": "2026-01-31T12:00:00.000Z", "run_at": None,
        "ready_at": None, "started_at": "2026-01-31T12:00:01.000Z", "ended_at": None,
        "ran_ms": None, "worker": "mail-1", "progress": None, "error": None, "args": "[1]",
        **members,
    }  # fmt: skip


def page(*jobs: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A JobPage."""
    return {
        "jobs": list(jobs), "total": len(jobs), "total_exact": True, "scanned": 10, "of": 10,
        "next": None, "prev": None, **members,
    }  # fmt: skip


def queue(name: str = "mail", **members: Any) -> dict[str, Any]:
    """A QueueRow."""
    return {
        "queue": name, "paused": False, "paused_until": None, "ready": 12, "running": 2,
        "leased": 2, "scheduled": 3, "retrying": 1, "dead": 4, "oldest_ms": 65_000, "in": 12.25,
        "out": 11.0, "failed": 0.0, "wait_p95_ms": 40, "ran_p95_ms": 1200, "workers": 2,
        "recent": None, **members,
    }  # fmt: skip


def worker(name: str = "mail-1", **members: Any) -> dict[str, Any]:
    """A Worker."""
    running = {"id": 7, "type": "SendMail", "queue": "mail", "started_at": "2026-01-31T12:00:01Z"}
    return {
        "name": name, "protocol": "faktory", "host": "box", "pid": 42, "labels": [],
        "state": "busy", "running": [running], "queues": ["mail"],
        "started_at": "2026-01-31T12:00:00Z", "seen_at": "2026-01-31T12:00:02Z", "rss_kb": 1000,
        "connections": 1, **members,
    }  # fmt: skip


def overview(**members: Any) -> dict[str, Any]:
    """An Overview."""
    states = ("scheduled", "retrying", "ready", "running", "done", "dead", "cancelled")
    return {
        "now_at": "2026-01-31T12:00:05.000Z",
        "counts": {state: number for number, state in enumerate(states)} | {"ready": 12_345},
        "rates": {"pushed": 12.25, "done": 11.0, "failed": 0.0},
        "oldest_ms": 65_000, "oldest_queue": "mail", "workers": {"all": 5, "busy": 3},
        "notices": [], "series": {"t": []}, "crossings": [], "queues": [queue()], **members,
    }  # fmt: skip


def schedule(name: str = "nightly", **members: Any) -> dict[str, Any]:
    """A Schedule."""
    return {
        "id": name, "queue": "mail", "type": "Digest", "cron": "0 3 * * *", "every_ms": 0,
        "timezone": "Europe/Berlin", "args": "[1.0]", "next_at": "2026-02-01T02:00:00.000Z",
        "upcoming_at": ["2026-02-01T02:00:00.000Z", "2026-02-02T02:00:00.000Z"],
        "runs_left": -1, "paused": False, "source": "rest",
        "last": {"id": 9, "state": "done", "started_at": None, "ran_ms": 12}, **members,
    }  # fmt: skip


STATUS: dict[str, Any] = {
    "version": "1.2.3", "pid": 77, "uptime_s": 7_300, "data": "/var/lib/franca",
    "store": "sqlite:", "connections": 3, "rss_mb": 51, "commits": 9, "loop_lag_p99_ms": 1.5,
    "refusing_new": False, "unhandled": 0, "peers_refused": 0,
    "listeners": [
        {"protocol": "faktory", "address": "127.0.0.1:7419", "client": "export FAKTORY_URL=x"},
        {"protocol": "memodb", "address": "127.0.0.1:12703", "client": ""},
    ],
}  # fmt: skip
