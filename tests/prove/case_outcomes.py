"""A plugin of pytest that writes down what came of each test that is marked `case`, for `cases.py`."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = "FRANCA_CASES_OUTCOMES"
"""Names the file to which a line of JSON is added for each test that is over."""
ONLY = "FRANCA_CASES_ONLY"
"""The numbers of the cases that are run, with commas between them, if not all are."""
CASES = Path(__file__).resolve().parents[1] / "cases"
HELD, FAILED, BROKEN = "passed", "failed", "broken"
"""`FAILED` by an assertion of its own; `BROKEN` by anything else, which shows nothing about the server."""


class Outcome(NamedTuple):
    """What came of one test."""

    cases: list[int]
    test: str
    verdict: str
    text: str


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if only := os.environ.get(ONLY):
        wanted = set(map(int, only.split(",")))
        items[:] = [item for item in items if wanted.intersection(_numbers(item))]


def _numbers(item: pytest.Item) -> list[int]:
    return [mark.args[0] for mark in item.iter_markers("case")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    numbers = _numbers(item)
    if numbers and (call.when == "call" or not report.passed):
        with Path(os.environ[FILE]).open("a") as file:
            file.write(json.dumps(Outcome(numbers, item.name, *_verdict(call, report))) + "\n")
    return report


def _verdict(call: pytest.CallInfo[None], report: pytest.TestReport) -> tuple[str, str]:
    if report.passed:
        return HELD, ""
    if call.excinfo is None:
        return BROKEN, str(report.outcome)
    error, innermost = call.excinfo.value, Path(call.excinfo.traceback[-1].path)
    asserted = isinstance(error, AssertionError | pytest.fail.Exception)
    if asserted and call.when == "call" and CASES in innermost.parents:
        return FAILED, str(error)
    return BROKEN, f"{type(error).__name__} in {call.when}: {error}"
