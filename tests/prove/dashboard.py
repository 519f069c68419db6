"""The dashboard does what people do with it, in a real browser, and is whole in a wheel: the tests of both, the long ones too.

Some have a server inside of the page, others a real one, with clients and workers of three protocols around it. In
short form only the latter are run, and nothing is installed: `make test` runs all that are not long.
"""

import os
import sys
from collections.abc import Generator
from contextlib import redirect_stdout

import pytest

from tests.prove.harness import Options, Result
from tests.support.server import LAUNCHER, ROOT

_PLACES = ("tests/browser", "tests/prove/test_wheel.py")
_SHORT = "test_real and not pictured or in_the_wheel"


class Observer:
    """A plugin of pytest that notes what came of each test."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            self.failed.append(f"{item.name}: {str(report.longrepr).splitlines()[-1][:160]}")
        elif report.skipped:
            self.skipped.append(f"{item.name}: {report.longrepr}"[:200])
        elif report.when == "call":
            self.passed += 1
        return report


def run(options: Options) -> Result:
    observer = Observer()
    os.environ[LAUNCHER] = " ".join(options.variant())
    wanted = ["-m", "long or not long", *(["-k", _SHORT] if options.short else [])]
    argv = [
        *(str(ROOT / place) for place in _PLACES),
        *wanted,
        "--tb=line",
        "--no-header",
        "-p",
        "no:cacheprovider",
    ]
    argv += ["--maxfail=1"] if options.mutant else []
    with redirect_stdout(sys.stderr):
        code = pytest.main(argv, [observer])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code}: no tests, or not carried out")
    if not observer.passed and not observer.failed:
        raise RuntimeError(f"all were skipped: {observer.skipped[:1]}")
    missing = f"{len(observer.skipped)} tests were skipped" if observer.skipped else ""
    return Result(
        not observer.failed,
        f"tests={observer.passed} failed={len(observer.failed)} skipped={len(observer.skipped)}",
        [*observer.failed, *observer.skipped][:20],
        missing,
    )
