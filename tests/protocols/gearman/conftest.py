"""A server that speaks Gearman, and peers of it; the worker can do "f"."""

import pytest

from tests.protocols.gearman.puppet import Puppet, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Puppet:
    return world.connect()


peer = admin = client


@pytest.fixture
def worker(world: World) -> Puppet:
    return world.worker("f")
