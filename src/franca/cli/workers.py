"""`franca workers`: list them, show one, ask them to be quiet or to leave."""

from __future__ import annotations

import click
import msgspec
from msgspec import Raw, Struct

from franca.cli.complete import worker_names
from franca.cli.group import Group
from franca.cli.output import counted, pairs, printable, table
from franca.cli.remote import Failed, Remote, remote, show_json
from franca.node import exits


class _Listed(Struct):
    workers: list[Raw]


@click.group(cls=Group)
def workers() -> None:
    """List, quiet and stop workers."""


@workers.command("ls")
@remote
def list_workers(server: Remote) -> None:
    """List workers."""
    if server.as_json:
        server.ask("workers.list")  # its states have the words that scripts know
    else:
        # An earlier release that is still running knows no other.
        listed = server.fetch_if_known("workers.find") or server.fetch("workers.list")
        answer = msgspec.json.decode(listed)
        found = answer["workers"]
        head = "NAME PROTOCOL HOST PID STATE LINKS LABELS STARTED SEEN"
        members = "name protocol host pid state connections labels started_at seen_at"
        table(head, members, found)
        if len(found) < (total := answer.get("total", 0)):
            click.echo(f"These are {len(found):,} of {total:,} workers.", err=True)


@workers.command()
@click.argument("worker", shell_complete=worker_names)
@remote
def show(server: Remote, worker: str) -> None:
    """Show a worker: its host, its queues and the jobs it runs."""
    listed = msgspec.json.decode(server.fetch("workers.find", {"name": worker}), type=_Listed)
    views = [(raw, msgspec.json.decode(raw)) for raw in listed.workers]
    found = [(raw, view) for raw, view in views if view["name"] == worker]
    if not found:
        raise Failed(f"there is no worker {worker}", exits.NOT_FOUND)
    if server.as_json:
        show_json(msgspec.json.encode({"workers": [raw for raw, _view in found]}))
        return
    for number, (_raw, view) in enumerate(found):
        if number:
            click.echo()
        running = view.pop("running", None) or []
        pairs(view.items())
        if running:
            table("JOB TYPE QUEUE RUNS-FOR", "id type queue started_at", running)


def _add_worker_command(name: str, help_text: str) -> None:
    @workers.command(name, help=help_text)
    @click.argument("names", nargs=-1, metavar="[WORKER]...", shell_complete=worker_names)
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
_add_worker_command("stop", "Ask workers to finish their jobs and stop.")
