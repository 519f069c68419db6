"""What a terminal can do: colour, width, a bar that moves. Nothing of it goes anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import click

BAR_CHARS = 30
REDRAWN_S = 0.1
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_OF_WORDS = {
    "dead": "red", "failed": "red", "bad": "red", "FAIL": "red", "stalled": "red",
    "retrying": "yellow", "warn": "yellow", "paused": "yellow", "quiet": "yellow",
    "stopping": "yellow",
    "running": "cyan", "leased": "cyan", "busy": "cyan",
    "done": "green", "ok": "green",
    "cancelled": "dim", "idle": "dim", "-": "dim",
}  # fmt: skip
"""The colour of a word that is the whole of a cell."""


# -- colour -----------------------------------------------------------------------------------


def wants_colour(env: Mapping[str, str], is_terminal: bool) -> bool:
    """Whether to write colours: NO_COLOR and FORCE_COLOR decide, then where the output goes."""
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR"):
        return True
    return is_terminal and env.get("TERM") != "dumb"


def choose_colour(context: click.Context, no_colour: bool) -> None:
    """Decide it for a command and all below it."""
    context.color = not no_colour and wants_colour(os.environ, sys.stdout.isatty())


def no_colour_option(command: click.decorators.FC) -> click.decorators.FC:
    """Give a command `--no-color`."""

    def turn_off(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
        if given:
            context.color = False

    return click.option(
        "--no-color", is_flag=True, expose_value=False, callback=turn_off, help="No colours."
    )(command)


def paint(text: str, colour: str) -> str:
    """The text in this colour, or in none, if that is what was decided."""
    context = click.get_current_context(silent=True)
    if not colour or context is None or not context.color:
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def colour_of(word: str) -> str:
    """The colour that a word has wherever it stands alone, or nothing."""
    return _OF_WORDS.get(word.strip(), "")


# -- room -------------------------------------------------------------------------------------


def columns() -> int:
    """How wide the terminal is that stdout is, or 0 if it is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def width(text: str) -> int:
    """How many columns a printable text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(combining(char) != 0 for char in text)


def cut(text: str, room: int) -> str:
    """The text, or its beginning and a mark, in no more columns than these."""
    if width(text) <= room:
        return text
    while text and width(text) > room - 1:
        text = text[:-1]
    return f"{text}…" if room else ""


def padded(text: str, room: int, *, right: bool = False) -> str:
    """The text with spaces beside it, so that it takes this many columns."""
    space = " " * (room - width(text))
    return space + text if right else text + space


# -- a bar ------------------------------------------------------------------------------------


class Progress:
    """A bar on stderr while something takes long; nothing where stderr is no terminal."""

    def __init__(self, what: str) -> None:
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._what = what
        self._drawn_at = 0.0
        self._begun_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self.is_shown and self._drawn_at:
            # What follows stands where the bar was.
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, done: int, of: int | None, unit: str = "") -> None:
        """Say how far it is; `of` is None if nobody knows of how many."""
        now = time.monotonic()
        if not self.is_shown or now - self._drawn_at < REDRAWN_S:
            return
        self._drawn_at = now
        sys.stderr.write(f"\r{self._line(done, of, unit, now - self._begun_at)}\x1b[K")
        sys.stderr.flush()

    def _line(self, done: int, of: int | None, unit: str, passed_s: float) -> str:
        if not of:
            return f"{self._what}  {amount(done, unit)}"
        share = min(1.0, done / of)
        filled = round(share * BAR_CHARS)
        bar = "#" * filled + "." * (BAR_CHARS - filled)
        left = ""
        if share > 0.02 and passed_s > 1:
            left = f"  {round(passed_s / share - passed_s)} s left"
        return f"{self._what}  [{bar}] {share:4.0%}  {amount(done, unit)}{left}"


def amount(number: int, unit: str) -> str:
    """`12.5 MB` of bytes, `1,234 jobs` of anything else."""
    if unit != "B":
        return f"{number:,} {unit}".rstrip()
    size, prefixes = float(number), iter("kMGT")
    prefix = ""
    while size >= 1000 and prefix != "T":
        size, prefix = size / 1000, next(prefixes)
    return f"{size:.1f} {prefix}B" if prefix else f"{number} B"
