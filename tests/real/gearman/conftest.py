"""Servers and peers: some that all tests of a process share, and some of a test's own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.gearman.kit import Peers


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """A server, and the peers that stay."""
    with ExitStack() as stack:
        yield Peers(tmp_path_factory.mktemp("gearman"), stack)


@pytest.fixture
def shared(house: Peers, tmp_path: Path, stack: ExitStack) -> Peers:
    """For tests that need nothing of their own but names; peers that they ask for end with them."""
    return Peers(tmp_path, stack, within=house)


@pytest.fixture
def peers(tmp_path: Path, stack: ExitStack) -> Peers:
    """A server that the test may stop, and peers that end with the test."""
    return Peers(tmp_path, stack)
