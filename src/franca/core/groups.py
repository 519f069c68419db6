"""Things in groups, each known by a key: a group is there as long as it has a member."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
G = TypeVar("G", bound=MutableMapping[Any, Any])


def leave_group(groups: dict[K, G], key: K, member: object) -> bool:
    """Take a member out of its group, if it is in it; True if it was the last one."""
    group = groups.get(key)
    if group is None:
        return False
    group.pop(member, None)
    if not group:
        del groups[key]
    return not group
