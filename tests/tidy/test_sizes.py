"""A file is read in one sitting and a function in one look."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tidy.trees import tree_of

PACKAGE = Path(__file__).parents[2] / "src" / "franca"
FILE_LINES = 400
FUNCTION_LINES = 50


def too_long(name: str, text: str) -> list[str]:
    """What of this file is longer than it may be."""
    lines = text.count("\n")
    found = [f"{name}: {lines} lines"] if lines > FILE_LINES else []
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES:
                found.append(f"{name}: {node.name}: {lines} lines")
    return found


def test_nothing_is_too_long() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    assert [found for path in files for found in too_long(path.name, path.read_text())] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x = 1\n" * FILE_LINES, 0),
        ("x = 1\n" * (FILE_LINES + 1), 1),
        ("def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1), 0),
        ("def f():\n" + "    x = 1\n" * FUNCTION_LINES, 1),
        ("class C:\n    async def f():\n" + "        x = 1\n" * FUNCTION_LINES, 1),
    ],
)
def test_what_is_planted_is_seen(text: str, count: int) -> None:
    assert len(too_long("planted.py", text)) == count
