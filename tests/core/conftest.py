"""A broker on its bench."""

import pytest

from tests.core.kit import SMALL, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def small() -> Bench:
    """One that keeps few jobs of a queue in memory."""
    return Bench(**SMALL)
