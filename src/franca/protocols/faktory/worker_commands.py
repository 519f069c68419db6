"""ACK, FAIL, BEAT: reports on jobs, whose reports count, and heartbeats.

A job is held by the `wid` of the connection that fetched it, or by the connection itself where it
has none; ACK and FAIL name only a jid. While a job has been granted only once in its life, a
report counts whoever sends it: it can be about no other run. Once it was granted again, only the
present holder's report counts, because an earlier holder's may be about its own run. Where that
holder has no `wid`, it may report over any other connection without one, unless the attempts of
the job show that this connection has held it before. An ACK that comes after the lease ran out
counts by the same rules, as long as nobody was given the job since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Failure, Job, Millis, Outcome, State
from franca.protocols.conversation import Task
from franca.protocols.faktory import go_json
from franca.protocols.faktory.fetching import NO_JOB
from franca.protocols.faktory.go_json import BAD_JSON, LARGE_BYTES, Unfit, Unreadable
from franca.protocols.faktory.messages import Ack, Beat, Fail, LargeFail
from franca.protocols.faktory.wire import OK, bulk, error, quoted
from franca.protocols.faktory.workers import ANONYMOUS, WorkerState

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation

REPORT_BYTES_MAX: Final = 64 * 1024
"""The longest ACK or BEAT that is not written as usual."""
ERROR_KIND_BYTES: Final = 100
_TEXT_BYTES: Final = 16 * 1024
_LEASED: Final = State.LEASED

_decode_ack: Final = msgspec.json.Decoder(Ack).decode
_decode_fail: Final = msgspec.json.Decoder(Fail).decode
_decode_large_fail: Final = msgspec.json.Decoder(LargeFail).decode
_decode_strings: Final = msgspec.json.Decoder(dict[str, str | None]).decode
_decode_text: Final = msgspec.json.Decoder(str | None).decode
_decode_lines: Final = msgspec.json.Decoder(list[str | None] | None).decode
_read_fail: Final = go_json.Reader(Fail).read
_read_beat: Final = go_json.Reader(Beat).read


# -- whose report counts -------------------------------------------------------------------------


def held_by(broker: Broker, holder: str, jid: str) -> Job | None:
    """The running job of that name that `holder` may settle; its own comes first."""
    sole = broker.sole(jid)
    if sole is not None and sole.state is _LEASED and sole.holder == holder:
        return sole
    # A bound lease is of another protocol, whose own commands settle it.
    own = (job for job in broker.held_as(jid, holder) if not job.bound)
    others = (job for job in broker.running_as(jid) if not job.bound and _counts(job, holder))
    return next(own, None) or next(others, None)


def expired_of(broker: Broker, holder: str, jid: str) -> Job | None:
    """The job of that name whose lease ran out on `holder`, if nobody was given it since."""
    for job in broker.returned_as(jid):
        runs = job.attempt_log
        if runs and runs[-1].outcome is Outcome.EXPIRED and _counts(job, holder):
            return job
    return None


def _counts(job: Job, holder: str) -> bool:
    """Whether a report by `holder` is about the last time that the job was granted.

    None is, if that was to another protocol's worker.
    """
    if f" {ANONYMOUS}" in job.holder:
        return False
    if job.attempts == 1 or job.holder == holder:
        return True
    has_held = any(attempt.holder == holder for attempt in job.attempt_log or ())
    return not has_held and job.holder.startswith(ANONYMOUS) and holder.startswith(ANONYMOUS)


# -- ACK -----------------------------------------------------------------------------------------


def on_ack(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """ACK: done. A report that comes too late, or twice, is answered OK and changes nothing."""
    try:
        jid = _decode_ack(rest).jid if len(rest) <= LARGE_BYTES else None
    except BAD_JSON:
        jid = _read_ack(rest)
    if jid is None:
        raise Unfit(f"invalid ACK {quoted(rest)}")
    broker, holder = conversation.broker, conversation.holder
    job = held_by(broker, holder, jid)
    if job is not None:
        broker.finish(job, job.holder, b"", now)
    elif late := expired_of(broker, holder, jid):
        broker.finish_late(late, late.holder, b"", now)
    # As `say_after_commit`, without the call: this is the most frequent reply but one.
    conversation.fetching.last_grant = NO_JOB
    conversation.link.write_after_commit(OK)


def _read_ack(rest: bytes) -> str | None:
    """The jid in an ACK that may have other members; all of them must be strings or null."""
    if len(rest) > REPORT_BYTES_MAX:
        return None
    try:
        members = _decode_strings(go_json.run_steps(go_json.repaired(rest)))
    except BAD_JSON:
        return None
    return (members["jid"] or "") if "jid" in members else None


# -- FAIL ----------------------------------------------------------------------------------------


def on_fail(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FAIL: not done, and why. One that is large, or hard to read, takes several turns."""
    try:
        fail = _decode_fail(rest) if len(rest) <= LARGE_BYTES else None
    except BAD_JSON:
        fail = None
    if fail is None:
        conversation.begin(_fail_slowly(conversation, rest), now, len(rest))
    else:
        conversation.say_after_commit(_fail(conversation, fail, now))


