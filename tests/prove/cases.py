"""Every case that was once wrong (`tests/cases`) is right here; `--against COMMIT`: and was wrong there.

The cases are run by pytest, one after the other, against this tree's server, or against that of another commit
whose source is extracted for it. There, each case must fail by an assertion of its own: a test that
breaks in any other way shows nothing about the server.
"""

import os
import sys
from collections.abc import Generator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cases.conftest import SOURCE
from tests.prove.harness import Options, Result
from tests.support.server import LAUNCHER, ROOT
from tests.tidy.trees import extracted

_NUMBERS = frozenset(range(1, 32))
_UNSHOWN = frozenset({4, 28, 31})
"""Nothing that a running server can show: one that cannot be reached, a page, a rule of the checker."""
_QUICK = "29"
_TEXT_LINES = 3
_COLUMNS = 160
_HELD, _FAILED, _BROKEN = "passed", "failed", "broken"
"""Failed by an assertion of its own; broken by anything else."""


class Outcome(NamedTuple):
    """What came of one test."""

    cases: list[int]
    test: str
    verdict: str
    text: str


class Observer:
    """A plugin of pytest that runs the tests of these cases, or all, and notes what came of each."""

    def __init__(self, wanted: frozenset[int]) -> None:
        self.wanted = wanted
        self.outcomes: list[Outcome] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.wanted:
            items[:] = [item for item in items if self.wanted.intersection(_numbers(item))]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        numbers = _numbers(item)
        if numbers and (call.when == "call" or not report.passed):
            self.outcomes.append(Outcome(numbers, item.name, *_verdict(call, report)))
        return report


def _numbers(item: pytest.Item) -> list[int]:
    return [mark.args[0] for mark in item.iter_markers("case")]


def _verdict(call: pytest.CallInfo[None], report: pytest.TestReport) -> tuple[str, str]:
    if report.passed:
        return _HELD, ""
    if call.excinfo is None:
        return _BROKEN, str(report.outcome)
    error, innermost = call.excinfo.value, Path(call.excinfo.traceback[-1].path)
    asserted = isinstance(error, AssertionError | pytest.fail.Exception)
    if asserted and call.when == "call" and ROOT / "tests" / "cases" in innermost.parents:
        return _FAILED, str(error)
    return _BROKEN, f"{type(error).__name__} in {call.when}: {error}"


def run(options: Options) -> Result:
    commit = options.extra.get("against", "")
    only = options.extra.get("only", _QUICK if options.short else "")
    observer = Observer(frozenset(map(int, only.split(","))) if only else frozenset())
    os.environ[LAUNCHER] = " ".join(options.variant())
    if commit:
        os.environ[SOURCE] = str(extracted(commit, options.home, "src") / "src")
    expression = "case and not long" if options.short else "case"
    argv = [str(ROOT / "tests/cases"), "-m", expression, "--tb=no", "--no-header"]
    with redirect_stdout(sys.stderr):
        code = pytest.main(argv, [observer])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code}: no tests, or not carried out")
    done, wanted = observer.outcomes, observer.wanted or _NUMBERS - _UNSHOWN
    shown = {number for outcome in done for number in outcome.cases}
    failed = {number for o in done if o.verdict == _FAILED for number in o.cases}
    missing = sorted(wanted - (failed if commit else shown))
    verdicts = [outcome.verdict for outcome in done]
    details: list[str] = []
    for numbers, test, verdict, text in sorted(done):
        details.append(f"case {','.join(map(str, numbers)):<4} {verdict:<7} {test}")
        details += [f"     {line[:_COLUMNS]}" for line in text.splitlines()[:_TEXT_LINES]]
    return Result(
        not missing and (bool(commit) or set(verdicts) == {_HELD}),
        f"against={commit or 'this tree'} cases={len(wanted | shown)}"
        f" failed_by_assertion={len(failed)} tests={len(done)} passed={verdicts.count(_HELD)}"
        f" failed={verdicts.count(_FAILED)} broken={verdicts.count(_BROKEN)}"
        f" missing={','.join(map(str, missing)) or 'none'}",
        details,
    )
