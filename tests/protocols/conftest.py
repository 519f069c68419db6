"""A server that speaks the protocol whose folder a test is in, and peers of it.

They are made by the `World` of the folder's `puppet.py`, and by its `peer`.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pytest

_WORKERS: Mapping[str, Callable[[Any], Any]] = {
    "faktory": lambda world: world.peer("w1"),
    "gearman": lambda world: world.worker("f"),
    "periodic": lambda world: world.worker("f"),
    "memodb": lambda world: world.worker("s"),
    "eventmq": lambda world: world.worker(slots=1),
}


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Any:
    return import_module(f"tests.protocols.{request.path.parent.name}.puppet").World()


@pytest.fixture
def client(world: Any) -> Any:
    return world.peer()


peer = producer = admin = client


@pytest.fixture
def worker(request: pytest.FixtureRequest, world: Any) -> Any:
    """A peer; where a worker need not ask for each job, one that takes a job as soon as there is one."""
    return _WORKERS.get(request.path.parent.name, lambda world: world.peer())(world)
