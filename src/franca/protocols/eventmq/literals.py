"""Reads what people write where the protocol wants a dictionary or a list: JSON, or Python's way.

Only the shape is read. Whatever is not quoted stays the text that it is, so that no number can be
too long and no name has a meaning here; what it says is for the reader of the field to decide.
"""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import Final

NESTING_MAX: Final = 8
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<mark>[\[\](){},:])
      | [bBuU]?"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"
      | [bBuU]?'(?P<single>[^'\\]*(?:\\.[^'\\]*)*)'
      | (?P<bare>[^\s\[\](){},:"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_CLOSES: Final = {"[": "]", "(": ")", "{": "}"}
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?"
)


class Bare(str):
    """A word that stood without quotes: a number, true, None, or anything else."""

    __slots__ = ()


Literal = str | list["Literal"] | dict[str, "Literal"]


class Unreadable(Exception):
    """The text is neither JSON nor written as Python does."""


class TooLong(Unreadable):
    """The text has more words and marks than are read."""


def read_literal(text: str, tokens_max: int) -> Literal:
    """The value that all of the text stands for; `Unreadable` if it stands for none.

    Tuples and sets are lists, and names in a dictionary that are no text are what is written there.
    A text of more than `tokens_max` words and marks is read no further: `TooLong`.
    """
    reader = _Reader(text, tokens_max)
    value = reader.value(0)
    if reader.peek():
        raise Unreadable
    return value


def number_of(text: str) -> float | None:
    """The number that a text is, if it is one that can be counted with."""
    number = float(text) if _NUMBER.fullmatch(text) else inf
    return number if isfinite(number) else None


class _Reader:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str, tokens_max: int) -> None:
        self._text = text.rstrip()
        self._left = tokens_max
        self._at = 0
        self._token: re.Match[str] | None = None

    def peek(self) -> str:
        """The next token as it is written; empty at the end."""
        token = self._next()
        return token[0].strip() if token is not None else ""

    def _next(self) -> re.Match[str] | None:
        if self._token is None and self._at < len(self._text):
            self._token = _TOKEN.match(self._text, self._at)
            if self._token is None:
                raise Unreadable
            self._at = self._token.end()
            self._left -= 1
            if self._left < 0:
                raise TooLong
        return self._token

    def _take(self) -> re.Match[str]:
        token = self._next()
        if token is None:
            raise Unreadable
        self._token = None
        return token

    def value(self, depth: int) -> Literal:
        """The value that begins here."""
        token = self._take()
        mark = token["mark"]
        if mark is None:
            return _leaf(token)
        if mark not in _CLOSES or depth >= NESTING_MAX:
            raise Unreadable
        return self._items(_CLOSES[mark], depth + 1)

    def _items(self, closes: str, depth: int) -> Literal:
        """What stands between two brackets: a list, or a dictionary if it has names."""
        items: list[Literal] = []
        named: dict[str, Literal] = {}
        while self.peek() != closes:
            item = self.value(depth)
            if closes == "}" and self.peek() == ":":
                self._take()
                if not isinstance(item, str):
                    raise Unreadable
                named[item] = self.value(depth)
            else:
                items.append(item)
            if self.peek() != closes and self._take()["mark"] != ",":
                raise Unreadable
        self._take()
        if named and items:
            raise Unreadable
        return items if items or closes != "}" else named


def _leaf(token: re.Match[str]) -> str:
    bare = token["bare"]
    if bare is not None:
        return Bare(bare)
    text = token["double"] if token["double"] is not None else token["single"]
    if "\\" not in text:
        return text
    # Two escapes may be one character; half of one is none.
    raw = _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass")
    return raw.decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
