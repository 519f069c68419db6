"""The stages: one that all tests of a process share, and one of a test's own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.gearman.kit import Stage


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server, and the peers that stay."""
    with ExitStack() as stack:
        yield Stage(tmp_path_factory.mktemp("gearman"), stack)


@pytest.fixture
def shared(house: Stage, tmp_path: Path, stack: ExitStack) -> Stage:
    """For tests that need nothing of their own but names; peers that they ask for end with them."""
    return Stage(tmp_path, stack, within=house)


@pytest.fixture
def stage(tmp_path: Path, stack: ExitStack) -> Stage:
    """A server that the test may stop, and peers that end with the test."""
    return Stage(tmp_path, stack)
