"""What a viewer does not see: the values of arguments whose names say that they are secret.

One function for everything that is shown, whatever it is part of: results, errors, found jobs,
events, exports. It looks for names in JSON that may be cut off anywhere, in JSON inside of JSON,
and in texts that say `name=value` or `name: value`. Bytes that are no text are not shown at all.
What has no name, such as the second of three arguments, cannot be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

HIDDEN: Final = "[redacted]"
_NAMED: Final = re.compile(
    r"""(?:(?<!\\)(?P<quote>\\{0,64}["'])(?P<quoted>[^"']{1,128}?)\\{0,64}["']"""
    r"""|(?<![\w.\-])(?P<bare>[\w.\-]{1,128}))\s{0,8}[:=]\s{0,8}"""
)
"""A name, and what stands between it and its value. Bounded everywhere: no text takes long."""
NAMED_CHARS: Final = 512
"""No name is longer, with all that stands between it and its value."""
AT_ONCE_CHARS: Final = 8 * 1024
"""What is looked through in one go, in which no other thread of the server gets its turn."""
_OPEN: Final = {"{": "}", "[": "]"}
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


class Redaction:
    """Hides the values of everything whose name fits one of these, in which `*` is anything."""

    def __init__(self, names: Iterable[str]) -> None:
        globs = [name.lower() for name in names]
        self._hides = re.compile("|".join(map(translate, globs))).match if globs else None

    @property
    def is_on(self) -> bool:
        """Whether anything is hidden."""
        return self._hides is not None

    def shown(self, value: object) -> object:
        """A value as a viewer sees it; of plain values such as JSON has."""
        if self._hides is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.shown(one) for one in value]
        if isinstance(value, dict):
            return {name: self._member(str(name), one) for name, one in value.items()}
        return value

    def _member(self, name: str, value: object) -> object:
        is_secret = name == "base64" or (self._hides is not None and self._hides(name.lower()))
        return HIDDEN if is_secret and value is not None else self.shown(value)

    def text(self, text: str) -> str:
        """A text without the values that are named in it."""
        if self._hides is None:
            return text
        pieces: list[str] = []
        shown = 0
        at = 0
        while (found := _next_name(text, at)) is not None:
            at = found.end()
            name = _ESCAPED.sub(_character, found["quoted"] or found["bare"])
            if self._hides(name.lower()):
                quote = found["quote"] or ""
                pieces += text[shown:at], quote, HIDDEN, quote
                shown = at = _end_of_value(text, at)
        return "".join([*pieces, text[shown:]]) if pieces else text


def _next_name(text: str, at: int) -> re.Match[str] | None:
    """The first name from here on, looked for in steps: a text may be long, and have none."""
    while at < len(text):
        end = at + AT_ONCE_CHARS
        found = _NAMED.search(text, at, end + NAMED_CHARS)
        if found is not None and found.start() < end:
            return found
        at = end
    return None


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def _end_of_value(text: str, at: int) -> int:
    """Where the value ends that begins here, or the text if it was cut off."""
    begin = at
    while at < len(text) and text[at] == "\\":
        at += 1
    if at < len(text) and text[at] in "\"'":
        return _end_of_string(text, at, escapes=at - begin)
    if text[begin : begin + 1] in _OPEN:
        return _end_of_whole(text, begin)
    while at < len(text) and text[at] not in ",;&)]}\n":
        at += 1
    return at


def _end_of_string(text: str, at: int, escapes: int) -> int:
    """Behind the quote that ends a string; within JSON inside of JSON, quotes are escaped."""
    quote = text[at]
    at += 1
    while at < len(text):
        run = at
        while run < len(text) and text[run] == "\\":
            run += 1
        if run < len(text) and text[run] == quote and run - at <= escapes:
            return run + 1
        at = run + 1
    return len(text)


def _end_of_whole(text: str, at: int) -> int:
    """Behind the bracket that ends an object or a list."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character in "\"'" and depth:
            at = _end_of_string(text, at, escapes=0)
            continue
        depth += (character in "{[") - (character in "}]")
        at += 1
        if depth == 0:
            break
    return at