def _fail_slowly(conversation: FaktoryConversation, rest: bytes) -> Task:
    now = yield
    is_quick = len(rest) <= go_json.QUICK_BYTES
    if not is_quick:
        yield
    try:
        text = yield from go_json.repaired(rest)
        fail = _read_fail(text) if len(rest) <= LARGE_BYTES else _read_large_fail(text)
    except Unreadable:
        raise Unfit(f"invalid FAIL {quoted(rest)}") from None
    if not is_quick:
        now = yield
    return _fail(conversation, fail, now)


def _read_large_fail(text: bytes) -> Fail:
    """What a large FAIL says, or `Unreadable`. No more of it is decoded than will be kept."""
    try:
        said = _decode_large_fail(text)
        message, errtype = (_decode_text(_beginning_of(t)) for t in (said.message, said.errtype))
        is_long = len(memoryview(said.backtrace)) > LARGE_BYTES
        return Fail(said.jid, message, errtype, None if is_long else _decode_lines(said.backtrace))
    except BAD_JSON as error:
        raise go_json.unreadable(error) from None


def _beginning_of(raw: msgspec.Raw) -> bytes:
    """As much of a JSON string as is kept."""
    text = bytes(raw)
    if len(text) <= _TEXT_BYTES:
        return text
    return text[: go_json.safe_cut(text, 0, _TEXT_BYTES)] + b'"'


def _fail(conversation: FaktoryConversation, fail: Fail, now: Millis) -> bytes:
    """Take a failure in; returns the answer to it."""
    if not fail.jid:
        return error("missing JID")
    job = held_by(conversation.broker, conversation.holder, fail.jid)
    if job is None:
        return error(f"Job not found {fail.jid}")
    conversation.broker.fail(job, job.holder, _failure_in(fail, conversation.service.limits), now)
    return OK


def _failure_in(fail: Fail, limits: Limits) -> Failure:
    """The failure that a FAIL tells of, no longer than the original keeps it."""
    text_max = limits.error_text_chars
    return Failure(
        _cut((fail.errtype or "").strip(), ERROR_KIND_BYTES) or "unknown",
        _cut((fail.message or "").strip(), text_max) or "unknown",
        [_cut(line or "", text_max) for line in (fail.backtrace or ())[: limits.trace_lines]],
    )


def _cut(text: str, most: int) -> str:
    """The first `most` bytes of a text, and no half of a character."""
    return text[:most].encode()[:most].decode("utf-8", "ignore")


# -- BEAT ----------------------------------------------------------------------------------------


def on_beat(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BEAT: a heartbeat; the answer may ask the worker to be quiet or to leave."""
    try:
        if len(rest) > REPORT_BYTES_MAX:
            raise Unreadable("too long")
        beat = _read_beat(rest)
    except Unreadable:
        raise Unfit(f"invalid BEAT {quoted(rest)}") from None
    worker = conversation.service.registry.beat(beat, now)
    if worker is None:
        raise Unfit(f"unknown worker {beat.wid or ''}")
    if worker.state is WorkerState.RUNNING:
        conversation.say(OK)
    else:
        conversation.say(bulk(b'{"state":"%b"}' % worker.state.name.lower().encode()))
