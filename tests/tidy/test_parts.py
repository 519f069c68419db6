"""Every protocol has its parts, as `docs/ARCHITECTURE.md` shows them, and its place wherever the others have one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
PROTOCOLS = ROOT / "src" / "franca" / "protocols"
FILES = (
    "wire.py", "messages.py", "conversation.py", "client_commands.py", "worker_commands.py",
    "admin_commands.py", "jobs.py", "workers.py", "settings.py", "service.py",
)  # fmt: skip
REASON_WORDS_MIN = 3
PARTS, DIFFERENCES = "The parts of a protocol", "What protocols do differently"
_TABLE = f"docs/ARCHITECTURE.md, the table under {PARTS!r},"

FILES_OF_EACH = (
    "docs/protocols/{name}.md", "tests/protocols/{name}/puppet.py", "tests/support/{name}.py", "tests/prove/fences/{name}.txt",
    "tests/prove/hostile/{name}.py", "tests/prove/hostile/{name}.txt",
)  # fmt: skip
WORDS_OF_EACH = (
    ("README.md", r"\(docs/protocols/{name}\.md\) \|"),
    ("docs/ARCHITECTURE.md", r"\n### {title}: "),
    ("docs/crossing.md", r"\b{title}\b"),
    ("docs/limits.md", r"\*\*{title}:\*\*"),
    ("src/franca/protocols/registry.py", r"\b{name}\b"),
    ("tests/support/protocols.py", r"\b{name}\b"),
    ("tests/prove/registry.txt", r"\nfence .* no-fence-{name}\b"),
    ("tests/prove/registry.txt", r"\nfuzz .* {name}-"),
)
"""What stands where of each protocol, as patterns."""


def table_under(heading: str, page: str) -> list[list[str]]:
    """The rows of the table in this section of a page, the names of its columns first."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def wrong_parts(page: str, protocols: Path) -> list[str]:
    """Where the table of parts of a page differs from the folders."""
    (_, *names), _, *rows = table_under(PARTS, page)
    folders = {name.lower() for name in names}
    found = {path.parent.name for path in protocols.glob("*/__init__.py")}
    wrong = [f"{name}: {_TABLE} has no column for this folder" for name in sorted(found - folders)]
    wrong += [f"{name}: {_TABLE} has a column and there is no folder" for name in folders - found]
    files = [row[0].strip("`") for row in rows]
    wrong += [f"{file}: {_TABLE} must have one row" for file in FILES if files.count(file) != 1]
    for file, (_, *cells) in zip(files, rows, strict=True):
        for name, cell in zip(names, cells, strict=True):
            is_there = (protocols / name.lower() / file).exists()
            said, _, reason = cell.partition(": ")
            if said != ("yes" if is_there else "no"):
                wrong.append(f"{name}: {file} is {'there' if is_there else 'absent'}")
            elif not is_there and len(reason.split()) < REASON_WORDS_MIN:
                wrong.append(f"{name}: {file} is absent without a reason")
    return wrong


def missing_places(page: str, root: Path) -> list[str]:
    """Where something of a protocol is not, though each protocol of the page's tables should have it there."""
    (_, *titles), (_, *others) = table_under(PARTS, page)[0], table_under(DIFFERENCES, page)[0]
    missing = [f"one of the tables has no column for {title}" for title in {*titles} ^ {*others}]
    for title in titles:
        named = {"name": title.lower(), "title": title}
        files = [file.format(**named) for file in FILES_OF_EACH]
        missing += [f"{file} is not there" for file in files if not (root / file).exists()]
        for file, pattern in ((file, words.format(**named)) for file, words in WORDS_OF_EACH):
            if not re.search(pattern, (root / file).read_text()):
                missing.append(f"{file} has nothing like {pattern}")
    return missing


def test_every_protocol_has_its_place_wherever_the_others_have_one() -> None:
    missing = missing_places(PAGE.read_text(), ROOT)
    assert not missing, "\n".join(missing)


def test_a_place_that_is_missing_is_noticed(tmp_path: Path) -> None:
    for file, _ in WORDS_OF_EACH:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    wrong = missing_places(f"\n## {PARTS}\n| file | A |\n## {DIFFERENCES}\n| | A | B |\n", tmp_path)
    assert len(wrong) == 1 + len(FILES_OF_EACH) + len(WORDS_OF_EACH)
    assert "one of the tables has no column for B" in wrong
    assert r"docs/limits.md has nothing like \*\*A:\*\*" in wrong


def test_every_protocol_has_the_parts_that_the_table_says() -> None:
    wrong = wrong_parts(PAGE.read_text(), PROTOCOLS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("yes | no: there is no such thing", []),
        ("no: there is no such thing | no: there is no such thing", ["A: wire.py is there"]),
        ("yes | yes", ["B: wire.py is absent"]),
        ("yes | no", ["B: wire.py is absent without a reason"]),
    ],
)
def test_a_table_that_is_wrong_is_noticed(tmp_path: Path, row: str, wrong: list[str]) -> None:
    for name in ("a/__init__.py", "b/__init__.py", "a/wire.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    others = "".join(
        f"| `{file}` | no: not in this test | no: not in this test |\n" for file in FILES[1:]
    )
    page = f"# Page\n\n## {PARTS}\n\n| file | A | B |\n|---|---|---|\n| `wire.py` | {row} |\n{others}\n## Next\n"
    assert wrong_parts(page, tmp_path) == wrong
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "__init__.py").touch()
    assert wrong_parts(page.replace("`jobs.py`", "`job.py`"), tmp_path) == [
        f"c: {_TABLE} has no column for this folder", f"jobs.py: {_TABLE} must have one row", *wrong,
    ]  # fmt: skip
