"""`franca export` and `import`: what goes into the file, and what is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from franca.cli import copies
from franca.node import exits
from tests.cli.conftest import Shell
from tests.cli.double import Double, Refusal

HEADER = '{"franca":"export","version":1}\n'
LINES = ['{"id":1,"policy":{"x":1.50}}', '{"id":2}', '{"id":3}']


class Stored:
    """What a server does with portions, as far as the command line can tell."""

    def __init__(self, double: Double, lines: list[str], of: int = 2) -> None:
        self.jobs = [json.loads(line) for line in lines]
        self.of = of
        self.fails_at = -1
        double.answers |= {"store.export": self.export, "store.import": self.take}

    def export(self, params: dict[str, Any]) -> dict[str, Any]:
        start = int(params.get("after", "at:0").partition(":")[2])
        end = start + self.of
        more = f"at:{end}" if end < len(self.jobs) else None
        return {"lines": self.jobs[start:end], "next": more, "total": len(self.jobs)}

    def take(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.fails_at == 0:
            raise Refusal("too-much", "the disk is full")
        self.fails_at -= 1
        wrong = [n for n, job in enumerate(params["lines"]) if job["id"] == 13]
        new = [job for job in params["lines"] if job["id"] != 13 and job not in self.jobs]
        self.jobs += new
        refused = [{"place": n, "error": "a job needs a queue"} for n in wrong]
        known = len(params["lines"]) - len(new) - len(wrong)
        return {"added": len(new), "skipped": known, "refused": refused}


def test_an_export_is_lines_behind_a_header(shell: Shell, double: Double, tmp_path: Path) -> None:
    Stored(double, LINES)
    told = shell("export")
    assert told.stdout.splitlines()[0] + "\n" == HEADER
    assert [json.loads(line) for line in told.stdout.splitlines()[1:]] == [
        json.loads(line) for line in LINES
    ]
    assert told.stderr == "3 lines exported\n"
    file = tmp_path / "e.jsonl"
    assert shell("export", str(file)).stdout == f"{file}\n"
    assert file.read_text() == told.stdout
    assert file.stat().st_mode & 0o077 == 0
    assert shell.json("export", str(tmp_path / "f")) == {"path": str(tmp_path / "f"), "lines": 3}


def test_an_export_that_fails_leaves_no_file(shell: Shell, double: Double, tmp_path: Path) -> None:
    calls: list[int] = []

    def export(params: dict[str, Any]) -> dict[str, Any]:
        if calls:
            raise Refusal("failed", "the store failed")
        calls.append(1)
        return {"lines": [{}], "next": "x", "total": 2}

    double.answers["store.export"] = export
    assert "the store failed" in shell("export", str(tmp_path / "e"), code=exits.FAILURE).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_file_that_is_there_is_left_alone(shell: Shell, double: Double, tmp_path: Path) -> None:
    (tmp_path / "e").write_text("mine")
    assert "exists" in shell("export", str(tmp_path / "e"), code=exits.FAILURE).stderr
    assert double.asked == []


@pytest.mark.parametrize("of", [1, 2, 500])
def test_what_is_imported_is_what_was_exported(
    shell: Shell, double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: int
) -> None:
    monkeypatch.setattr(copies, "PORTION_LINES", of)
    there = Stored(double, [])
    file = tmp_path / "e"
    file.write_text(HEADER + "\n".join(LINES) + "\n")
    assert shell("import", str(file)).stdout == "3 imported, 0 were there already\n"
    assert there.jobs == [json.loads(line) for line in LINES]
    assert len(double.params_of("store.import")) == -(-3 // of)
    piped = shell("import", typed=file.read_text()).stdout
    assert piped == "0 imported, 3 were there already\n"
    told = shell.json("import", str(file))
    assert told == {"lines": 3, "added": 0, "skipped": 3, "refused": []}


def test_a_job_that_is_refused_is_told_by_its_line(shell: Shell, double: Double) -> None:
    there = Stored(double, [])
    text = HEADER + LINES[0] + '\n{"id": 13}\n' + LINES[1]
    told = shell("import", typed=text, code=exits.FAILURE)
    assert told.stdout == "2 imported, 0 were there already\n"
    assert told.stderr.splitlines() == [
        "line 3 is not imported: a job needs a queue",
        "1 line not imported",
    ]
    assert [job["id"] for job in there.jobs] == [1, 2]


def test_numbers_are_sent_as_they_were_written(
    shell: Shell, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    answer = double.reply

    def reply(line: bytes) -> bytes:
        heard.append(line)
        return answer(line)

    monkeypatch.setattr(double, "reply", reply)
    Stored(double, [])
    shell("import", typed=f'{HEADER}{{"id": 1.50, "a": 12345678901234567890123}}\n')
    assert b'{"id": 1.50, "a": 12345678901234567890123}' in heard[0]


def test_an_import_that_fails_says_how_to_go_on(
    shell: Shell, double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PORTION_LINES", 2)
    there = Stored(double, [])
    there.fails_at = 1
    file = tmp_path / "e"
    file.write_text(HEADER + "\n".join(LINES) + "\n")
    told = shell("import", str(file), code=exits.FAILURE)
    assert "2 lines done; to go on: --skip 2" in told.stderr
    assert len(there.jobs) == 2
    there.fails_at = -1
    assert shell("import", str(file), "--skip", "2").stdout.startswith("1 imported")
    assert double.params_of("store.import")[-1] == {"lines": [json.loads(LINES[2])]}


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        ("", "not an export", exits.USAGE),
        ("{}\n", "not an export", exits.USAGE),
        ("\x00SQLite", "not an export", exits.USAGE),
        (HEADER.replace("1", "2"), "version 2", exits.USAGE),
        (HEADER + "nonsense\n{}\n", "line 2 is not JSON", exits.FAILURE),
        (HEADER + '{"a": "\\', "line 2 is not JSON", exits.FAILURE),
    ],
)
def test_what_is_no_export_is_not_imported(
    shell: Shell, double: Double, text: str, said: str, code: int
) -> None:
    Stored(double, [])
    assert said in shell("import", typed=text, code=code).stderr
    assert double.asked == []


def test_what_stands_before_a_wrong_line_is_imported(shell: Shell, double: Double) -> None:
    there = Stored(double, [])
    text = HEADER + f"{LINES[0]}\n{LINES[1]}\nnonsense\n{LINES[2]}\n"
    told = shell("import", typed=text, code=exits.FAILURE).stderr
    assert "2 lines done; to go on: --skip 2" in told
    assert "line 4 is not JSON" in told
    assert there.jobs == [json.loads(line) for line in LINES[:2]]


def test_large_lines_go_in_small_portions(
    shell: Shell, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PORTION_BYTES", 5)
    Stored(double, [])
    shell("import", typed=HEADER + "\n".join(LINES))
    assert [len(params["lines"]) for params in double.params_of("store.import")] == [1, 1, 1]
