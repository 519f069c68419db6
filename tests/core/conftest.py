"""A broker on its bench."""

from __future__ import annotations

import pytest

from tests.core.kit import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
