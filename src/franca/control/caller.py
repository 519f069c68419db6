"""Who asks for an operation: by which name, with which role, and over which way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

Role = Literal["viewer", "operator", "admin"]
"""Who may call an operation: each of them also what those before it may."""
VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"
ROLES: Final[tuple[Role, ...]] = (VIEWER, OPERATOR, ADMIN)


class Caller(Struct, frozen=True):
    """One who asks. `over` is `control`, `rest`, or the protocol of a peer.

    `hide` takes out of a text what they are not shown, if there is anything.
    """

    who: str
    role: str
    over: str
    hide: Callable[[str], str] | None = None


OWNER: Final = Caller("owner", ADMIN, "control")
"""Whoever may open the control socket."""


def may(role: str, needed: str) -> bool:
    """Whether this role may do what needs that one. Roles that do not exist may nothing."""
    return role in ROLES and needed in ROLES and ROLES.index(role) >= ROLES.index(needed)
