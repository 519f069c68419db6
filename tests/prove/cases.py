"""Every case that was once wrong (`tests/cases`) is right here; `--against COMMIT`: and was wrong there.

The cases are run by pytest, one after the other, against this tree's server, or against that of another commit
whose source is extracted for it. There, each case must fail by an assertion of its own: a test that
breaks in any other way shows nothing about the server.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.cases.conftest import LAUNCHER, SOURCE
from tests.prove.options import Options
from tests.prove.outcomes import BROKEN, FAILED, FILE, HELD, ONLY
from tests.support.server import ROOT

NAME = "cases"
MUTANTS: tuple[str, ...] = ("own-names",)

NUMBERS = frozenset(range(1, 32))
UNSHOWN = frozenset({4, 28, 31})
"""Nothing that a running server can show: one that cannot be reached, a page, a rule of the checker."""
_QUICK = "29"
_TEXT_LINES = 3
_COLUMNS = 160


class Outcome(NamedTuple):
    """What came of one test."""

    cases: tuple[int, ...]
    test: str
    verdict: str
    text: str


def run(options: Options) -> bool:
    began = time.monotonic()
    commit = options.text("against", "")
    only = options.text("only", _QUICK if options.short else "")
    wanted = frozenset(map(int, only.split(","))) if only else NUMBERS - UNSHOWN
    with tempfile.TemporaryDirectory(prefix="franca-cases-") as scratch:
        environment = {LAUNCHER: " ".join(options.argv_prefix), ONLY: only}
        if commit:
            environment[SOURCE] = str(extracted(commit, Path(scratch)))
        expression = "case and not long" if options.short else "case"
        done = play(environment, Path(scratch) / "outcomes", expression)
    shown = {number for outcome in done for number in outcome.cases}
    failed = {number for o in done if o.verdict == FAILED for number in o.cases}
    missing = sorted(wanted - (failed if commit else shown))
    verdicts = [outcome.verdict for outcome in done]
    print(
        f"{NAME}: against={commit or 'this tree'} cases={len(wanted | shown)}"
        f" failed_by_assertion={len(failed)} tests={len(done)} passed={verdicts.count(HELD)}"
        f" failed={verdicts.count(FAILED)} broken={verdicts.count(BROKEN)}"
        f" missing={','.join(map(str, missing)) or 'none'} seconds={time.monotonic() - began:.0f}"
    )
    for outcome in sorted(done):
        _show(outcome)
    return not missing and (bool(commit) or set(verdicts) == {HELD})


def play(environment: dict[str, str], file: Path, expression: str) -> list[Outcome]:
    """Run the cases that fit the expression of markers in a process of pytest; what came of each."""
    argv = [sys.executable, "-m", "pytest", "tests/cases", "-m", expression]
    argv += ["-p", "tests.prove.outcomes", "--tb=no", "--no-header"]
    process = subprocess.run(
        argv, cwd=ROOT, env=os.environ | environment | {FILE: str(file)}, stdout=sys.stderr,
        check=False,
    )  # fmt: skip
    if process.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {process.returncode}: no tests, or not carried out")
    lines = map(json.loads, file.read_text().splitlines())
    return [Outcome(tuple(o["cases"]), o["test"], o["verdict"], o["text"]) for o in lines]


def extracted(commit: str, place: Path) -> Path:
    """The folder of packages of that commit."""
    argv = ["git", "archive", "--format=tar", commit, "src"]
    archive = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(place, filter="data")
    return place / "src"


def _show(outcome: Outcome) -> None:
    numbers = ",".join(map(str, outcome.cases))
    print(f"  case {numbers:<4} {outcome.verdict:<7} {outcome.test}")
    for line in outcome.text.splitlines()[:_TEXT_LINES]:
        print(f"       {line[:_COLUMNS]}")
