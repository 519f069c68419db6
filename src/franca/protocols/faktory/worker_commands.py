"""FETCH, ACK, FAIL, BEAT: a job to run, what became of a job, and that its worker lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from franca.core.model import Millis
from franca.protocols.conversation import Task
from franca.protocols.faktory.ack_rules import LEASED, expired_of, held_by
from franca.protocols.faktory.fetching import NO_JOB
from franca.protocols.faktory.go_json import BAD_JSON, Unreadable
from franca.protocols.faktory.messages import Fail
from franca.protocols.faktory.parse import (
    REPORT_BYTES_MAX,
    failure_in,
    read_ack,
    read_beat,
    read_fail,
    read_large_fail,
    read_usual_ack,
    read_usual_fail,
)
from franca.protocols.faktory.text import QUICK_BYTES, mended
from franca.protocols.faktory.wire import OK, bulk, error, quoted
from franca.protocols.faktory.workers import WorkerState

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation


def on_fetch(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FETCH: a job now, or within two seconds, or none."""
    conversation.fetching.ask(rest, now)


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
    job = broker.jobs.get(conversation.fetching.last_grant)
    if job is None or job.name != jid or job.holder != holder or job.state is not LEASED:
        job = held_by(broker, holder, jid)
    if job is not None:
        broker.finish(job, job.holder, b"", now)
    else:
        late = expired_of(broker, holder, jid)
        if late is not None:
            broker.finish_late(late, late.holder, b"", now)
    conversation.fetching.last_grant = NO_JOB
    conversation.link.write_after_commit(OK)


def on_large_ack(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """ACK: no jid is as long as that."""
    conversation.say(error(f"invalid ACK {quoted(rest)}"))


def on_fail(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FAIL: not done, and why."""
    try:
        fail = read_usual_fail(rest)
    except BAD_JSON:
        conversation.begin(_fail_closely(conversation, rest), now, len(rest))
    else:
        conversation.say_after_commit(_fail(conversation, fail, now))


def _fail_closely(conversation: FaktoryConversation, rest: bytes) -> Task:
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
    conversation.begin(_fail_large(conversation, rest), now, len(rest))


def _fail_large(conversation: FaktoryConversation, rest: bytes) -> Task:
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


def on_beat(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BEAT: the worker lives; the answer may ask it to be quiet or to leave."""
    try:
        if len(rest) > REPORT_BYTES_MAX:
            raise Unreadable("too long")
        beat = read_beat(rest)
    except Unreadable:
        on_large_beat(conversation, rest, now)
        return
    wid = beat.wid or ""
    workers = conversation.service.registry
    worker = workers.beat(wid, beat.current_state or "", beat.rss_kb or 0, now)
    if worker is None:
        conversation.say(error(f"unknown worker {wid}"))
    elif worker.state is WorkerState.RUNNING:
        conversation.say(OK)
    else:
        conversation.say(bulk(b'{"state":"%b"}' % worker.state.word.encode()))


def on_large_beat(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BEAT: nobody has so much to say."""
    conversation.say(error(f"invalid BEAT {quoted(rest)}"))
