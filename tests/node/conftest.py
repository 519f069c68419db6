"""Tests that are coroutines run in an event loop of their own."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from tests.node.fixtures import NodeFixture, SlowStore

TEST_S = 20.0


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def s(request: pytest.FixtureRequest, runner: asyncio.Runner) -> Iterator[NodeFixture]:
    """A node, with a store that waits to be told unless the marker names another."""
    mark = request.node.get_closest_marker("node") or pytest.mark.node().mark
    limits = dict(mark.kwargs)
    store = limits.pop("store", SlowStore)

    async def made() -> NodeFixture:
        return NodeFixture(store(), **limits)

    with runner.run(made()) as node:
        yield node


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), TEST_S))
    return True
