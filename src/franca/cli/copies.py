"""`franca backup`, `export` and `import`: all jobs of a running server, in a file and back.

An export is a text of JSON lines. Its first line says what it is: `{"franca": "export",
"version": 1}`; each of the others is a schedule, a paused queue or a live
job, in the server's own words.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec
from msgspec import Raw, Struct

from franca.cli.output import counted, printable
from franca.cli.remote import Failed, Remote, remote, show_json
from franca.cli.terminal import Progress
from franca.node import exits

PARTIAL = ".franca-partial"
"""What is behind the name of a file that is not whole yet."""
STORE = "franca.db"
LOOK_S = 0.1
PORTION_LINES = 500
PORTION_BYTES = 1024 * 1024
"""What is sent at once of an import. A longer line goes alone."""
UNCERTAIN = (exits.NO_CONNECTION, exits.TIMED_OUT)
"""Ends of a question after which nobody knows whether it was acted on."""
VERSION = 1
HEADER = b'{"franca":"export","version":1}\n'
LINE_BYTES_MAX = 96 * 1024 * 1024
"""The largest body there may be, as it is written in an export."""


# -- backup -----------------------------------------------------------------------------------


@click.command()
@click.argument("file")
@remote
def backup(server: Remote, file: str) -> None:
    """Write a consistent copy of the store to a new FILE while the server runs.

    'franca restore FILE' puts it into an empty data directory.
    """
    # The server's working directory is another one.
    path = os.path.abspath(file)
    with Progress("backup") as bar:
        result = _copied(server, path, bar) if bar.is_shown else _ask(server, path)
    if server.as_json:
        show_json(result)
    server.say(path)


def _ask(server: Remote, path: str) -> bytes:
    return server.fetch("server.backup", {"path": path})


def _copied(server: Remote, path: str, bar: Progress) -> bytes:
    """Ask on another thread, and look at how the file grows until the answer is there."""
    answers: list[bytes | Failed] = []

    def ask() -> None:
        try:
            answers.append(_ask(server, path))
        except Failed as error:
            answers.append(error)

    whole = _size(os.path.join(server.directory, STORE))
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    while asking.is_alive():
        asking.join(LOOK_S)
        bar.show(_size(path + PARTIAL), whole, "B")
    [answer] = answers
    if isinstance(answer, Failed):
        raise answer
    return answer


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


# -- export -----------------------------------------------------------------------------------


class Exported(Struct):
    """A portion of an export of about `total` lines. `next` asks for the one behind it."""

    lines: list[Raw]
    next: str | None
    total: int


@click.command()
@click.argument("file", default="-")
@remote
def export(server: Remote, file: str) -> None:
    """Write schedules and live jobs as JSON lines to a new FILE, or to stdout.

    They can be imported by a server of another version, or with another store. Jobs that end
    meanwhile may be missing; 'franca backup' is a copy of everything at one moment.
    """
    with _written(file) as out, Progress("export") as bar:
        out.write(HEADER)
        count = 0
        params: dict[str, str] = {}
        while True:
            page = msgspec.json.decode(server.fetch("store.export", params), type=Exported)
            out.writelines(bytes(line) + b"\n" for line in page.lines)
            count += len(page.lines)
            if page.next is None:
                break
            params = {"after": page.next}
            bar.show(count, page.total, "lines")
    if file != "-":
        if server.as_json:
            server.show({"path": os.path.abspath(file), "lines": count})
        server.say(os.path.abspath(file))
    server.say(f"{counted(count, 'line')} exported", err=True)


@contextlib.contextmanager
def _written(file: str) -> Iterator[BinaryIO]:
    """A new file that bears its name when it is whole and on the disk, or stdout."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if os.path.exists(file):
        raise Failed(f"{file} exists")
    partial = file + PARTIAL
    try:
        # Jobs are nobody else's business.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            os.replace(partial, file)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
    except OSError as error:
        raise Failed(f"{file}: {error.strerror or error}") from None


# -- import -----------------------------------------------------------------------------------


class Refused(Struct):
    """A line that was not taken in: its place in the portion, and why."""

    place: int
    error: str


class Imported(Struct):
    """What became of a portion: how many lines were new, how many known, and the others."""

    added: int
    skipped: int
    refused: list[Refused]


@click.command("import")
@click.argument("file", default="-")
@click.option("--skip", type=click.IntRange(0), default=0, help="Skip this many lines.")
@remote
def import_jobs(server: Remote, file: str, skip: int) -> None:
    """Import schedules and jobs from an export into the running server.

    They go in portions; if one fails, it is said how to go on behind those that were done.
    """
    done, added, known = skip, 0, 0
    refused: list[dict[str, object]] = []
    with read_lines(file) as (source, size), Progress("import") as bar:
        _check_header(source)
        for _ in range(skip):
            source.readline(LINE_BYTES_MAX)
        try:
            for lines in portions(source, skip + 1):
                answer = server.fetch("store.import", {"lines": lines})
                result = msgspec.json.decode(answer, type=Imported)
                added, known = added + result.added, known + result.skipped
                refused += [_told(done, one) for one in result.refused]
                done += len(lines)
                bar.show(source.tell() if size else done, size, "B" if size else "lines")
        except (Failed, KeyboardInterrupt) as error:
            click.echo(f"{counted(done, 'line')} done; to go on: --skip {done}", err=True)
            if getattr(error, "exit_code", exits.TIMED_OUT) in UNCERTAIN:
                click.echo(f"up to {PORTION_LINES} behind those may be there already", err=True)
            raise
    if server.as_json:
        server.show({"lines": done, "added": added, "skipped": known, "refused": refused})
    server.say(f"{added:,} imported, {known:,} were there already")
    if refused:
        server.say(f"{counted(len(refused), 'line')} not imported", err=True)
        raise click.exceptions.Exit(exits.FAILURE)


def _told(before: int, one: Refused) -> dict[str, object]:
    """Say at once which line was not taken in."""
    line = before + one.place + 2
    click.echo(f"line {line} is not imported: {printable(one.error)}", err=True)
    return {"line": line, "error": one.error}


@contextlib.contextmanager
def read_lines(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """What is to be imported, and its size if it is known."""
    if file == "-":
        yield sys.stdin.buffer, None
        return
    try:
        with open(file, "rb") as source:
            yield source, os.fstat(source.fileno()).st_size
    except OSError as error:
        raise Failed(f"{file}: {error.strerror or error}") from None


def _check_header(source: BinaryIO) -> None:
    try:
        header = msgspec.json.decode(source.readline(1024), type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        header = {}
    if header.get("franca") != "export":
        raise Failed("this is not an export: its first line does not say so", exits.USAGE)
    if header.get("version") != VERSION:
        version = header.get("version")
        raise Failed(f"this export has version {version}; version {VERSION} is known", exits.USAGE)


def portions(source: BinaryIO, before: int) -> Iterator[list[Raw]]:
    """As many lines at a time as are sent at once."""
    lines: list[Raw] = []
    size = 0
    wrong = 0
    for number, line in enumerate(iter(lambda: source.readline(LINE_BYTES_MAX), b""), before + 1):
        try:
            line.decode()
            # Looked through, and sent as it was written.
            lines.append(Raw(msgspec.json.encode(msgspec.json.decode(line, type=Raw))))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            wrong = number
            break
        size += len(line)
        if len(lines) >= PORTION_LINES or size >= PORTION_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines
    if wrong:
        raise Failed(f"line {wrong} is not JSON: nothing from there on was sent")
