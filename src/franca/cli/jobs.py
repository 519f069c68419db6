"""`franca push` and `franca jobs`: list them, show one, act on them by name or by filter."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec
from msgspec import Raw

from franca.cli.group import Group
from franca.cli.output import cell, counted, pairs, printable, table
from franca.cli.remote import Failed, Remote, confirm, duration, not_text, remote
from franca.node import exits

STATES = ("waiting", "ready", "leased", "done", "dead", "cancelled")


@click.group(cls=Group)
def jobs() -> None:
    """List, show and steer jobs."""


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which jobs are meant."""
    for option in (
        click.option("--type", default="", help="Only jobs of this type."),
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
def ls(server: Remote, oldest_first: bool, **params: object) -> None:
    """List jobs, newest first."""
    page = server.ask("jobs.find", params | {"newest_first": not oldest_first})
    if not server.as_json:
        head = "ID STATE QUEUE TYPE NAME AGE TRIES ERROR"
        table(head, "id state queue type name created_at attempts error", page["jobs"])
    if page["after"]:
        server.say(f"There may be more: --after {page['after']}", err=True)


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
        attempts = msgspec.json.decode(view.pop("story"))
        pairs((name, _plain(raw)) for name, raw in view.items())
        for attempt in attempts:
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


def _add(name: str, done: str, help_text: str, *, asks: bool = False) -> None:
    """Add a command that does one thing to many jobs."""

    def act(
        server: Remote, references: tuple[str, ...], yes: bool = True, **filtered: object
    ) -> None:
        by_filter = any(filtered.values())
        if by_filter == bool(references):
            reason = "say which jobs: by id or name, or by --state, --queue, --type"
            raise Failed(reason, exits.USAGE)
        if asks and by_filter:
            confirm(f"All jobs that fit will be {done}. Go on?", yes)
        result = server.ask(f"jobs.{name}", {"jobs": references, **filtered})
        server.say(f"{counted(result['count'], 'job')} {done}")
        _tell_skipped(result, done)

    command = remote(filters(click.argument("references", nargs=-1, metavar="[JOB]...")(act)))
    if asks:
        command = click.option("--yes", is_flag=True, help="Do not ask.")(command)
    jobs.command(name, help=help_text)(command)


def _tell_skipped(result: dict[str, Any], done: str) -> None:
    """Say what was not done, and end with the code for it."""
    for word in result["missing"]:
        click.echo(f"There is no job {printable(word)}.", err=True)
    for skip in result["skipped"]:
        about = f"Job {printable(skip['job'])} is {skip['state']}: not {done}"
        # A server of an earlier release gives no reason.
        told = skip.get("reason", "") not in ("", f"it is {skip['state']}")
        click.echo(f"{about}, {printable(skip['reason'])}." if told else f"{about}.", err=True)
    if result.get("skipped_more"):
        click.echo(f"{counted(result['skipped_more'], 'job')} more: not {done}.", err=True)
    if result["missing"]:
        raise click.exceptions.Exit(exits.NOT_FOUND)
    if result["skipped"]:
        raise click.exceptions.Exit(exits.FAILURE)


_add("retry", "retried", "Make waiting or dead jobs ready now.")
_add("kill", "killed", "Give live jobs up, into the dead set.", asks=True)
_add("cancel", "cancelled", "End live jobs, running ones too.", asks=True)
_add("delete", "deleted", "Remove waiting, ready or dead jobs for good.", asks=True)


# -- push -------------------------------------------------------------------------------------


@click.command()
@click.argument("queue")
@click.argument("type")
@click.argument("args", nargs=-1)
@click.option("--at", default="", metavar="TIME", help="When to run it: 2030-01-31T12:00:00Z.")
@click.option("--in", "in_ms", type=duration, default=0, help="How long from now: 10m.")
@click.option("--retry", type=click.IntRange(0, 2**31 - 1), default=25, show_default=True)
@click.option(
    "--lease", "lease_ms", type=duration, default="30m", show_default=True, help="Time per run."
)
@click.option("--name", default="", help="Its public name (jid); repeated, it is the same job.")
@remote
def push(server: Remote, args: tuple[str, ...], at: str, **params: object) -> None:
    """Push a job of TYPE into QUEUE and print its id.

    Each of ARGS is JSON if it can be read as JSON, and a text otherwise. A single dash reads
    the whole JSON array from stdin. Put -- before arguments that begin with a dash.
    """
    if at and params["in_ms"]:
        raise Failed("--at and --in exclude each other", exits.USAGE)
    params["args"] = arguments(args)
    if at:
        params["at"] = moment(at)
    server.say(str(server.ask("jobs.push", params)["id"]))


def arguments(words: tuple[str, ...]) -> Raw:
    """The job's arguments as one JSON array, each number as it was written."""
    if words == ("-",):
        piped = sys.stdin.buffer.read()
        if not _is_json(piped):
            raise Failed("stdin is not JSON", exits.USAGE)
        return Raw(msgspec.json.format(piped, indent=-1))
    return Raw(b"[" + b",".join(_argument(word) for word in words) + b"]")


def _argument(word: str) -> bytes:
    try:
        raw = word.encode()
    except UnicodeEncodeError:
        raise Failed(f"{not_text(word)} is not UTF-8", exits.USAGE) from None
    return msgspec.json.format(raw, indent=-1) if _is_json(raw) else msgspec.json.encode(word)


def _is_json(raw: bytes) -> bool:
    try:
        raw.decode()
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def moment(text: str) -> datetime.datetime:
    """A moment; without a zone, it is the machine's."""
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        example = "2030-01-31T12:00:00Z"
        raise Failed(f"--at {text!r} is not a time such as {example}", exits.USAGE) from None
