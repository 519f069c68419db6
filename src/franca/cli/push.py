"""`franca push`: a job from the words of a command line."""

from __future__ import annotations

import datetime
import sys
import time
from typing import Any

import click
import msgspec
from msgspec import Raw

from franca.cli.complete import queue_names, type_names
from franca.cli.output import printable
from franca.cli.remote import Failed, Remote, duration, not_text, remote, show_json
from franca.node import exits

FIRST_LOOK_S = 0.02
LOOK_S = 0.5
"""Between two looks at a job that is waited for: the first, and the longest."""
ENDED = ("done", "dead", "cancelled")


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.argument("type", shell_complete=type_names)
@click.argument("args", nargs=-1)
@click.option("--at", default="", metavar="TIME", help="When to run it: 2030-01-31T12:00:00Z.")
@click.option("--in", "in_ms", type=duration, default=0, help="Run it this long from now: 10m.")
@click.option("--retry", type=click.IntRange(0, 2**31 - 1), default=25, show_default=True)
@click.option(
    "--lease", "lease_ms", type=duration, default="30m", show_default=True, help="Time per run."
)
@click.option("--name", default="", help="Its public name (jid); repeated, it is the same job.")
@click.option(
    "--idempotency-key", default="", help="Used again within a day, it means the same job."
)
@click.option("--priority", type=int, default=None, help="Smaller is more urgent.")
@click.option("--wait", is_flag=True, help="Wait for its end and print its result.")
@remote
def push(
    server: Remote,
    args: tuple[str, ...],
    at: str,
    priority: int | None,
    wait: bool,
    **params: object,
) -> None:
    """Push a job of TYPE into QUEUE and print its id.

    Each of ARGS is JSON if it can be read as JSON, and a text otherwise. A single dash reads
    the whole JSON array from stdin. Put -- before arguments that begin with a dash.

    With --wait the result is printed instead of the id, and a job that ends in another way than
    done is a failure. --timeout says how long to wait; the job goes on without you.
    """
    if at and params["in_ms"]:
        raise Failed("--at and --in exclude each other", exits.USAGE)
    params["args"] = arguments(args)
    if at:
        params["at"] = moment(at)
    if priority is not None:
        params["priority"] = priority
    if not wait:
        server.say(str(server.ask("jobs.push", params)["id"]))
        return
    deadline = time.monotonic() + server.timeout_s
    pushed = msgspec.json.decode(server.fetch("jobs.push", params))
    tell_end(server, wait_for(server, pushed["id"], deadline))


# -- --wait -----------------------------------------------------------------------------------


def wait_for(server: Remote, job_id: int, deadline: float) -> dict[str, Raw]:
    """The job as it is when it has ended; what its members are is left as the server wrote it."""
    pause = FIRST_LOOK_S
    while True:
        answer = server.fetch("jobs.show", {"job": job_id})
        [found] = msgspec.json.decode(answer, type=dict[str, list[dict[str, Raw]]])["jobs"]
        if state_of(found) in ENDED:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            raise Failed(f"job {job_id} is still {state_of(found)}", exits.TIMED_OUT)
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LOOK_S)


def tell_end(server: Remote, job: dict[str, Raw]) -> None:
    """Print what came of a job: its result, or on stderr why there is none."""
    if server.as_json:
        show_json(msgspec.json.encode(job))
    state = state_of(job)
    if state != "done":
        why = msgspec.json.decode(job.get("error", Raw(b"null"))) or "it has no error"
        raise Failed(f"job {bytes(job['id']).decode()} is {state}: {printable(str(why))}")
    result = bytes(job.get("result", Raw(b"null")))
    if result != b"null":
        server.say(plain(result))


def state_of(job: dict[str, Raw]) -> str:
    """The state of a job as it was told."""
    return str(msgspec.json.decode(job["state"]))


def plain(value: bytes) -> str:
    """JSON for people: a text without its quotes, all else as it was sent."""
    decoded: Any = msgspec.json.decode(value) if value.startswith(b'"') else value.decode()
    return printable(decoded)


def arguments(words: tuple[str, ...]) -> Raw:
    """The job's arguments as one JSON array, each number as it was written."""
    if words == ("-",):
        piped = sys.stdin.buffer.read()
        if not _is_json(piped):
            raise Failed("stdin is not JSON", exits.USAGE)
        return Raw(msgspec.json.format(piped, indent=-1))
    return Raw(b"[" + b",".join(bytes(value(word)) for word in words) + b"]")


def array(text: str) -> Raw:
    """Arguments that are one JSON array already."""
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise Failed(f"{not_text(text)} is not UTF-8", exits.USAGE) from None
    if not raw.lstrip().startswith(b"[") or not _is_json(raw):
        raise Failed("the arguments must be a JSON array", exits.USAGE)
    return Raw(msgspec.json.format(raw, indent=-1))


def value(word: str) -> Raw:
    """A word as JSON: as it is if it can be read as JSON, and else as a text."""
    try:
        raw = word.encode()
    except UnicodeEncodeError:
        raise Failed(f"{not_text(word)} is not UTF-8", exits.USAGE) from None
    return Raw(msgspec.json.format(raw, indent=-1) if _is_json(raw) else msgspec.json.encode(word))


def _is_json(raw: bytes) -> bool:
    try:
        raw.decode()
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def moment(text: str, option: str = "--at") -> datetime.datetime:
    """A moment; without a zone, it is the machine's."""
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        example = "2030-01-31T12:00:00Z"
        raise Failed(f"{option} {text!r} is not a time such as {example}", exits.USAGE) from None
