"""For all tests: failing assertions of shared helpers say what they compared, as those of tests do.

No test fails because the machine was busy for a moment. Tests that mostly wait for other programs come first, so that none of
them is left at the end, when there is nothing to do meanwhile.
"""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.store.kit")

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


_WAITING = ("tests/real/", "tests/store/test_sqlite_plans", "tests/cases/", "tests/prove/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_WAITING))
    gc.freeze()  # what was collected stays: tests that collect garbage need not look at it each time


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Without the group of tests that xdist puts there, or `--last-failed` would not find it again."""
    report.nodeid = report.nodeid.partition("@group ")[0]
