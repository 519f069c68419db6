"""Tests that are coroutines run in an event loop of their own.

Failing assertions of the stage say what they compared, as those of tests do.
"""

import asyncio
import inspect

import pytest

pytest.register_assert_rewrite("tests.node.fixtures")

TEST_S = 20.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), TEST_S))
    return True
