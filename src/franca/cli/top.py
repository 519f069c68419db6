"""`franca top`: queues, rates, running jobs and workers, anew every second."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from types import TracebackType
from typing import Any, Self

import click
import msgspec
from msgspec import Struct

from franca.cli.output import printable, rate, span, table_lines
from franca.cli.remote import Failed, Remote, duration, remote
from franca.cli.status import counts_line, notice_line
from franca.cli.terminal import cut, paint

SHOWN = 200
"""Running jobs that are asked for; no terminal is higher."""
NOTICES = 3
LEAVES = frozenset("qQ\x03\x04")


class Look(Struct):
    """What the server said at one moment."""

    status: dict[str, Any]
    overview: dict[str, Any]
    workers: list[dict[str, Any]]
    running: list[dict[str, Any]]


@click.command()
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@click.option("--every", "every_ms", type=duration, default="1s", help="Refresh interval: 2s.")
@remote
def top(server: Remote, once: bool, every_ms: int) -> None:
    """Watch queues, rates, running jobs and workers; q leaves."""
    if server.as_json:
        server.ask("overview")
    elif once or not sys.stdout.isatty():
        for line in frame(look(server), *shutil.get_terminal_size((80, 24))):
            click.echo(line)
    else:
        watch(server, max(0.2, every_ms / 1000))


def look(server: Remote) -> Look:
    """Ask for all of it."""
    overview = msgspec.json.decode(server.fetch("overview"))
    page = server.fetch("jobs.search", {"q": "state:running", "limit": SHOWN})
    return Look(
        status=msgspec.json.decode(server.fetch("server.status")),
        overview=overview,
        workers=msgspec.json.decode(server.fetch("workers.find"))["workers"],
        running=msgspec.json.decode(page)["jobs"],
    )


# -- one picture ------------------------------------------------------------------------------


def frame(seen: Look, columns: int, lines: int) -> list[str]:
    """The picture of one moment: no line is longer, and there are not more of them."""
    head = _head(seen, columns)
    parts = [_queues(seen, columns), _running(seen, columns), _workers(seen, columns)]
    # A blank line in front of each; what one does not need is for the others.
    room = lines - len(head) - len(parts)
    for part, size in zip(parts, shares([len(part) for part in parts], room), strict=True):
        if size > 1 and part:
            head += ["", *part[:size]]
    return head[:lines]


def shares(wanted: list[int], room: int) -> list[int]:
    """How many lines each part gets: as many as it wants, or as many as the others."""
    given = [0] * len(wanted)
    while room > 0:
        hungry = [index for index, size in enumerate(wanted) if given[index] < size]
        if not hungry:
            break
        fewest = min(hungry, key=lambda index: given[index])
        given[fewest] += 1
        room -= 1
    return given


def _head(seen: Look, columns: int) -> list[str]:
    status, overview = seen.status, seen.overview
    up = span(int(status.get("uptime_s", 0)) * 1000)
    title = f"Franca {status.get('version')}  up {up}  {str(overview['now_at'])[11:19]} UTC"
    counts = f"jobs: {counts_line(overview['counts'])}"
    rates = "  ".join(f"{name} {rate(n)}/s" for name, n in overview["rates"].items())
    workers = overview["workers"]
    busy = f"{workers['busy']} of {workers['all']} workers busy"
    lines = [paint(cut(title, columns), "bold"), cut(counts, columns)]
    lines.append(cut(f"{rates}  oldest {span(overview['oldest_ms'])}  {busy}", columns))
    return lines + [_whole(notice, columns) for notice in overview["notices"][:NOTICES]]


def _whole(notice: dict[str, Any], columns: int) -> str:
    """A notice on one line; colours only where nothing must be cut."""
    line = notice_line(notice).strip()
    plain = click.unstyle(line)
    return line if len(plain) <= columns else cut(plain, columns)


def _queues(seen: Look, columns: int) -> list[str]:
    rows = sorted(seen.overview["queues"], key=lambda q: (-(q["ready"] + q["running"]), q["queue"]))
    for row in rows:
        row["waiting"] = row["scheduled"] + row["retrying"]
        row["state"] = "paused" if row["paused"] else None
    heads = "QUEUE READY RUNNING WAITING DEAD IN/s OUT/s OLDEST STATE"
    members = "queue ready running waiting dead in out oldest_ms state"
    return table_lines(heads, members, rows, columns)


def _running(seen: Look, columns: int) -> list[str]:
    for row in seen.running:
        row["progress_text"] = progress_text(row["progress"])
    heads = "JOB TYPE QUEUE WORKER RUNS-FOR TRIES PROGRESS"
    members = "id type queue worker started_at attempts progress_text"
    return table_lines(heads, members, seen.running, columns) if seen.running else []


def progress_text(progress: dict[str, Any] | None) -> str:
    """How far a job is, in a few characters."""
    if not progress:
        return ""
    n, of, text = progress.get("n"), progress.get("of"), printable(progress.get("text") or "")
    if n is None:
        return text
    return f"{n / of:.0%} {text}".strip() if of else f"{n} {text}".strip()


def _workers(seen: Look, columns: int) -> list[str]:
    for row in seen.workers:
        running = row.get("running") or []
        row["runs"] = len(running) if isinstance(running, list) else running
    rows = sorted(seen.workers, key=lambda worker: (-worker["runs"], worker["name"]))
    heads = "WORKER PROTOCOL STATE RUNS HOST PID SEEN"
    members = "name protocol state runs host pid seen_at"
    return table_lines(heads, members, rows, columns) if rows else []


# -- the terminal -----------------------------------------------------------------------------


def watch(server: Remote, every_s: float) -> None:
    """Draw picture after picture until a key says to leave."""
    last: list[str] = []
    with Screen() as screen:
        while True:
            columns, lines = shutil.get_terminal_size((80, 24))
            try:
                last = frame(look(server), columns, lines)
                screen.draw(last, lines)
            except Failed as error:
                # It may be back in a moment; the last picture is better than none.
                text = cut(printable(error.message), columns)
                screen.draw([*last[: lines - 1], paint(text, "red")], lines)
            if screen.wait(every_s) in LEAVES:
                return


class Screen:
    """The terminal for as long as this is entered: a page of its own, keys as they come."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else -1
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if self._keys >= 0:
            import termios
            import tty

            self._before = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self._write("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._write("\x1b[?25h\x1b[?1049l")
        if self._before:
            import termios

            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def draw(self, lines: list[str], height: int) -> None:
        """Write the lines over what is there."""
        rows = [*lines, *[""] * (height - len(lines))]
        # Cleared first: behind a row that is full the cursor still stands on its last character.
        self._write("\x1b[H" + "\r\n".join(f"\x1b[2K{row}" for row in rows[:height]))

    def wait(self, span_s: float) -> str:
        """The key that was pressed, or nothing after so long."""
        if self._keys < 0:
            time.sleep(span_s)
            return ""
        ready, _, _ = select.select([self._keys], [], [], span_s)
        return os.read(self._keys, 1).decode(errors="replace") if ready else ""

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
