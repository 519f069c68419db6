"""What counts as a line of code."""

from __future__ import annotations

import pytest

from tests.tidy.lines import code_lines, totals


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""A module."""\n\n# a comment\nx = 1  # and another\n', 1),
        ("x = [\n    1,\n    # a comment\n\n    2,\n]\n", 4),
        ('def f():\n    """Of\n\n    four lines\n    """\n    return """a\n\nb"""\n', 3),
    ],
)
def test_neither_blanks_nor_comments_nor_docstrings_count(text: str, count: int) -> None:
    assert code_lines(text) == count


def test_totals_are_by_folder_and_name() -> None:
    files = (
        "src/franca/core/a.py",
        "src/franca/protocols/new/b.py",
        "tests/kit.py",
        "tests/x/test_y.py",
    )
    assert totals((name, "x = 1\n") for name in files) == {
        "src": 2, "src without new": 1, "tests": 2, "tests not named test_*": 1,
    }  # fmt: skip
