"""An engine, and one link to it."""

import pytest

from franca.protocols.conversation import Link
from tests.engine.fixtures import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def link(stage: Stage) -> Link:
    return stage.open()
