"""`franca jobs`: list them, show one, steer them by name or by filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec
from msgspec import Raw

from franca.cli import exits
from franca.cli.group import Group
from franca.cli.output import age, cell, jobs_word, pairs, printable, table
from franca.cli.remote import Failed, Remote, confirm, remote

STATES = ("waiting", "ready", "leased", "done", "dead", "cancelled")


@click.group(cls=Group)
def jobs() -> None:
    """List, show and steer jobs."""


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which jobs are meant."""
    for option in (
        click.option("--type", "kind", default="", help="Only jobs of this type."),
        click.option("--queue", default="", help="Only jobs of this queue."),
        click.option("--state", "states", type=click.Choice(STATES), multiple=True),
    ):
        command = option(command)
    return command


@jobs.command()
@filters
@click.option("--name", default="", help="Only jobs with this public name (jid).")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--after", type=click.IntRange(0, 2**63 - 2), default=0, help="Go on behind this id.")
@click.option("--oldest-first", is_flag=True)
@remote
def ls(
    server: Remote,
    states: tuple[str, ...],
    queue: str,
    kind: str,
    name: str,
    limit: int,
    after: int,
    oldest_first: bool,
) -> None:
    """List jobs, newest first."""
    params = {"states": states, "queue": queue, "type": kind, "name": name, "limit": limit}
    params |= {"after": after, "newest_first": not oldest_first}
    page = server.ask("jobs.find", params)
    if server.as_json:
        return
    head = ("ID", "STATE", "QUEUE", "TYPE", "NAME", "AGE", "TRIES", "ERROR")
    columns = ("id", "state", "queue", "type", "name")
    rows = [
        [*(job[name] for name in columns), age(job["created_at"]), job["attempts"], job["error"]]
        for job in page["jobs"]
    ]
    table(head, rows)
    if page["after"]:
        click.echo(f"There may be more: --after {page['after']}", err=True)


@jobs.command()
@click.argument("job")
@remote
def show(server: Remote, job: str) -> None:
    """Show everything about a job, by id or by name."""
    found = server.ask("jobs.show", {"job": job}, dict[str, list[dict[str, Raw]]])["jobs"]
    if server.as_json:
        return
    for number, view in enumerate(found):
        if number:
            click.echo()
        story = msgspec.json.decode(view.pop("story"))
        pairs((name, _plain(raw)) for name, raw in view.items())
        for attempt in story:
            error = f"{attempt['error']}: {attempt['text']}" if attempt["error"] else ""
            when = cell(attempt["ended_at"])
            click.echo(f"  {when}  {attempt['how']}  {attempt['holder']}  {printable(error)}")
            for line in attempt["trace"]:
                click.echo(f"      {printable(line)}")


def _plain(raw: Raw) -> str:
    """A value of JSON for people: a text without its quotes, all else as it was sent."""
    value = bytes(raw)
    if value == b"null":
        return ""
    return str(msgspec.json.decode(value)) if value.startswith(b'"') else value.decode()


def steering(op: str, past: str, *, asks: bool) -> Callable[..., None]:
    """The body of a command that does one thing to many jobs."""

    def steer(
        server: Remote,
        references: tuple[str, ...],
        states: tuple[str, ...],
        queue: str,
        kind: str,
        yes: bool = True,
    ) -> None:
        by_filter = bool(states or queue or kind)
        if by_filter == bool(references):
            raise Failed("say which jobs: by id or name, or by --state, --queue, --type", 2)
        if asks and by_filter:
            confirm(f"All jobs that fit will be {past}. Go on?", yes)
        params = {"jobs": references, "states": states, "queue": queue, "type": kind}
        result = server.ask(op, params)
        if not server.as_json:
            click.echo(f"{jobs_word(result['count'])} {past}")
        for word in result["missing"]:
            click.echo(f"There is no job {printable(word)}.", err=True)
        for skip in result["skipped"]:
            about = f"Job {printable(skip['job'])} is {skip['state']}: not {past}"
            told = skip["reason"] != f"it is {skip['state']}"
            click.echo(f"{about}, {printable(skip['reason'])}." if told else f"{about}.", err=True)
        if result.get("skipped_more"):
            click.echo(f"{jobs_word(result['skipped_more'])} more: not {past}.", err=True)
        if result["missing"]:
            raise click.exceptions.Exit(exits.NOT_FOUND)
        if result["skipped"]:
            raise click.exceptions.Exit(exits.FAILURE)

    return steer


def _add(name: str, past: str, help_text: str, *, asks: bool = False) -> None:
    body = steering(f"jobs.{name}", past, asks=asks)
    body.__name__ = name
    body.__doc__ = help_text
    command = remote(filters(click.argument("references", nargs=-1, metavar="[JOB]...")(body)))
    if asks:
        command = click.option("--yes", is_flag=True, help="Do not ask.")(command)
    jobs.command(name)(command)


_add("retry", "retried", "Make waiting or dead jobs ready now.")
_add("kill", "killed", "Give live jobs up, into the dead set.", asks=True)
_add("cancel", "cancelled", "End live jobs, running ones too.", asks=True)
_add("delete", "deleted", "Remove waiting, ready or dead jobs for good.", asks=True)
