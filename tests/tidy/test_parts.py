"""The table of parts in `docs/ARCHITECTURE.md` is what the folders of the protocols hold."""

from __future__ import annotations

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


def wrong_parts(page: str, protocols: Path) -> list[str]:
    """Where the section "The parts of a protocol" of a page differs from the folders."""
    section = page.partition("\n## The parts of a protocol\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    (_, *names), _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    folders = {name.lower() for name in names}
    found = {path.parent.name for path in protocols.glob("*/__init__.py")}
    wrong = [f"{name}: a folder or a column is missing" for name in sorted(folders ^ found)]
    files = [row[0].strip("`") for row in rows]
    wrong += [f"{file}: a row of its own is missing" for file in FILES if files.count(file) != 1]
    for file, (_, *cells) in zip(files, rows, strict=True):
        for name, cell in zip(names, cells, strict=True):
            is_there = (protocols / name.lower() / file).exists()
            said, _, reason = cell.partition(": ")
            if said != ("yes" if is_there else "no"):
                wrong.append(f"{name}: {file} is {'there' if is_there else 'absent'}")
            elif not is_there and len(reason.split()) < REASON_WORDS_MIN:
                wrong.append(f"{name}: {file} is absent without a reason")
    return wrong


def test_every_protocol_has_the_parts_that_the_table_says() -> None:
    assert wrong_parts(PAGE.read_text(), PROTOCOLS) == []


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
    heading = "\n## The parts of a protocol\n"
    page = f"# Page\n{heading}\n| file | A | B |\n|---|---|---|\n| `wire.py` | {row} |\n{others}\n## Next\n"
    assert wrong_parts(page, tmp_path) == wrong
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "__init__.py").touch()
    assert wrong_parts(page.replace("`jobs.py`", "`job.py`"), tmp_path) == [
        "c: a folder or a column is missing", "jobs.py: a row of its own is missing", *wrong,
    ]  # fmt: skip
