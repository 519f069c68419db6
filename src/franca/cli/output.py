"""Tables and values for people: plain columns, no colour, nothing a peer wrote moves the cursor."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

CELL_CHARS = 60


def table(heads: str, members: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Print these members of what was found under these heads, as wide as they need.

    Numbers go to the right. Of a moment, how long ago it was is printed.
    """
    columns = heads.split()
    rows = [[_shown(one[name], name) for name in members.split()] for one in found]
    texts = [[cell(value) for value in row] for row in rows]
    right = [all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for row in [columns, *texts]:
        placed = zip(row, widths, right, strict=True)
        cells = [text.rjust(w) if to_right else text.ljust(w) for text, w, to_right in placed]
        click.echo("  ".join(cells).rstrip())


def _shown(value: Any, name: str) -> object:
    if name.endswith("_at"):
        return age(value)
    return span(value) if name.endswith("_ms") else value


def cell(value: object) -> str:
    """A value in one short line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = ",".join(str(one) for one in value) or "-"
    text = printable(str(value))
    return text if len(text) <= CELL_CHARS else f"{text[: CELL_CHARS - 3]}..."


def printable(text: str) -> str:
    """The text with every control character written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def pairs(values: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other; what has no value is left out."""
    shown = [(name, value) for name, value in values if value not in (None, "", [], {})]
    width = max((len(name) for name, _value in shown), default=0)
    for name, value in shown:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        click.echo(f"{name.ljust(width)}  {printable(text)}")


def span(milliseconds: int | None) -> str:
    """A span in its largest unit: 12s, 3m, 5h, 2d."""
    if milliseconds is None:
        return "-"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds >= size:
            return f"{milliseconds // size}{unit}"
    return f"{max(0, milliseconds)}ms"


def age(moment: str | None) -> str:
    """How long ago a moment was, or in how long it will be."""
    if not moment:
        return "-"
    try:
        then = datetime.datetime.fromisoformat(moment)
    except ValueError:
        return moment
    passed = int((datetime.datetime.now(datetime.UTC) - then).total_seconds() * 1000)
    return span(passed) if passed >= 0 else f"in {span(-passed)}"


def counted(count: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
