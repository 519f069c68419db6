"""The headers of a message, in any of the ways in which they are written.

The client library writes them as comma-separated words (`timeout:5,guarantee`), the document
also calls them a dictionary, and people write one as JSON or as Python does. What they mean for a
job is a `Terms`, made once for each text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from franca.core.model import Backoff, Policy
from franca.protocols.eventmq.literals import Literal, Unreadable, number_of, read_literal

HEADERS_BYTES_MAX: Final = 4_096
USUAL_BYTES: Final = 256
"""Longer headers are read anew each time, which is more work than a message usually is."""
WORDS_MAX: Final = 64
"""Headers of one message; those behind them are not read."""
_TOKENS_MAX: Final = 4 * WORDS_MAX
"""A name, what it says, and a mark behind each."""
TIMEOUT_S_MAX: Final = 10 * 365 * 86_400
_TIMEOUT_DIGITS: Final = 9
RETRIES_MAX: Final = 1_000_000
NUMBER_MAX: Final = 2**31 - 1
"""Larger numbers are this one: nobody lives to see the difference."""
REPLY_DELAY_MS: Final = 2_000
"""How much later than a job's timeout its worker, which enforces it, may say so."""
RETRY_MS: Final = 1_000
"""How long a failed job waits for its second try; every further one doubles it."""
WARY_LOSSES: Final = 2
"""Losses of a message that is no call that are made good: it may be what the workers die of."""
_KNOWN: Final = frozenset(
    (
        "reply-requested",
        "retry-count",
        "timeout",
        "guarantee",
        "nohaste",
        "run_count",
        "run-count",
        "interval",
        "timezone",
    )
)
_NO: Final = ("false", "0", "no", "off", "none", "null")
_TERMS_MAX: Final = 1_000
_REPLY_REQUESTED: Final = "reply-requested"
_TIMEOUT_SAID: Final = b"timeout:"


class Terms(Struct, gc=False):
    """What a request's headers mean.

    `forwarded` is what a worker is told: always in the form that job managers read, and always
    with the wish for a reply, because that is how the broker hears that the job is done. `wary` is
    the policy of a message that is no call: a job manager that is given one dies of it.
    """

    policy: Policy
    wary: Policy
    wants_result: bool
    forwarded: bytes
    timeout_ms: int = 0


def read_headers(raw: bytes) -> dict[str, str]:
    """Every header by its name; one that is only named has the value `true`.

    What is no text at all is no header: nothing that a client writes here is worth losing a job.
    """
    text = raw[:HEADERS_BYTES_MAX].decode("utf-8", "replace").strip()
    if not text:
        return {}
    if text[0] == "{" or text == "set()":
        found = _as_mapping(text)
        if found is not None:
            return found
    return _of_words(text)


def _as_mapping(text: str) -> dict[str, str] | None:
    try:
        value = read_literal(text, _TOKENS_MAX) if text != "set()" else []
    except Unreadable:
        return None
    if isinstance(value, dict):
        return {_name(name): _shown(said) for name, said in value.items()}
    words = [item for item in value if isinstance(item, str)]
    return {name: said for word in words for name, said in _of_words(word).items()}


def _shown(value: Literal) -> str:
    if not isinstance(value, str):
        return "true"
    return {"None": "false", "null": "false", "False": "false", "True": "true"}.get(value, value)


def _of_words(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    in_cron = False
    for word in text.split(",", WORDS_MAX)[:WORDS_MAX]:
        name, _, value = word.partition(":")
        name = _name(name)
        if in_cron and name not in _KNOWN:
            found["cron"] += f",{word}"  # a cron line has commas of its own
            continue
        in_cron = name == "cron"
        if name:
            found[name] = value.strip() or "true"
    return found


def _name(text: str) -> str:
    return text.strip().lower()


def wants_result(raw: bytes) -> bool:
    """Whether headers ask for a reply."""
    return is_set(read_headers(raw), _REPLY_REQUESTED)


def is_set(headers: Mapping[str, str], name: str) -> bool:
    """Whether a header is there and does not say no."""
    return headers.get(name, "false").lower() not in _NO


def number_in(headers: Mapping[str, str], name: str) -> int | None:
    """A header's whole number, or None if there is none."""
    number = number_of(headers.get(name, ""))
    return None if number is None else int(max(min(number, NUMBER_MAX), -NUMBER_MAX))


class TermsReader:
    """Makes `Terms` of header texts, and remembers those that were met."""

    def __init__(self) -> None:
        self._known: dict[bytes, Terms] = {}

    def of(self, raw: bytes) -> Terms:
        """What these headers mean."""
        terms = self._known.get(raw)
        if terms is None:
            terms = self._read(raw)
            if len(raw) <= USUAL_BYTES:
                if len(self._known) >= _TERMS_MAX:
                    self._known.clear()
                self._known[raw] = terms
        return terms

    def _read(self, raw: bytes) -> Terms:
        headers = read_headers(raw)
        timeout_s = min(max(number_in(headers, "timeout") or 0, 0), TIMEOUT_S_MAX)
        retries = min(max(number_in(headers, "retry-count") or 0, 0), RETRIES_MAX)
        guaranteed = is_set(headers, "guarantee")
        asks = is_set(headers, _REPLY_REQUESTED)
        policy = Policy(
            failures=-1 if guaranteed else retries,
            losses=-1,
            loss_is_failure=guaranteed,
            backoff=Backoff.DOUBLING,
            delay_ms=RETRY_MS,
            lease_ms=timeout_s * 1000 + REPLY_DELAY_MS if timeout_s else 0,
            expiry_is_failure=True,
            never_given_up=guaranteed,
            tells_end=asks,
        )
        wary = replace(policy, losses=WARY_LOSSES)
        return Terms(policy, wary, asks, _forwarded(raw, headers), timeout_s * 1000)


def _forwarded(raw: bytes, headers: Mapping[str, str]) -> bytes:
    """The headers for a worker. Job managers die of a timeout that is no whole number.

    So does a job of theirs whose timeout is longer than a machine can wait. They take any word
    for one in which it says so, and read all that there are.
    """
    if (
        raw[:1] in (b"{", b"s")
        or not raw.isascii()
        or raw.count(_TIMEOUT_SAID) != ("timeout" in headers)
        or not _is_plain(headers.get("timeout", "0"))
    ):
        words = [_word(name, value) for name, value in headers.items() if value != "false"]
        raw = ",".join(word for word in words if word).encode()
    if is_set(headers, _REPLY_REQUESTED):
        return raw
    return raw + b",reply-requested" if raw else b"reply-requested"


def _is_plain(timeout: str) -> bool:
    return timeout.isdigit() and len(timeout) <= _TIMEOUT_DIGITS


def _word(name: str, value: str) -> str:
    if name == "timeout":
        seconds = min(number_in({name: value}, name) or 0, TIMEOUT_S_MAX)
        return f"timeout:{seconds}" if seconds > 0 else ""
    word = name if value == "true" else f"{name}:{value}"
    return "" if "timeout:" in word else word
