"""A server that speaks EventMQ, and peers of it; the worker has one slot."""

from __future__ import annotations

import pytest

from tests.protocols.eventmq.puppet import Puppet, World


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
    return world.worker(slots=1)
