"""`franca push`: one job from the command line."""

from __future__ import annotations

import datetime
import sys

import click
import msgspec
from msgspec import Raw

from franca.cli import exits
from franca.cli.remote import Failed, Remote, duration, not_text, remote


@click.command()
@click.argument("queue")
@click.argument("type")
@click.argument("args", nargs=-1)
@click.option("--at", default="", metavar="TIME", help="When to run it: 2030-01-31T12:00:00Z.")
@click.option("--in", "later", type=duration, default=0, help="How long from now: 10m.")
@click.option("--retry", type=click.IntRange(0, 2**31 - 1), default=25, show_default=True)
@click.option("--lease", type=duration, default="30m", show_default=True, help="Time per run.")
@click.option("--name", default="", help="Its public name (jid); repeated, it is the same job.")
@remote
def push(
    server: Remote,
    queue: str,
    type: str,
    args: tuple[str, ...],
    at: str,
    later: int,
    retry: int,
    lease: int,
    name: str,
) -> None:
    """Push a job of TYPE into QUEUE and print its id.

    Each of ARGS is JSON if it can be read as JSON, and a text otherwise. A single dash reads
    the whole JSON array from stdin. Put -- before arguments that begin with a dash.
    """
    if at and later:
        raise Failed("--at and --in exclude each other", exits.USAGE)
    params: dict[str, object] = {"queue": queue, "type": type, "args": arguments(args)}
    params |= {"retry": retry, "lease_ms": lease, "in_ms": later, "name": name}
    if at:
        params["at"] = moment(at)
    job = server.ask("jobs.push", params)
    if not server.as_json:
        click.echo(job["id"])


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
