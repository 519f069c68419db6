"""`franca schedules`: rules that make jobs, by cron or every so often."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from franca.cli.complete import queue_names, type_names
from franca.cli.group import Group
from franca.cli.output import pairs, span, table
from franca.cli.push import arguments, array, plain
from franca.cli.remote import Failed, Remote, duration, remote
from franca.node import exits

OF_A_RULE = ("queue", "type", "args", "cron", "every_ms", "timezone")
"""What may be said of a schedule, and is kept by `edit` where nothing is said of it."""


@click.group(cls=Group)
def schedules() -> None:
    """List, create, edit, run, pause and remove schedules."""


@schedules.command("ls")
@remote
def list_schedules(server: Remote) -> None:
    """List schedules, the next one to run first."""
    found = server.ask("schedules.list")["schedules"]
    if not server.as_json:
        rows = [{**one, "when": when(one), "last": _last(one)} for one in found]
        heads = "ID QUEUE TYPE WHEN NEXT LAST PAUSED"
        table(heads, "id queue type when next_at last paused", rows)


@schedules.command()
@click.argument("schedule")
@remote
def show(server: Remote, schedule: str) -> None:
    """Show a schedule and its next run times."""
    found = server.ask("schedules.show", {"id": schedule})
    if server.as_json:
        return
    pairs(
        [
            *((name, found[name]) for name in ("id", "queue", "type")),
            ("args", plain(msgspec.json.encode(found["args"])) if found["args"] else "[]"),
            ("when", when(found)),
            ("paused", "yes" if found["paused"] else "no"),
            ("last", _last(found)),
            ("source", found["source"]),
            *(("next", moment) for moment in found["upcoming_at"]),
        ]
    )


def when(schedule: dict[str, Any]) -> str:
    """A schedule's rule in a few words."""
    if schedule["cron"]:
        return f"{schedule['cron']} {schedule['timezone']}".strip()
    return f"every {span(schedule['every_ms'])}"


def _last(schedule: dict[str, Any]) -> str:
    last = schedule["last"]
    return f"{last['id']} {last['state']}" if last else ""


def rule(command: Any) -> Any:
    """The options that say when a schedule runs."""
    for option in (
        click.option(
            "--timezone", default=None, help="Time zone of the cron expression: Europe/Berlin."
        ),
        click.option("--every", "every_ms", type=duration, default=None, help="Interval: 15m."),
        click.option("--cron", default=None, help="A cron expression: '0 3 * * *'."),
    ):
        command = option(command)
    return command


@schedules.command()
@click.argument("schedule", metavar="ID")
@click.argument("queue", shell_complete=queue_names)
@click.argument("type", shell_complete=type_names)
@click.argument("args", nargs=-1)
@rule
@remote
def add(server: Remote, schedule: str, args: tuple[str, ...], **rest: object) -> None:
    """Create a schedule that pushes a job of TYPE into QUEUE.

    ARGS are those of 'franca push'.
    """
    if bool(rest["cron"]) == bool(rest["every_ms"]):
        raise Failed("say when it runs: --cron or --every", exits.USAGE)
    said = {name: value for name, value in rest.items() if value is not None}
    server.ask("schedules.create", {"id": schedule, "args": arguments(args), **said})
    server.say(schedule)


@schedules.command()
@click.argument("schedule", metavar="ID")
@click.option("--queue", default=None, help="The queue of its jobs.", shell_complete=queue_names)
@click.option("--type", default=None, help="The type of its jobs.", shell_complete=type_names)
@click.option("--args", default=None, help="The arguments of its jobs: a JSON array.")
@rule
@remote
def edit(server: Remote, schedule: str, args: str | None, **rest: object) -> None:
    """Change a schedule; what no option names stays as it is."""
    said = {name: value for name, value in rest.items() if value is not None}
    if "cron" in said and "every_ms" in said:
        raise Failed("--cron and --every exclude each other", exits.USAGE)
    if args is not None:
        said["args"] = array(args)
    if not said:
        raise Failed("say what is to be changed", exits.USAGE)
    server.ask("schedules.edit", {"id": schedule, **said})


def _add(name: str, operation: str, help_text: str) -> None:
    @schedules.command(name, help=help_text)
    @click.argument("schedule", metavar="ID")
    @remote
    def act(server: Remote, schedule: str) -> None:
        result = server.ask(f"schedules.{operation}", {"id": schedule})
        if operation == "run":
            server.say(str(result["id"]))


_add("run", "run", "Push its job now, beside the moments of its rule.")
_add("pause", "pause", "Let it push no more jobs.")
_add("resume", "resume", "Let it push jobs again.")
_add("rm", "delete", "Remove it.")
