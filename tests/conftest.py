"""For all tests: failing assertions of shared helpers say what they compared, as those of tests do.

No test fails because the machine was busy for a moment.
"""

import gc

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

pytest.register_assert_rewrite("tests.store.kit", "tests.node.fixtures")

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

_WAITING = (
    "tests/real/",
    "tests/browser/",
    "tests/store/test_sqlite_plans",
    "tests/cases/",
    "tests/prove/",
)
"""Tests that mostly wait for other programs."""
_WAITING_SHARE = 0.8
_TOGETHER = (
    "tests/real/gearman/test_matrix",
    "tests/real/gearman/",
    "tests/prove/test_backpressure",
    "tests/prove/test_shim",
    "tests/browser/test_pages",
    "tests/browser/",
)
"""Tests that share servers and peers, which only one process is to start: the first that fits."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Tests that belong together go to one process, each other test to the first that is free."""

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in _TOGETHER if nodeid.startswith(each)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several processes, have work for the processor while others wait, to the end."""
    if hasattr(config, "workerinput"):
        waiting = [item for item in items if item.nodeid.startswith(_WAITING)]
        working = [item for item in items if not item.nodeid.startswith(_WAITING)]
        places = {item: n / len(waiting) * _WAITING_SHARE for n, item in enumerate(waiting)}
        places |= {item: n / len(working) for n, item in enumerate(working)}
        items.sort(key=places.__getitem__)
    gc.freeze()  # what was collected stays: tests that collect garbage need not look at it each time
