"""What is long is left to the proofs that run it."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is long out unless it is asked for by an expression of markers."""
    if not config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
