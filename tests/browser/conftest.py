"""A real browser, and pages to look at in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.browser.browser import Browser
from tests.browser.serve import serving
from tests.browser.shots import started
from tests.real.fetched import not_tested

PREFIX = "/some/where"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is long out unless it is asked for by an expression of markers."""
    if not config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("long") is None]


@pytest.fixture(scope="session")
def dashboard() -> Iterator[str]:
    """The address of the dashboard with a made-up server in it, below a prefix."""
    with serving(PREFIX) as address:
        yield address


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, driven by a program on Node."""
    log = tmp_path_factory.mktemp("browser") / "stderr"
    with ExitStack() as stack:
        try:
            program = stack.enter_context(started(log))
        except LookupError as missing:
            not_tested(f"the dashboard in a browser: {missing}")
        yield program
