"""A server that speaks MemoDB, and peers of it."""

from __future__ import annotations

import pytest

from tests.protocols.memodb.puppet import Puppet, World, worker_on


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Puppet:
    return world.peer()


@pytest.fixture
def peer(world: World) -> Puppet:
    return world.peer()


@pytest.fixture
def worker(world: World) -> Puppet:
    return worker_on(world)
