"""What the server can tell of itself: types, errors, history, health, and who did what."""

from __future__ import annotations

import click

from franca.cli.group import Group
from franca.cli.output import age, pairs, span, table
from franca.cli.remote import Remote, remote
from franca.cli.terminal import amount

_range = click.option(
    "--range", "range_", default="24h", show_default=True, help="Time range: 1h, 24h."
)


@click.group(cls=Group)
def types() -> None:
    """Show statistics by job type."""


@types.command("ls")
@_range
@remote
def list_types(server: Remote, range_: str) -> None:
    """List types with their counts and run times, those with most jobs first."""
    found = server.ask("types.list", {"range": range_})["types"]
    if not server.as_json:
        heads = "TYPE QUEUES DONE FAILED DEAD WAIT-P95 RAN-P50 RAN-P95 RAN-P99"
        members = "type queues done failed dead wait_p95_ms ran_p50_ms ran_p95_ms ran_p99_ms"
        table(heads, members, found)


@click.group(cls=Group)
def errors() -> None:
    """Show dead and retrying jobs by error."""


@errors.command("ls")
@remote
def list_errors(server: Remote) -> None:
    """List errors, the most frequent first."""
    found = server.ask("errors.list")
    if server.as_json:
        return
    heads = "ID ERROR DEAD RETRYING TYPES LAST TEXT"
    table(heads, "id error dead retrying types last_at text", found["classes"])
    if found["looked_at"] < found["of"]:
        server.say(f"{found['looked_at']:,} of {found['of']:,} jobs looked at", err=True)


@click.command()
@remote
def health(server: Remote) -> None:
    """Show the health of the server, its store and its disk."""
    found = server.ask("health")
    if not server.as_json:
        pairs((name, value) for name, value in found.items() if name not in ("series", "limits"))


@click.command()
@remote
def history(server: Remote) -> None:
    """Show the size and bounds of the history of ended jobs."""
    found = server.ask("history")
    if server.as_json:
        return
    most = found["bounds"]
    bounds = [
        f"{most['jobs']:,} jobs" if most["jobs"] else "",
        amount(most["bytes"], "B") if most["bytes"] else "",
        span(most["age_ms"]) if most["age_ms"] else "",
    ]
    pairs(
        [
            ("jobs", f"{found['jobs']:,}"),
            ("size", amount(found["bytes"], "B")),
            ("oldest", found["oldest_at"]),
            ("searchable but for the last", span(found["indexed_ms_behind"])),
            ("bound, whichever comes first", ", ".join(filter(None, bounds))),
        ]
    )


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@remote
def audit(server: Remote, limit: int) -> None:
    """Show what operators did, newest first."""
    found = server.ask("audit.list", {"limit": limit})["entries"]
    if not server.as_json:
        heads = "AGE WHO ROLE OVER OPERATION ABOUT OUTCOME"
        table(heads, "at who role over operation about outcome", [_dated(e) for e in found])


def _dated(entry: dict[str, object]) -> dict[str, object]:
    return {**entry, "at": age(str(entry["at"]))}
