"""What consumers say: FETCH, ACK, FAIL and BEAT, read and trimmed."""

from __future__ import annotations

from typing import Final

import msgspec

from franca.core.limits import Limits
from franca.core.model import Failure
from franca.core.names import text_of
from franca.protocols.faktory.lenient import BAD_JSON, Reader, Unreadable
from franca.protocols.faktory.messages import Ack, Beat, Fail, LargeFail
from franca.protocols.faktory.scan import Unfit
from franca.protocols.faktory.text import LARGE_BYTES, Steps, finished, mended, safe_cut

REPORT_BYTES_MAX: Final = 64 * 1024
"""An ACK or a BEAT that is not written as usual; nobody needs as much."""
ERROR_KIND_BYTES: Final = 100
FETCH_QUEUES_MAX: Final = 1_024
_TEXT_BYTES: Final = 16 * 1024

read_usual_ack: Final = msgspec.json.Decoder(Ack).decode
"""For ACKs with a jid and nothing else, which are nearly all."""
read_usual_fail: Final = msgspec.json.Decoder(Fail).decode
read_fail: Final = Reader(Fail).read
read_beat: Final = Reader(Beat).read
_read_large_fail: Final = msgspec.json.Decoder(LargeFail).decode
_read_strings: Final = msgspec.json.Decoder(dict[str, str | None]).decode
_read_text: Final = msgspec.json.Decoder(str | None).decode
_read_lines: Final = msgspec.json.Decoder(list[str | None] | None).decode


def read_queues(rest: bytes, limits: Limits) -> tuple[str, ...]:
    """The queues that a FETCH names, each once; `Refused` if one of them cannot be a queue."""
    most = limits.name_bytes_max
    # Counted first: a line of blanks may be megabytes long.
    if rest.count(b" ") > 2 * FETCH_QUEUES_MAX or len(rest) > 2 * FETCH_QUEUES_MAX * (most + 1):
        raise Unfit(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues")
    names = tuple(dict.fromkeys(text_of(name) for name in rest.split(b" ") if name))
    if len(names) > FETCH_QUEUES_MAX:
        raise Unfit(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues")
    if any(len(name.encode()) > most for name in names):
        raise Unfit(f"queue names cannot be longer than {most} bytes")
    return names


def read_ack(rest: bytes) -> str | None:
    """The jid in an ACK that may have other members; all of them must be strings or null."""
    if len(rest) > REPORT_BYTES_MAX:
        return None
    try:
        members = _read_strings(finished(mended(rest)))
    except BAD_JSON:
        return None
    return (members["jid"] or "") if "jid" in members else None


def read_large_fail(rest: bytes) -> Steps[Fail]:
    """What a large FAIL says, or `Unreadable`. No more of it is read than will be kept."""
    rest = yield from mended(rest)
    try:
        said = _read_large_fail(rest)
        message, errtype = (_beginning_of(bytes(text)) for text in (said.message, said.errtype))
        is_long = len(memoryview(said.backtrace)) > LARGE_BYTES
        trace = None if is_long else _read_lines(said.backtrace)
    except BAD_JSON as error:
        raise Unreadable(str(error)) from None
    return Fail(said.jid, message, errtype, trace)


def _beginning_of(text: bytes) -> str | None:
    """As much of a JSON string as anybody will see."""
    if len(text) > _TEXT_BYTES:
        text = text[: safe_cut(text, 0, _TEXT_BYTES)] + b'"'
    beginning: str | None = _read_text(text)
    return beginning


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
    return text[:most].encode()[:most].decode("utf-8", "ignore")
