"""An engine, and one link to it."""

import pytest

from franca.protocols.conversation import Link
from tests.engine.fixtures import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def link(world: World) -> Link:
    return world.open()
