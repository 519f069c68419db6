"""Which handler a method and a path lead to. Every way in states the role that it needs.

Paths are matched by their segments before these are decoded, so that a queue's name may have a
slash in it. An entry without a role is an error when the server starts: nothing is open by mistake.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from franca.control.caller import ROLES, Caller
from franca.web.problems import Declined

PUBLIC: Final = "public"
"""The role of what is answered to everybody."""
SEGMENTS_MAX: Final = 8
REST_OF_PATH: Final = "{path...}"


@dataclass(slots=True)
class Asked:
    """One request: what came, the variables of its path, and who asks."""

    request: Request
    path: Mapping[str, str]
    caller: Caller


Handler = Callable[[Asked], Awaitable[Response]]


class Entry(Struct, frozen=True):
    """A way in: a method, a pattern of a path, the least role, and who answers."""

    method: str
    path: str
    role: str
    handler: Handler
    quiet: bool = False
    """Whether it stays out of every record: monitors ask again and again."""


class UndeclaredRole(Exception):
    """A way in says nobody may use it, or does not say who may."""


@dataclass(slots=True)
class _Node:
    literal: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    rest: _Node | None = None
    entries: dict[str, tuple[Entry, tuple[str, ...]]] = field(default_factory=dict)


class Router:
    """All ways in. `UndeclaredRole` if one does not say whom it is for."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._root = _Node()
        for entry in self.entries:
            if entry.role not in (PUBLIC, *ROLES):
                raise UndeclaredRole(f"{entry.method} {entry.path} does not say who may")
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        node, names = self._root, list[str]()
        for segment in entry.path.strip("/").split("/"):
            if segment == REST_OF_PATH:
                node.rest = node = node.rest or _Node()
                names.append("path")
            elif segment.startswith("{"):
                names.append(segment[1:-1])
                node.variable = node = node.variable or _Node()
            else:
                node = node.literal.setdefault(segment, _Node())
        assert entry.method not in node.entries, f"{entry.method} {entry.path} is there twice"
        node.entries[entry.method] = entry, tuple(names)

    def find(self, method: str, raw_path: bytes) -> tuple[Entry, dict[str, str]]:
        """Where a request leads, and the variables of its path; `Declined` if nowhere."""
        node, values = self._walk(raw_path)
        if method == "HEAD" and "GET" in node.entries:
            method = "GET"
        found = node.entries.get(method)
        if found is None:
            raise Declined(
                405, "method-not-allowed", f"there is no {method} here", {"allow": allowed(node)}
            )
        entry, names = found
        return entry, dict(zip(names, values, strict=True))

    def methods(self, raw_path: bytes) -> str:
        """The methods that a path has, as the header `Allow` lists them."""
        return allowed(self._walk(raw_path)[0])

    def _walk(self, raw_path: bytes) -> tuple[_Node, list[str]]:
        segments = raw_path.lstrip(b"/").split(b"/")
        node, values = self._root, list[str]()
        rest: tuple[_Node, list[str]] | None = None
        for at, raw in enumerate(segments):
            text = _text(raw)
            if node.rest is not None:
                tail = "/".join(map(_text, segments[at:]))
                rest = node.rest, [*values, tail]
            below = node.literal.get(text)
            if below is None and text and node.variable is not None:
                below = node.variable
                values.append(text)
            if below is None or at >= SEGMENTS_MAX:
                node = _Node()
                break
            node = below
        if node.entries:
            return node, values
        if rest is not None:
            return rest
        raise Declined(404, "not-found", "there is nothing at this path")


def _text(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Declined(404, "not-found", "there is nothing at this path") from None


def allowed(node: _Node) -> str:
    """The methods of a place, and those that follow from them."""
    methods = {*node.entries, "OPTIONS"} | ({"HEAD"} if "GET" in node.entries else set())
    return ", ".join(sorted(methods))
