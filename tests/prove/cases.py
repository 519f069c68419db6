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
from pathlib import Path

from tests.cases.conftest import LAUNCHER, SOURCE
from tests.prove.case_outcomes import BROKEN, FAILED, FILE, HELD, ONLY, Outcome
from tests.prove.harness import Options, Result
from tests.support.server import ROOT

NUMBERS = frozenset(range(1, 32))
UNSHOWN = frozenset({4, 28, 31})
"""Nothing that a running server can show: one that cannot be reached, a page, a rule of the checker."""
_QUICK = "29"
_TEXT_LINES = 3
_COLUMNS = 160


def run(options: Options) -> Result:
    commit = options.extra.get("against", "")
    only = options.extra.get("only", _QUICK if options.short else "")
    wanted = frozenset(map(int, only.split(","))) if only else NUMBERS - UNSHOWN
    environment = {LAUNCHER: " ".join(options.variant()), ONLY: only}
    if commit:
        environment[SOURCE] = str(extracted(commit, options.home))
    expression = "case and not long" if options.short else "case"
    done = play(environment, options.home / "outcomes", expression)
    shown = {number for outcome in done for number in outcome.cases}
    failed = {number for o in done if o.verdict == FAILED for number in o.cases}
    missing = sorted(wanted - (failed if commit else shown))
    verdicts = [outcome.verdict for outcome in done]
    details: list[str] = []
    for numbers, test, verdict, text in sorted(done):
        details.append(f"case {','.join(map(str, numbers)):<4} {verdict:<7} {test}")
        details += [f"     {line[:_COLUMNS]}" for line in text.splitlines()[:_TEXT_LINES]]
    return Result(
        not missing and (bool(commit) or set(verdicts) == {HELD}),
        f"against={commit or 'this tree'} cases={len(wanted | shown)}"
        f" failed_by_assertion={len(failed)} tests={len(done)} passed={verdicts.count(HELD)}"
        f" failed={verdicts.count(FAILED)} broken={verdicts.count(BROKEN)}"
        f" missing={','.join(map(str, missing)) or 'none'}",
        details,
    )


def play(environment: dict[str, str], file: Path, expression: str) -> list[Outcome]:
    """Run the cases that fit the expression of markers in a process of pytest; what came of each."""
    argv = [sys.executable, "-m", "pytest", "tests/cases", "-m", expression]
    argv += ["-p", "tests.prove.case_outcomes", "--tb=no", "--no-header"]
    env = os.environ | environment | {FILE: str(file)}
    process = subprocess.run(argv, cwd=ROOT, env=env, stdout=sys.stderr, check=False)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {process.returncode}: no tests, or not carried out")
    return [Outcome(*json.loads(line)) for line in file.read_text().splitlines()]


def extracted(commit: str, place: Path) -> Path:
    """The folder of packages of that commit."""
    argv = ["git", "archive", "--format=tar", commit, "src"]
    archive = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(place, filter="data")
    return place / "src"
