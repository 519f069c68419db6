"""Commands about the running server as a whole, its queues and its workers."""

from __future__ import annotations

import os

import click

from franca.cli.group import Group
from franca.cli.output import counted, pairs, printable, table
from franca.cli.remote import Failed, Remote, confirm, remote
from franca.node import exits

# -- the server -------------------------------------------------------------------------------


@click.command()
@remote
def status(server: Remote) -> None:
    """Show how the running server is."""
    found = server.ask("server.status")
    if not server.as_json:
        pairs(found.items())


@click.command()
@remote
def stop(server: Remote) -> None:
    """Ask the running server to stop gracefully."""
    server.ask("server.stop")
    server.say("stopping", err=True)


@click.command()
@click.argument("file")
@remote
def backup(server: Remote, file: str) -> None:
    """Write a whole copy of the store into a new FILE while the server runs."""
    # The server's working directory is another one.
    path = os.path.abspath(file)
    server.ask("server.backup", {"path": path})
    server.say(path)


# -- queues -----------------------------------------------------------------------------------


@click.group(cls=Group)
def queues() -> None:
    """List, pause, resume and purge queues."""


@queues.command("ls")
@remote
def list_queues(server: Remote) -> None:
    """List queues with their counts."""
    found = server.ask("queues.list")["queues"]
    if not server.as_json:
        head = "QUEUE READY LEASED SCHEDULED RETRYING DEAD OLDEST PAUSED"
        table(head, "queue ready leased scheduled retrying dead oldest_ms paused", found)


_queue_names = click.argument("names", nargs=-1, required=True, metavar="QUEUE...")


def _add_queue_command(name: str, help_text: str) -> None:
    @queues.command(name, help=help_text)
    @_queue_names
    @remote
    def act(server: Remote, names: tuple[str, ...]) -> None:
        server.ask(f"queues.{name}", {"queues": names})


_add_queue_command("pause", "Give out no more jobs of these queues.")
_add_queue_command("resume", "Give out jobs of these queues again.")


@queues.command()
@_queue_names
@click.option("--yes", is_flag=True, help="Do not ask.")
@remote
def purge(server: Remote, names: tuple[str, ...], yes: bool) -> None:
    """Remove every ready job of these queues for good."""
    confirm(f"Every ready job of {', '.join(names)} will be removed. Go on?", yes)
    result = server.ask("queues.purge", {"queues": names})
    server.say(f"{counted(result['jobs'], 'job')} removed")


# -- workers ----------------------------------------------------------------------------------


@click.group(cls=Group)
def workers() -> None:
    """List workers, quiet or stop them."""


@workers.command("ls")
@remote
def list_workers(server: Remote) -> None:
    """List the workers that are there."""
    found = server.ask("workers.list")["workers"]
    if not server.as_json:
        head = "NAME PROTOCOL HOST PID STATE LINKS LABELS STARTED SEEN"
        members = "name protocol host pid state connections labels started_at seen_at"
        table(head, members, found)


def _add_worker_command(name: str, help_text: str) -> None:
    @workers.command(name, help=help_text)
    @click.argument("names", nargs=-1, metavar="[WORKER]...")
    @click.option("--all", "every", is_flag=True, help="Every worker.")
    @remote
    def ask(server: Remote, names: tuple[str, ...], every: bool) -> None:
        if bool(names) == every:
            raise Failed("say which workers: by name, or --all", exits.USAGE)
        result = server.ask(f"workers.{name}", {"workers": names, "all": every})
        for missing in result["missing"]:
            click.echo(f"There is no worker {printable(missing)}.", err=True)
        server.say(f"{counted(result['count'], 'worker')} asked")
        if result["missing"]:
            raise click.exceptions.Exit(exits.NOT_FOUND)


_add_worker_command("quiet", "Ask workers to take no more jobs.")
_add_worker_command("stop", "Ask workers to finish what they run and leave.")
