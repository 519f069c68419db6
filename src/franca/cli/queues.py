"""`franca queues`: list, pause, resume, purge."""

from __future__ import annotations

import click

from franca.cli.group import Group
from franca.cli.output import jobs_word, span, table
from franca.cli.remote import Remote, confirm, remote


@click.group(cls=Group)
def queues() -> None:
    """List, pause, resume and purge queues."""


@queues.command()
@remote
def ls(server: Remote) -> None:
    """List queues with their counts."""
    found = server.ask("queues.list")["queues"]
    if server.as_json:
        return
    head = ("QUEUE", "READY", "LEASED", "SCHEDULED", "RETRYING", "DEAD", "OLDEST", "PAUSED")
    columns = ("queue", "ready", "leased", "scheduled", "retrying", "dead")
    rows = [
        [*(queue[name] for name in columns), span(queue["oldest_ms"]), queue["paused"]]
        for queue in found
    ]
    table(head, rows)


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@remote
def pause(server: Remote, names: tuple[str, ...]) -> None:
    """Give out no more jobs of these queues."""
    server.ask("queues.pause", {"queues": names})


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@remote
def resume(server: Remote, names: tuple[str, ...]) -> None:
    """Give out jobs of these queues again."""
    server.ask("queues.resume", {"queues": names})


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@remote
def purge(server: Remote, names: tuple[str, ...], yes: bool) -> None:
    """Remove every ready job of these queues for good."""
    confirm(f"Every ready job of {', '.join(names)} will be removed. Go on?", yes)
    result = server.ask("queues.purge", {"queues": names})
    if not server.as_json:
        click.echo(f"{jobs_word(result['jobs'])} removed")
