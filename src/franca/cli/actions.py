"""Actions on all jobs that a filter fits: they go on in the server, and can be watched."""

from __future__ import annotations

import time
from typing import Any

import click
import msgspec

from franca.cli.group import Group
from franca.cli.output import counted, table
from franca.cli.remote import Failed, Remote, remote, show_json
from franca.cli.terminal import Progress
from franca.node import exits

LOOK_S = 0.2


def act_on_filter(server: Remote, action: str, done: str, query: str) -> None:
    """Do something to all jobs that fit; in the end, say to how many it was done."""
    params = {"action": action, "q": query}
    begun = msgspec.json.decode(server.fetch("jobs.act", params))
    changed, failed = begun["changed"], begun["skipped"]
    ended: bytes | None = None
    if begun["operation"]:
        ended = watch(server, begun["operation"], action)
        operation = msgspec.json.decode(ended)
        changed, failed = operation["done"], operation["failed"]
    if server.as_json:
        show_json(ended or msgspec.json.encode(begun))
    server.say(f"{counted(changed, 'job')} {done}")
    if failed:
        server.say(f"{counted(failed, 'job')} not {done}", err=True)
        raise click.exceptions.Exit(exits.FAILURE)


def watch(server: Remote, operation: str, action: str) -> bytes:
    """Wait for the end of an operation; it goes on without whoever stops waiting."""
    deadline = time.monotonic() + server.timeout_s
    try:
        with Progress(action) as bar:
            while True:
                answer = server.fetch("operations.show", {"id": operation})
                found = msgspec.json.decode(answer)
                if found["ended_at"]:
                    return answer
                bar.show(found["done"] + found["failed"], found["total"], "jobs")
                if time.monotonic() > deadline:
                    raise Failed(_goes_on(operation), exits.TIMED_OUT)
                time.sleep(LOOK_S)
    except KeyboardInterrupt:
        click.echo(_goes_on(operation), err=True)
        raise


def _goes_on(operation: str) -> str:
    return f"it goes on; 'franca operations stop {operation}' ends it"


@click.group(cls=Group)
def operations() -> None:
    """List, watch and stop background actions on many jobs."""


@operations.command("ls")
@remote
def list_operations(server: Remote) -> None:
    """List actions that are running or ended recently."""
    found = server.ask("operations.list")["operations"]
    if not server.as_json:
        table("ID ACTION TOTAL DONE FAILED ENDED", "id action total done failed ended_at", found)


@operations.command()
@click.argument("operation")
@remote
def show(server: Remote, operation: str) -> None:
    """Show the progress of an action."""
    found: dict[str, Any] = server.ask("operations.show", {"id": operation})
    if not server.as_json:
        heads = "ID ACTION TOTAL DONE FAILED ENDED"
        table(heads, "id action total done failed ended_at", [found])


@operations.command()
@click.argument("operation")
@remote
def stop(server: Remote, operation: str) -> None:
    """Stop an action; what it has done stays done."""
    server.ask("operations.stop", {"id": operation})
    server.say("stopping", err=True)
