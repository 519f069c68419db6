"""The pure layers never tell the type checker to look away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "franca"
# A method may be called `cast`: that of a memoryview is.
_LOOKS_AWAY = re.compile(
    r"#\s*type:\s*ignore|#\s*mypy:|typing\.cast\b|(?<!def )(?<![.\w])cast\(|import .*\bcast\b"
)


def looks_away(text: str) -> list[str]:
    """The lines in which a type is asserted or ignored."""
    return [line for line in text.splitlines() if _LOOKS_AWAY.search(line)]


@pytest.mark.parametrize("folder", ["core", "engine", "protocols"])
def test_no_type_is_cast_or_ignored(folder: str) -> None:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert files
    assert {str(path): lines for path in files if (lines := looks_away(path.read_text()))} == {}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x = cast(bytes, y)", 1),
        ("from typing import Final, cast", 1),
        ("import typing; typing.cast(int, y)", 1),
        ("x = y  # type: ignore[assignment]", 1),
        ("x = y  #type:ignore", 1),
        ("# mypy: ignore-errors", 1),
        ("view.cast('b'); self.service.cast(job, self)", 0),
        ("    def cast(self) -> None: ...", 0),
        ("a broadcast(to all)", 0),
    ],
)
def test_what_is_planted_is_seen(line: str, count: int) -> None:
    assert len(looks_away(line)) == count
