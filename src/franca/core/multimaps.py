"""Mappings from a key to several members: a key is there as long as it has one."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
M = TypeVar("M", bound=MutableMapping[Any, Any])


def discard(multimap: dict[K, M], key: K, member: object) -> bool:
    """Take a member of a key out, if it is there; True if it was the last one."""
    members = multimap.get(key)
    if members is None:
        return False
    members.pop(member, None)
    if not members:
        del multimap[key]
    return not members
