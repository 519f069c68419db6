"""What the pages say exists exists, and everything public says what it is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.trees import tree_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGE = ROOT / "src" / "franca"
# A path with a folder in it and an ending that only files of ours have; `...` and <...> are not.
_PATH = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)+[\w.-]+\.(?:py|md|sql|c|toml|json))\b")
_LINK = re.compile(r"\]\(([^)#\s]+)")
_TEST = re.compile(r"\btest_\w+\b")
# Where a path on a page may begin.
_BASES = ("", "src", "src/franca", "docs", "tests")


def missing_files(page: Path, root: Path) -> list[str]:
    """Paths and links of a page that lead nowhere."""
    text = page.read_text()
    links = [
        link for link in _LINK.findall(text) if "://" not in link and not link.startswith("mailto")
    ]
    wrong = [link for link in links if not (page.parent / link).exists()]
    named = set(_PATH.findall(text)) - set(links)
    bases = [root / base for base in _BASES]
    wrong += [path for path in sorted(named) if not any((base / path).exists() for base in bases)]
    return wrong


def missing_tests(page: Path, root: Path) -> list[str]:
    """Tests that a page names and nobody wrote."""
    named = set(_TEST.findall(page.read_text()))
    known = {path.stem for path in (root / "tests").rglob("test_*.py")}
    for path in (root / "tests").rglob("*.py"):
        known.update(re.findall(r"def (test_\w+)", path.read_text()))
    return sorted(named - known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_test_that_a_page_names_is_there(page: Path) -> None:
    assert missing_files(page, ROOT) == []
    assert missing_tests(page, ROOT) == []


def test_what_is_not_there_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_real.py").write_text("def test_that_exists(): ...\n")
    page = tmp_path / "page.md"
    page.write_text(
        "See `core/ghost.py`, [here](ghost.md), tests/test_real.py, test_that_exists, test_that_does_not\n"
    )
    assert missing_files(page, tmp_path) == ["ghost.md", "core/ghost.py"]
    assert missing_tests(page, tmp_path) == ["test_that_does_not"]


# -- docstrings -----------------------------------------------------------------------------


def undocumented(path: Path) -> Iterator[str]:
    """Public modules, classes and functions without a docstring."""
    tree = tree_of(path.read_text())
    if not ast.get_docstring(tree):
        yield f"{path.name}: the module"
    yield from _undocumented(tree, path.name)


def _undocumented(node: ast.AST, where: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if child.name.startswith("_") or _is_overload(child):
            continue
        if not ast.get_docstring(child):
            yield f"{where}:{child.lineno}: {child.name}"
        if isinstance(child, ast.ClassDef):
            yield from _undocumented(child, f"{where}:{child.name}")


def _is_overload(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in decorators)


def test_everything_public_says_what_it_is_for() -> None:
    silent = [
        f"{path.relative_to(PACKAGE)}: {what}"
        for path in PACKAGE.rglob("*.py")
        for what in undocumented(path)
    ]
    assert sorted(silent) == []


def test_silence_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "silent.py"
    path.write_text("class A:\n    def b(self): ...\n    def _c(self): ...\n\ndef d(): ...\n")
    assert [line.split(": ")[1] for line in undocumented(path)] == ["the module", "A", "b", "d"]
