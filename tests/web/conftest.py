"""A web side that asks for nothing, and one that has roles."""

from collections.abc import Iterator

import pytest

from tests.web.kit import Site


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site
        assert site.errors == []


@pytest.fixture
def guarded() -> Iterator[Site]:
    with Site(roles=True, password="the-password") as site:
        yield site
        assert site.errors == []
