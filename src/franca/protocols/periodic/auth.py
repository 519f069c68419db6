"""Who may do what: the lines of the auth file.

`ROLE NAME TOKEN FUNC,FUNC` a line, `#` begins a comment; ROLE is client, worker or admin. FUNC may
be `*` for all; an admin need not name any. A file with a wrong line is no file: nobody's rights
change by half. Reads text only; whoever owns the file hands it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from msgspec import Struct

from franca.core.errors import Refused
from franca.core.names import text_of

CLIENT: Final = "client"
WORKER: Final = "worker"
ADMIN: Final = "admin"
ALL: Final = "*"


class Forbidden(Refused):
    """The peer may not do this; it is answered as if there were no worker for it."""

    code = "forbidden"


class Rule(Struct, frozen=True):
    """What one name may do with the right token."""

    role: str
    token: bytes
    funcs: frozenset[str]

    def allows(self, func: str) -> bool:
        """Whether a function is among those it may use."""
        return func in self.funcs or ALL in self.funcs


Rules = Mapping[bytes, Rule]


def read_rules(text: bytes) -> Rules:
    """Everybody that the file names, or a `ValueError` that says which line is wrong."""
    rules: dict[bytes, Rule] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        role = words[0].decode("utf-8", "replace").lower()
        funcs = words[3].split(b",") if len(words) == 4 else []
        names = frozenset(text_of(func) for func in funcs if func)
        if role == ADMIN and len(words) == 3:
            names = frozenset([ALL])
        if role not in (CLIENT, WORKER, ADMIN) or not 3 <= len(words) <= 4 or not names:
            raise ValueError(f"line {number} is not: role name token func,func")
        if words[1] in rules:
            raise ValueError(f"line {number} names somebody for the second time")
        rules[words[1]] = Rule(role, words[2], names)
    return rules


def rule_of(rules: Rules, name: bytes, token: bytes) -> Rule | None:
    """The rule of whoever says this name and token, if they belong together."""
    rule = rules.get(name)
    if rule is None or not compare_digest(rule.token, token):
        return None
    return rule
