"""The queues that a worker names: as the code writes them, as the document does, or as people do.

`[[10, "default"], [15, "email"]]` is what job managers send; `[40, 'email'],[10, 'default']` is
the document's; plain names have the usual weight.
"""

from __future__ import annotations

import ast
from typing import Final

import msgspec

from franca.core.errors import Refused

DEFAULT_QUEUE: Final = "default"
USUAL_WEIGHT: Final = 10
QUEUES_BYTES_MAX: Final = 64 * 1024
QUEUES_MAX: Final = 1_024
_WEIGHT_MAX: Final = 1_000_000

Weighted = tuple[int, str]


class BadQueues(Refused):
    """The text names no queues."""

    code = "bad-queues"


def read_queues(raw: bytes, name_bytes_max: int) -> tuple[Weighted, ...]:
    """Weights and names in the order in which they were sent, each name once."""
    if len(raw) > QUEUES_BYTES_MAX:
        raise BadQueues(f"the list of queues has {len(raw)} bytes, at most {QUEUES_BYTES_MAX}")
    text = raw.decode("utf-8", "replace").strip()
    pairs = [_pair(item) for item in _items(text)] if text else []
    found: dict[str, int] = {}
    for weight, name in pairs or [(USUAL_WEIGHT, DEFAULT_QUEUE)]:
        if not name or len(name.encode()) > name_bytes_max:
            raise BadQueues(f"queue names have 1 to {name_bytes_max} bytes")
        found.setdefault(name, weight)
    if len(found) > QUEUES_MAX:
        raise BadQueues(f"at most {QUEUES_MAX} queues")
    return tuple((weight, name) for name, weight in found.items())


def _items(text: str) -> list[object]:
    value = _decoded(text)
    if value is None and text[0] in "[(":
        value = _decoded(f"[{text}]")
    if value is None and text[0] in "[({":
        raise BadQueues("a list of queues that cannot be read")
    if value is None:
        return [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(value, (list, tuple)):
        is_pair = len(value) == 2 and _is_number(value[0]) and isinstance(value[1], str)
        return [value] if is_pair else list(value)
    return [value]


def _decoded(text: str) -> object:
    """The value that a text of JSON or of Python's literals stands for; None if it is neither."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _pair(item: object) -> Weighted:
    if isinstance(item, str):
        return USUAL_WEIGHT, item
    if isinstance(item, (list, tuple)) and len(item) == 2:
        weight, name = item
        if _is_number(weight) and isinstance(name, str):
            return int(max(min(weight, _WEIGHT_MAX), -_WEIGHT_MAX)), name
    raise BadQueues("a queue is a name, or a weight and a name")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
