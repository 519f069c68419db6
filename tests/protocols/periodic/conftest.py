"""A server that speaks Periodic, and peers of it; the worker can do "f"."""

from __future__ import annotations

import pytest

from tests.protocols.periodic.puppet import Puppet, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Puppet:
    return world.client()


@pytest.fixture
def peer(world: World) -> Puppet:
    return world.client()


@pytest.fixture
def worker(world: World) -> Puppet:
    return world.worker("f")
