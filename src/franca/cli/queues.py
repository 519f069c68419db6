"""`franca queues`: list them, show one, pause, resume and purge them."""

from __future__ import annotations

from typing import Any

import click

from franca.cli.complete import queue_names
from franca.cli.group import Group
from franca.cli.output import counted, pairs, rate, span, table
from franca.cli.push import moment
from franca.cli.remote import Remote, confirm, remote


@click.group(cls=Group)
def queues() -> None:
    """List, pause, resume and purge queues."""


@queues.command("ls")
@remote
def list_queues(server: Remote) -> None:
    """List queues with their counts."""
    found = server.ask("queues.list")["queues"]
    if not server.as_json:
        head = "QUEUE READY RUNNING SCHEDULED RETRYING DEAD OLDEST PAUSED"
        table(head, "queue ready leased scheduled retrying dead oldest_ms paused", found)


@queues.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--range", "range_", default="1h", show_default=True, help="Time range: 1h, 24h.")
@remote
def show(server: Remote, queue: str, range_: str) -> None:
    """Show a queue: its counts and rates, its types, and who serves it."""
    found = server.ask("queues.show", {"queue": queue, "range": range_})
    if server.as_json:
        return
    counts = ("ready", "running", "scheduled", "retrying", "dead", "workers")
    pairs(
        [
            ("queue", found["queue"]),
            ("paused", _pause(found)),
            *((name, str(found[name])) for name in counts),
            ("oldest", span(found["oldest_ms"])),
            ("in, out, failed a second", _rates(found)),
            ("waits, 95 %", span(found["wait_p95_ms"])),
            ("runs, 95 %", span(found["ran_p95_ms"])),
            ("served by", ", ".join(found["serving"])),
        ]
    )
    if found["types"]:
        click.echo()
        table("TYPE SHARE FAILED P50 P95", "type share failed p50_ms p95_ms", found["types"])


def _pause(queue: dict[str, Any]) -> str:
    if not queue["paused"]:
        return "no"
    return f"until {queue['paused_until']}" if queue["paused_until"] else "yes"


def _rates(queue: dict[str, Any]) -> str:
    return ", ".join(rate(queue[name]) for name in ("in", "out", "failed"))


_queue_names = click.argument(
    "names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names
)


@queues.command()
@_queue_names
@click.option(
    "--until", default="", metavar="TIME", help="Resume by itself then: 2030-01-31T12:00:00Z."
)
@remote
def pause(server: Remote, names: tuple[str, ...], until: str) -> None:
    """Pause queues: their jobs are not given to workers."""
    params: dict[str, object] = {"queues": names}
    if until:
        params["until"] = moment(until, "--until")
    server.ask("queues.pause", params)


@queues.command()
@_queue_names
@remote
def resume(server: Remote, names: tuple[str, ...]) -> None:
    """Resume paused queues."""
    server.ask("queues.resume", {"queues": names})


@queues.command()
@_queue_names
@click.option("--yes", is_flag=True, help="Do not ask.")
@remote
def purge(server: Remote, names: tuple[str, ...], yes: bool) -> None:
    """Delete every ready job of these queues for good."""
    confirm(f"Every ready job of {', '.join(names)} will be removed. Go on?", yes)
    result = server.ask("queues.purge", {"queues": names})
    server.say(f"{counted(result['jobs'], 'job')} removed")
