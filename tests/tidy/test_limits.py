"""`docs/limits.md` lists every bound of the server with its default and its test, and the budgets are small."""

from __future__ import annotations

import re
from pathlib import Path

from franca.core.limits import Limits
from franca.protocols.memodb.settings import MemoDBSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "limits.md"
BUDGETS_MB_MAX = 300
_ROW = re.compile(r"^\| `limits\.(\w+)` \| ([^|]+) \|(.*)\|$", re.MULTILINE)
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "s": 1_000, "ms": 1, "min": 60_000, "h": 3_600_000}
_UNITS |= {"days": 86_400_000, "bytes": 1, "": 1}


def number_in(text: str) -> int:
    """A default as the page writes it: `64 MiB`, `10,000`, `5 s`."""
    number, _, unit = text.strip().partition(" ")
    return int(number.replace(",", "")) * _UNITS[unit]


def rows() -> dict[str, tuple[int, str]]:
    """The default and the rest of the row of every limit on the page."""
    return {
        name: (number_in(default), rest) for name, default, rest in _ROW.findall(PAGE.read_text())
    }


def test_every_limit_is_on_the_page_with_its_default() -> None:
    limits = Limits()
    assert {name: default for name, (default, _) in rows().items()} == {
        name: getattr(limits, name) for name in Limits.__struct_fields__
    }


def test_every_limit_names_a_test_that_exists() -> None:
    for name, (_, rest) in rows().items():
        tests = re.findall(r"`(tests/[\w/]+\.py)`", rest)
        assert tests, f"{name} names no test"
        assert [test for test in tests if not (ROOT / test).exists()] == []


def test_the_byte_budgets_together_are_below_what_the_page_says() -> None:
    section = PAGE.read_text().partition("## Byte budgets")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (\d+ MiB)(?: × (\d))? \|", section, re.MULTILINE)
    assert len(rows) >= 7
    owners = {"": Limits(), "memodb": MemoDBSettings()}
    total = 0
    for name, size, times in rows:
        owner, _, field = name.rpartition(".")
        assert getattr(owners[owner], field) == number_in(size), name
        total += number_in(size) * int(times or 1)
    assert total < BUDGETS_MB_MAX * 1_000_000
    assert f"{total / 1_000_000:.0f} MB" in section
