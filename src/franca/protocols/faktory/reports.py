"""What consumers say: FETCH, ACK, FAIL and BEAT, read and trimmed."""

from __future__ import annotations

from typing import Final

import msgspec

from franca.core.limits import Limits
from franca.core.model import Failure
from franca.protocols.faktory.job import Unfit
from franca.protocols.faktory.lenient import BAD_JSON, Reader
from franca.protocols.faktory.messages import Ack, Beat, Fail

ERROR_KIND_BYTES: Final = 100
FETCH_QUEUES_MAX: Final = 1_024

read_usual_ack: Final = msgspec.json.Decoder(Ack).decode
"""For ACKs with a jid and nothing else, which are nearly all."""
read_fail: Final = Reader(Fail).read
read_beat: Final = Reader(Beat).read
_read_strings: Final = msgspec.json.Decoder(dict[str, str | None]).decode


def read_queues(rest: bytes, limits: Limits) -> tuple[str, ...]:
    """The queues that a FETCH names, each once; `Refused` if one of them cannot be a queue."""
    # Counted first: a line of blanks may be megabytes long.
    if rest.count(b" ") > 2 * FETCH_QUEUES_MAX:
        raise Unfit(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues")
    try:
        names = tuple(dict.fromkeys(name for name in rest.decode().split(" ") if name))
    except UnicodeDecodeError:
        raise Unfit("queue names must be UTF-8") from None
    if len(names) > FETCH_QUEUES_MAX:
        raise Unfit(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues")
    most = limits.name_bytes_max
    if any(len(name.encode()) > most for name in names):
        raise Unfit(f"queue names cannot be longer than {most} bytes")
    return names


def read_ack(rest: bytes) -> str | None:
    """The jid in an ACK that may have other members; all of them must be strings or null."""
    try:
        members = _read_strings(rest)
    except BAD_JSON:
        return None
    return (members["jid"] or "") if "jid" in members else None


def failure_in(fail: Fail, limits: Limits) -> Failure:
    """The failure that a FAIL tells of, no longer than the original keeps it."""
    text_max = limits.error_text_chars
    return Failure(
        _cut((fail.errtype or "").strip(), ERROR_KIND_BYTES) or "unknown",
        _cut((fail.message or "").strip(), text_max) or "unknown",
        [_cut(line or "", text_max) for line in (fail.backtrace or ())[: limits.trace_lines]],
    )


def _cut(text: str, most: int) -> str:
    """The first `most` bytes of a text, and no half of a character."""
    if len(text) * 4 <= most:
        return text
    return text.encode()[:most].decode("utf-8", "ignore")
