"""What the dashboard's files weigh and what they may not do, without a browser."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "src" / "franca" / "web" / "static"
FIRST_PAINT_BYTES = 100_000
_IMPORT = re.compile(r'^\s*(?:import|export)\b[^;]*?from\s+"([^"]+)"', re.MULTILINE | re.DOTALL)
_LINKED = re.compile(r'(?:src|href)="([^"#]+\.(?:js|css|svg))"')
# What would run text, or let a value become markup.
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment", "srcdoc",
    "eval(", "new Function", "setAttribute(\"on", "setAttribute('on", "dangerously",
)  # fmt: skip
SOURCES = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".html", ".css"))


def imported(path: Path) -> set[Path]:
    """A module and all that it imports at once."""
    seen: set[Path] = set()
    left = [path]
    while left:
        module = left.pop()
        if module not in seen:
            seen.add(module)
            left += [
                (module.parent / name).resolve() for name in _IMPORT.findall(module.read_text())
            ]
    return seen


def compressed(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 6))


def first_paint(page: str) -> set[Path]:
    """What the browser loads before this page can be seen."""
    index = STATIC / "index.html"
    files = {index, *((STATIC / name).resolve() for name in _LINKED.findall(index.read_text()))}
    for module in (STATIC / "js" / "main.js", STATIC / "js" / "pages" / f"{page}.js"):
        files |= imported(module)
    return files


PAGES = sorted(path.stem for path in (STATIC / "js" / "pages").glob("*.js"))


@pytest.mark.parametrize("page", PAGES)
def test_the_first_paint_is_small(page: str) -> None:
    files = first_paint(page)
    size = sum(compressed(path) for path in files)
    print(f"first paint of {page}: {len(files)} files, {size:,} bytes compressed")
    assert len(files) > 10
    assert size < FIRST_PAINT_BYTES


def test_imports_are_followed() -> None:
    names = {path.name for path in first_paint("overview")}
    assert {
        "main.js",
        "dom.js",
        "overview.js",
        "chart.js",
        "tokens.css",
        "icon.svg",
        "index.html",
    } <= names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_file_names_another_host_or_runs_text(path: Path) -> None:
    text = path.read_text()
    hosts = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)) - {"http://www.w3.org"}
    assert hosts == set()
    assert [word for word in FORBIDDEN if word in text] == []
    assert not re.search(r"<[a-z][^>]*\son\w+\s*=", text)
    if path.suffix == ".html":
        assert "<style" not in text
        assert " style=" not in text
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
