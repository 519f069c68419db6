"""The stages: one that all tests of a process share, and one of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.gearman.kit import Stage


@pytest.fixture(scope="session")
def house(
    tmp_path_factory: pytest.TempPathFactory, find_node: Callable[[], str]
) -> Iterator[Stage]:
    """A server, and the peers that stay."""
    with ExitStack() as stack:
        yield Stage(tmp_path_factory.mktemp("gearman"), stack, find_node)


@pytest.fixture
def shared(house: Stage, tmp_path: Path, find_node: Callable[[], str]) -> Iterator[Stage]:
    """For tests that need nothing of their own but names; peers that they ask for end with them."""
    with ExitStack() as stack:
        yield Stage(tmp_path, stack, find_node, within=house)


@pytest.fixture
def stage(tmp_path: Path, find_node: Callable[[], str]) -> Iterator[Stage]:
    """A server that the test may stop, and peers that end with the test."""
    with ExitStack() as stack:
        yield Stage(tmp_path, stack, find_node)
