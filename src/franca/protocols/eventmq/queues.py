"""The queues that a worker names: as the code writes them, as the document does, or as people do.

`[[10, "default"], [15, "email"]]` is what job managers send; `[40, 'email'],[10, 'default']` is
the document's; plain names have the usual weight.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from franca.core.errors import Refused
from franca.core.names import raw_of, text_of
from franca.protocols.eventmq.literals import (
    Bare,
    Literal,
    TooLong,
    Unreadable,
    number_of,
    read_literal,
)

DEFAULT_QUEUE: Final = "default"
USUAL_WEIGHT: Final = 10
QUEUES_BYTES_MAX: Final = 64 * 1024
QUEUES_MAX: Final = 1_024
_TOKENS_MAX: Final = 6 * QUEUES_MAX + 8
"""A weight, a name, and the marks around and between them."""
_WORDS_MAX: Final = 2 * QUEUES_MAX
_TOO_MANY: Final = f"a list of more than {QUEUES_MAX} queues"
_WEIGHT_MAX: Final = 1_000_000

Weighted = tuple[int, str]


class BadQueues(Refused):
    """The text names no queues."""

    code = "bad-queues"


def read_queues(raw: bytes, name_bytes_max: int) -> tuple[Weighted, ...]:
    """Weights and names in the order in which they were sent, each name once."""
    if len(raw) > QUEUES_BYTES_MAX:
        raise BadQueues(f"the list of queues has {len(raw)} bytes, at most {QUEUES_BYTES_MAX}")
    text = text_of(raw).strip() if raw else ""
    items = _items(text) if text else []
    if len(items) > QUEUES_MAX:
        raise BadQueues(_TOO_MANY)
    pairs = [_pair(item) for item in items]
    found: dict[str, int] = {}
    for weight, name in pairs or [(USUAL_WEIGHT, DEFAULT_QUEUE)]:
        if not name or len(raw_of(name)) > name_bytes_max:
            raise BadQueues(f"queue names have 1 to {name_bytes_max} bytes")
        found.setdefault(str(name), weight)
    return tuple((weight, name) for name, weight in found.items())


def _items(text: str) -> list[Literal]:
    is_bracketed = text[0] in "[("
    try:
        # The document's form is a list without its brackets. Read as one, each form is read once.
        value = read_literal(f"[{text}]" if is_bracketed else text, _TOKENS_MAX)
    except TooLong:
        raise BadQueues(_TOO_MANY) from None
    except Unreadable:
        if is_bracketed or text[0] == "{":
            raise BadQueues("a list of queues that cannot be read") from None
        words = text.split(",", _WORDS_MAX)
        if len(words) > _WORDS_MAX:
            raise BadQueues(_TOO_MANY) from None
        return [word.strip() for word in words if word.strip()]
    if is_bracketed and isinstance(value, list) and len(value) == 1:
        (value,) = value
    if not isinstance(value, list):
        return [value]
    return [value] if _as_pair(value) else value


def _pair(item: Literal) -> Weighted:
    pair = (USUAL_WEIGHT, item) if _is_name(item) else _as_pair(item)
    if pair is None:
        raise BadQueues("a queue is a name, or a weight and a name")
    return pair


def _as_pair(item: Literal) -> Weighted | None:
    """A weight and a name, if that is what the item is."""
    if isinstance(item, list) and len(item) == 2:
        weight, name = item
        number = number_of(weight) if isinstance(weight, Bare) else None
        if number is not None and _is_name(name):
            return int(max(min(number, _WEIGHT_MAX), -_WEIGHT_MAX)), name
    return None


def _is_name(item: Literal) -> TypeGuard[str]:
    """Whether this is text, and no number."""
    return isinstance(item, str) and not (isinstance(item, Bare) and number_of(item) is not None)
