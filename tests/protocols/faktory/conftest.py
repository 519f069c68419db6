"""A server that speaks Faktory, and clients of it; the worker is "w1"."""

import pytest

from tests.protocols.faktory.puppet import Puppet, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Puppet:
    return world.client()


producer = client


@pytest.fixture
def worker(world: World) -> Puppet:
    return world.client("w1")
