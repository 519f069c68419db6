"""ACK and FAIL: how a job ends, as its worker says."""

from __future__ import annotations

from franca.core.model import Millis
from franca.protocols.faktory.claims import LEASED, expired_of, held_by
from franca.protocols.faktory.conversation import FaktoryConversation
from franca.protocols.faktory.job import Work
from franca.protocols.faktory.lenient import BAD_JSON, Unreadable
from franca.protocols.faktory.messages import Fail
from franca.protocols.faktory.reports import (
    failure_in,
    read_ack,
    read_fail,
    read_large_fail,
    read_usual_ack,
    read_usual_fail,
)
from franca.protocols.faktory.text import QUICK_BYTES, mended
from franca.protocols.faktory.waiting import NO_JOB
from franca.protocols.faktory.wire import OK, error, quoted


def on_ack(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """ACK: done. A word that comes too late, or twice, is answered OK and changes nothing."""
    try:
        jid = read_usual_ack(rest).jid
    except BAD_JSON:
        found = read_ack(rest)
        if found is None:
            on_large_ack(conversation, rest, now)
            return
        jid = found
    broker = conversation.broker
    holder = conversation.holder
    job = broker.jobs.get(conversation.last_grant)
    if job is None or job.name != jid or job.holder != holder or job.state is not LEASED:
        job = held_by(broker, holder, jid)
    if job is not None:
        broker.finish(job, job.holder, b"", now)
    else:
        late = expired_of(broker, holder, jid)
        if late is not None:
            broker.finish_late(late, late.holder, b"", now)
    conversation.last_grant = NO_JOB
    conversation.link.write_after_commit(OK)


def on_large_ack(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """ACK: no jid is as long as that."""
    conversation.say(error(f"invalid ACK {quoted(rest)}"))


def on_fail(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FAIL: not done, and why."""
    try:
        fail = read_usual_fail(rest)
    except BAD_JSON:
        conversation.begin(_fail_closely(conversation, rest), len(rest), now)
    else:
        conversation.say_after_commit(_fail(conversation, fail, now))


def _fail_closely(conversation: FaktoryConversation, rest: bytes) -> Work:
    now = yield
    try:
        if len(rest) > QUICK_BYTES:
            yield
            mended_rest = yield from mended(rest)
            now = yield
            fail = read_fail(mended_rest)
        else:
            fail = read_fail(rest)
    except Unreadable:
        return error(f"invalid FAIL {quoted(rest)}")
    return _fail(conversation, fail, now)


def on_large_fail(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FAIL: not done, and why, at such length that it takes several turns."""
    conversation.begin(_fail_large(conversation, rest), len(rest), now)


def _fail_large(conversation: FaktoryConversation, rest: bytes) -> Work:
    yield
    yield
    try:
        fail = yield from read_large_fail(rest)
    except Unreadable:
        return error(f"invalid FAIL {quoted(rest)}")
    now = yield
    return _fail(conversation, fail, now)


def _fail(conversation: FaktoryConversation, fail: Fail, now: Millis) -> bytes:
    """The answer to a failure."""
    if not fail.jid:
        return error("missing JID")
    job = held_by(conversation.broker, conversation.holder, fail.jid)
    if job is None:
        return error(f"Job not found {fail.jid}")
    conversation.broker.fail(job, job.holder, failure_in(fail, conversation.service.limits), now)
    return OK
