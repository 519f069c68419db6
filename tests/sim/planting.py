"""Planting bugs: a registry of methods as they should not be, and a way to put one in for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

Mutation = Callable[[Any], Any]


class Mutants:
    """Bugs by name. Each is handed a method as it is and returns it as it should not be."""

    def __init__(self) -> None:
        self._plants: dict[str, tuple[object, str, Mutation]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._plants)

    def of(self, owner: object, method: str) -> Callable[[Mutation], Mutation]:
        """The decorated function is a bug in this method; its name is the bug's."""
        assert method in vars(owner), f"{owner} has no {method} of its own"

        def plant(change: Mutation) -> Mutation:
            self._plants[change.__name__.replace("_", "-")] = (owner, method, change)
            return change

        return plant

    @contextmanager
    def planted(self, name: str) -> Iterator[None]:
        """The bug of that name, for as long as this lasts."""
        owner, method, change = self._plants[name]
        with patch.object(owner, method, change(getattr(owner, method))):
            yield
