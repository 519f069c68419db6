"""Tables of bytes in text files.

A file holds tables with blank lines between them: a name and a colon, and below it a value per line. In a value stand
the escapes of Python's literals, `<x*3>` for `xxx`, and `<>` for nothing. Lines that begin with `#` are comments.
"""

from __future__ import annotations

import re
from pathlib import Path

_REPEATED = re.compile(rb"<(?:(.+?)\*([0-9]+))?>", re.DOTALL)


def tables(module: str) -> dict[str, tuple[bytes, ...]]:
    """Those of the text file beside this module's file."""
    text = Path(module).with_suffix(".txt").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found = [table.splitlines() for table in lines.strip().split("\n\n")]
    return {name.removesuffix(":"): tuple(map(_value, words)) for name, *words in found}


def _value(word: str) -> bytes:
    raw = word.encode().decode("unicode_escape").encode("latin-1")
    return _REPEATED.sub(lambda run: run[1] * int(run[2]) if run[2] else b"", raw)
