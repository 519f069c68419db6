"""Tables and values for people: plain columns; nothing a peer wrote moves the cursor."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from franca.cli import terminal

CELL_CHARS = 60
GAP = "  "
COLUMN_MIN = 6
"""No column is made narrower than this where a terminal is too narrow."""


def table(heads: str, members: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Print these members of what was found under these heads, as wide as they need.

    Numbers go to the right. Of a moment, how long ago it was is printed. On a terminal the widest
    columns are cut until a row has room on a line.
    """
    for line in table_lines(heads, members, found, terminal.columns()):
        click.echo(line)


def table_lines(
    heads: str, members: str, found: Sequence[Mapping[str, Any]], room: int = 0
) -> list[str]:
    """The lines of a table; `room` is how wide it may be, 0 if that does not matter."""
    columns = heads.split()
    rows = [[_shown(one.get(name), name) for name in members.split()] for one in found]
    texts = [[cell(value) for value in row] for row in rows]
    right = [
        any(type(row[index]) in (int, float) for row in rows)
        and all(row[index] is None or type(row[index]) in (int, float) for row in rows)
        for index in range(len(columns))
    ]
    widths = [max(map(terminal.width, column)) for column in zip(columns, *texts, strict=True)]
    _fit(widths, room)
    lines: list[str] = []
    for number, row in enumerate([columns, *texts]):
        placed = zip(row, widths, right, strict=True)
        cells = [terminal.padded(terminal.cut(t, w), w, right=r) for t, w, r in placed]
        cells[-1] = cells[-1].rstrip()
        coloured = (terminal.colour_of(text) if number else "bold" for text in cells)
        cells = [terminal.paint(text, c) for text, c in zip(cells, coloured, strict=True)]
        lines.append(GAP.join(cells).rstrip())
    return lines


def _fit(widths: list[int], room: int) -> None:
    """Make the widest columns narrower until the row is no wider than it may be."""
    surplus = sum(widths) + len(GAP) * (len(widths) - 1) - room
    while room and surplus > 0:
        widest = max(range(len(widths)), key=lambda index: widths[index])
        if widths[widest] <= COLUMN_MIN:
            return
        widths[widest] -= 1
        surplus -= 1


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
    if isinstance(value, float):
        return rate(value)
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
        click.echo(f"{terminal.paint(name.ljust(width), 'bold')}  {printable(text)}")


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


def rate(per_second: float | None) -> str:
    """So many a second, with as many digits as matter."""
    if per_second is None:
        return "-"
    return f"{per_second:.0f}" if per_second >= 100 or per_second == 0 else f"{per_second:.1f}"


def counted(count: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
