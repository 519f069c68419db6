"""Texts in the fields of messages, in any of the ways in which people write them.

Headers: the client library writes comma-separated words (`timeout:5,guarantee`), the document also
calls them a dictionary, and people write one as JSON or as Python does. Queues of a worker:
`[[10, "default"], [15, "email"]]` is what job managers send, `[40, 'email'],[10, 'default']` is the
document's form, and plain names have the usual weight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import inf, isfinite
from typing import Final, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from franca.core.errors import Refused
from franca.core.model import Backoff, Policy
from franca.core.names import raw_of, text_of

HEADERS_BYTES_MAX: Final = 4_096
USUAL_BYTES: Final = 256
"""Longer headers are read anew each time, which is more work than a message usually is."""
HEADERS_MAX: Final = 64
"""Headers of one message; those behind them are not read."""
TIMEOUT_S_MAX: Final = 10 * 365 * 86_400
_TIMEOUT_DIGITS: Final = 9
RETRIES_MAX: Final = 1_000_000
NUMBER_MAX: Final = 2**31 - 1
"""Larger numbers are taken as this one."""
REPLY_DELAY_MS: Final = 2_000
"""How much later than a job's timeout its worker, which enforces it, may say so."""
RETRY_MS: Final = 1_000
"""How long a failed job waits for its second try; every further one doubles it."""
NO_CALL_LOSSES: Final = 2
"""How often a message that is no call is run again after a loss: workers may die of it."""
DEFAULT_QUEUE: Final = "default"
USUAL_WEIGHT: Final = 10
QUEUES_BYTES_MAX: Final = 64 * 1024
QUEUES_MAX: Final = 1_024
NESTING_MAX: Final = 8
_TERMS_MAX: Final = 1_000
_OF_RULES: Final = {"run_count", "run-count", "interval", "timezone"}
_KNOWN: Final = _OF_RULES | {"reply-requested", "retry-count", "timeout", "guarantee", "nohaste"}
_NO: Final = ("false", "0", "no", "off", "none", "null")
REPLY_REQUESTED: Final = "reply-requested"
_WORDS_MAX: Final = 2 * QUEUES_MAX
_TOO_MANY: Final = f"a list of more than {QUEUES_MAX} queues"
_WEIGHT_MAX: Final = 1_000_000
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<mark>[\[\](){},:])
      | [bBuU]?"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"
      | [bBuU]?'(?P<single>[^'\\]*(?:\\.[^'\\]*)*)'
      | (?P<bare>[^\s\[\](){},:"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_CLOSES: Final = {"[": "]", "(": ")", "{": "}"}
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?"
)


class Unfit(Refused):
    """A message that cannot be taken."""

    code = "unfit"


# -- JSON, or Python's way of writing it -----------------------------------------------------


class Bare(str):
    """A word that stood without quotes: a number, true, None, or anything else.

    Whatever is not quoted stays the text that it is, so that no number can be too long.
    """

    __slots__ = ()


Literal = str | list["Literal"] | dict[str, "Literal"]


class Unreadable(Exception):
    """The text is neither JSON nor written as Python does."""


class TooLong(Unreadable):
    """The text has more words and marks than are read."""


def read_literal(text: str, tokens_max: int) -> Literal:
    """The value that all of the text stands for; `Unreadable` if it stands for none.

    Tuples and sets are lists, and names in a dictionary that are no text are what is written there.
    A text of more than `tokens_max` words and marks is read no further: `TooLong`.
    """
    reader = _LiteralReader(text, tokens_max)
    value = reader.value(0)
    if reader.token is not None:
        raise Unreadable
    return value


def number_of(text: str) -> float | None:
    """The number that a text is, if it is a finite one."""
    number = float(text) if _NUMBER.fullmatch(text) else inf
    return number if isfinite(number) else None


class _LiteralReader:
    """The tokens of a text, one after the other; `token` is the next, None at the end."""

    def __init__(self, text: str, tokens_max: int) -> None:
        self._text = text.rstrip()
        self._left = tokens_max
        self._at = 0
        self.token: re.Match[str] | None = None
        self._advance()

    def _advance(self) -> None:
        self.token = None
        if self._at < len(self._text):
            self.token = _TOKEN.match(self._text, self._at)
            if self.token is None:
                raise Unreadable
            self._at = self.token.end()
            self._left -= 1
            if self._left < 0:
                raise TooLong

    def _take(self) -> re.Match[str]:
        token = self.token
        if token is None:
            raise Unreadable
        self._advance()
        return token

    def _is_at(self, mark: str) -> bool:
        return self.token is not None and self.token["mark"] == mark

    def value(self, depth: int) -> Literal:
        """The value that begins here: a text, a list, or a dictionary if it has names."""
        token = self._take()
        if token["mark"] is None:
            return _leaf(token)
        closes = _CLOSES.get(token["mark"])
        if closes is None or depth >= NESTING_MAX:
            raise Unreadable
        items: list[Literal] = []
        named: dict[str, Literal] = {}
        while not self._is_at(closes):
            item = self.value(depth + 1)
            if closes == "}" and self._is_at(":"):
                self._take()
                if not isinstance(item, str):
                    raise Unreadable
                named[item] = self.value(depth + 1)
            else:
                items.append(item)
            if not self._is_at(closes) and self._take()["mark"] != ",":
                raise Unreadable
        self._take()
        if named and items:
            raise Unreadable
        return items if items or closes != "}" else named


def _leaf(token: re.Match[str]) -> str:
    bare = token["bare"]
    if bare is not None:
        return Bare(bare)
    text = token["double"] if token["double"] is not None else token["single"]
    if "\\" not in text:
        return text
    # Two escapes may be one character; half of one is none.
    raw = _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass")
    return raw.decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


# -- headers -----------------------------------------------------------------------------------


class Terms(Struct, gc=False):
    """What a request's headers mean.

    `forwarded` is what a worker is sent: always in the form that job managers read, and always
    with the wish for a reply, because that is how the broker learns that the job is done.
    `no_call_policy` is that of a message that is no call: a job manager that gets one dies of it.
    """

    policy: Policy
    no_call_policy: Policy
    wants_result: bool
    forwarded: bytes
    timeout_ms: int = 0


def read_headers(raw: bytes) -> dict[str, str]:
    """Every header by its name; one that is only named has the value `true`.

    What is no text at all is no header: nothing that a client writes here is worth losing a job.
    """
    text = raw[:HEADERS_BYTES_MAX].decode("utf-8", "replace").strip()
    if text == "set()":
        return {}
    if text[:1] != "{":
        return _headers_of(text)
    try:
        value = read_literal(text, 4 * HEADERS_MAX)  # a name, a value, and a mark behind each
    except Unreadable:
        return _headers_of(text)
    if isinstance(value, dict):
        return {name.strip().lower(): _shown(value) for name, value in value.items()}
    words = [item for item in value if isinstance(item, str)]
    return {name: value for word in words for name, value in _headers_of(word).items()}


def _shown(value: Literal) -> str:
    if not isinstance(value, str):
        return "true"
    return {"None": "false", "null": "false", "False": "false", "True": "true"}.get(value, value)


def _headers_of(text: str) -> dict[str, str]:
    """Headers that are comma-separated words."""
    found: dict[str, str] = {}
    in_cron = False
    for word in text.split(",", HEADERS_MAX)[:HEADERS_MAX]:
        name, _, value = word.partition(":")
        name = name.strip().lower()
        if in_cron and name not in _KNOWN:
            found["cron"] += f",{word}"  # a cron line has commas of its own
            continue
        in_cron = name == "cron"
        if name:
            found[name] = value.strip() or "true"
    return found


def is_set(headers: Mapping[str, str], name: str) -> bool:
    """Whether a header is there and does not say no."""
    return headers.get(name, "false").lower() not in _NO


def number_in(headers: Mapping[str, str], name: str) -> int | None:
    """A header's whole number, or None if there is none."""
    number = number_of(headers.get(name, ""))
    return None if number is None else int(max(min(number, NUMBER_MAX), -NUMBER_MAX))


def terms_of(raw: bytes) -> Terms:
    """What these headers mean; those that are not long are remembered."""
    return _remembered_terms(raw) if len(raw) <= USUAL_BYTES else _read_terms(raw)


def _read_terms(raw: bytes) -> Terms:
    headers = read_headers(raw)
    timeout_s = min(max(number_in(headers, "timeout") or 0, 0), TIMEOUT_S_MAX)
    retries = min(max(number_in(headers, "retry-count") or 0, 0), RETRIES_MAX)
    guaranteed = is_set(headers, "guarantee")
    wants_result = is_set(headers, REPLY_REQUESTED)
    policy = Policy(
        max_failures=-1 if guaranteed else retries,
        max_losses=-1,
        loss_is_failure=guaranteed,
        backoff=Backoff.DOUBLING,
        delay_ms=RETRY_MS,
        lease_ms=timeout_s * 1000 + REPLY_DELAY_MS if timeout_s else 0,
        expiry_is_failure=True,
        never_given_up=guaranteed,
        tells_end=wants_result,
    )
    no_call = replace(policy, max_losses=NO_CALL_LOSSES)
    return Terms(policy, no_call, wants_result, _forwarded(raw, headers), timeout_s * 1000)


_remembered_terms = lru_cache(_TERMS_MAX)(_read_terms)


def _forwarded(raw: bytes, headers: Mapping[str, str]) -> bytes:
    """The headers for a worker. Job managers die of a timeout that is no whole number.

    So does a job of theirs whose timeout is longer than a machine can wait. They take any word
    for one in which it says so, and read all that there are.
    """
    timeout = headers.get("timeout", "0")
    if (
        raw[:1] in (b"{", b"s")
        or not raw.isascii()
        or raw.count(b"timeout:") != ("timeout" in headers)
        or not (timeout.isdigit() and len(timeout) <= _TIMEOUT_DIGITS)
    ):
        words = [_word(name, value) for name, value in headers.items() if value != "false"]
        raw = ",".join(filter(None, words)).encode()
    if is_set(headers, REPLY_REQUESTED):
        return raw
    return raw + b",reply-requested" if raw else b"reply-requested"


def _word(name: str, value: str) -> str:
    if name == "timeout":
        seconds = min(number_in({name: value}, name) or 0, TIMEOUT_S_MAX)
        return f"timeout:{seconds}" if seconds > 0 else ""
    word = name if value == "true" else f"{name}:{value}"
    return "" if "timeout:" in word else word


# -- queues ------------------------------------------------------------------------------------


Weighted = tuple[int, str]


def read_queues(raw: bytes, name_bytes_max: int) -> tuple[Weighted, ...]:
    """Weights and names in the order in which they were sent, each name once."""
    if len(raw) > QUEUES_BYTES_MAX:
        raise Unfit(f"the list of queues has {len(raw)} bytes, at most {QUEUES_BYTES_MAX}")
    text = text_of(raw).strip() if raw else ""
    items = _items(text) if text else []
    if len(items) > QUEUES_MAX:
        raise Unfit(_TOO_MANY)
    found: dict[str, int] = {}
    for weight, name in list(map(_pair, items)) or [(USUAL_WEIGHT, DEFAULT_QUEUE)]:
        if not name or len(raw_of(name)) > name_bytes_max:
            raise Unfit(f"queue names have 1 to {name_bytes_max} bytes")
        found.setdefault(str(name), weight)
    return tuple((weight, name) for name, weight in found.items())


def _items(text: str) -> list[Literal]:
    is_bracketed = text[0] in "[("
    try:
        # The document's form is a list without its brackets. Read as one, each form is read once.
        # A queue has six words and marks: a weight, a name, and what is around and between them.
        value = read_literal(f"[{text}]" if is_bracketed else text, 6 * QUEUES_MAX + 8)
    except TooLong:
        raise Unfit(_TOO_MANY) from None
    except Unreadable:
        if is_bracketed or text[0] == "{":
            raise Unfit("a list of queues that cannot be read") from None
        words = text.split(",", _WORDS_MAX)
        if len(words) > _WORDS_MAX:
            raise Unfit(_TOO_MANY) from None
        return [word.strip() for word in words if word.strip()]
    if is_bracketed and isinstance(value, list) and len(value) == 1:
        (value,) = value
    if not isinstance(value, list):
        return [value]
    return [value] if _as_pair(value) else value


def _pair(item: Literal) -> Weighted:
    pair = (USUAL_WEIGHT, item) if _is_name(item) else _as_pair(item)
    if pair is None:
        raise Unfit("a queue is a name, or a weight and a name")
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
