"""How a planted bug gets into the product: one attribute replaced by another, or a loud failure."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Patch = Callable[[], None]


def swap(path: str, name: str, make: Callable[[Any], Any]) -> None:
    """Replace an attribute of `module` or `module:Class` by `make(original)`; it must exist."""
    module, _, holder_name = path.partition(":")
    holder: Any = importlib.import_module(module)
    if holder_name:
        holder = getattr(holder, holder_name)
    setattr(holder, name, make(getattr(holder, name)))
