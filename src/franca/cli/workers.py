"""`franca workers`: list them, ask them to be quiet or to stop."""

from __future__ import annotations

import click

from franca.cli import exits
from franca.cli.group import Group
from franca.cli.output import age, printable, table
from franca.cli.remote import Failed, Remote, remote


@click.group(cls=Group)
def workers() -> None:
    """List workers, quiet or stop them."""


@workers.command()
@remote
def ls(server: Remote) -> None:
    """List the workers that are there."""
    found = server.ask("workers.list")["workers"]
    if server.as_json:
        return
    head = ("NAME", "PROTOCOL", "HOST", "PID", "STATE", "LINKS", "LABELS", "STARTED", "SEEN")
    columns = ("name", "protocol", "host", "pid", "state", "connections", "labels")
    rows = [
        [*(worker[name] for name in columns), age(worker["started_at"]), age(worker["seen_at"])]
        for worker in found
    ]
    table(head, rows)


@workers.command()
@click.argument("names", nargs=-1, metavar="[WORKER]...")
@click.option("--all", "every", is_flag=True, help="Every worker.")
@remote
def quiet(server: Remote, names: tuple[str, ...], every: bool) -> None:
    """Ask workers to take no more jobs."""
    _ask(server, "workers.quiet", names, every)


@workers.command()
@click.argument("names", nargs=-1, metavar="[WORKER]...")
@click.option("--all", "every", is_flag=True, help="Every worker.")
@remote
def stop(server: Remote, names: tuple[str, ...], every: bool) -> None:
    """Ask workers to finish what they run and leave."""
    _ask(server, "workers.stop", names, every)


def _ask(server: Remote, op: str, names: tuple[str, ...], every: bool) -> None:
    if bool(names) == every:
        raise Failed("say which workers: by name, or --all", exits.USAGE)
    result = server.ask(op, {"workers": names, "all": every})
    for name in result["missing"]:
        click.echo(f"There is no worker {printable(name)}.", err=True)
    if not server.as_json:
        count = result["count"]
        click.echo(f"{count} worker{'' if count == 1 else 's'} asked")
    if result["missing"]:
        raise click.exceptions.Exit(exits.NOT_FOUND)
