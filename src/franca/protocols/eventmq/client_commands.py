"""What a client says: REQUEST, SCHEDULE, UNSCHEDULE, PUBLISH, and what any peer may say.

A handler may raise `Refused`: the message is counted, and logged now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.errors import Refused, StoreFull
from franca.core.model import Millis, State
from franca.protocols.conversation import WHOLE_SHARE
from franca.protocols.eventmq.jobs import REQUEST_FRAMES, Address
from franca.protocols.eventmq.texts import REPLY_REQUESTED, USUAL_BYTES, Unfit, is_set, read_headers
from franca.protocols.eventmq.topics import SHARE_WORK
from franca.protocols.eventmq.wire import ECHO_BYTES_MAX
from franca.protocols.eventmq.zmtp import pieces

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

LEASED: Final = State.LEASED
USUAL_RULE_BYTES: Final = 1_024
"""To read a longer SCHEDULE is more work than a message usually is."""


def on_request(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """REQUEST: a job. The answer says that a worker has it, and comes when one does."""
    if not conversation.is_client:
        be_client(conversation)
    service = conversation.service
    client = conversation.address
    if conversation.envelope:
        client = Address(client.link, client.identity, conversation.envelope)
    broker = conversation.broker
    last_id = broker.totals.last_job_id
    try:
        job = service.intake.submit(frames, client, now)
    except StoreFull:
        # No answer says so. What cannot be kept is not taken: the peer's socket keeps it.
        conversation.put_off(on_request, frames)
        service.wait_for_room[conversation] = None
        return
    except Refused as refusal:
        refuse_request(conversation, frames, refusal.text)
        return
    if len(frames[5]) > USUAL_BYTES:
        conversation.spent += WHOLE_SHARE
    if job.id <= last_id and job.policy.tells_end:
        conversation.join(job.id, client.envelope)  # asked for before, perhaps by another
    if job.state is LEASED:
        conversation.on_begun(job, now)
    elif not broker.await_begin(job, conversation.session) and job.id in conversation.joined:
        broker.watch(job.id, conversation.session)


def be_client(conversation: EventmqConversation) -> None:
    """The peer asks for something, again perhaps after a goodbye."""
    if not conversation.is_client:
        conversation.is_client = conversation.had_a_role = True
        conversation.service.results.join(conversation)


def refuse_request(conversation: EventmqConversation, frames: list[bytes], reason: str) -> None:
    """A client that asked for a result is told why there will be none."""
    conversation.refuse(reason)
    is_whole = len(frames) >= REQUEST_FRAMES and len(frames[3]) <= ECHO_BYTES_MAX
    if is_whole and is_set(read_headers(frames[5]), REPLY_REQUESTED):
        error = msgspec.json.encode({"error": reason})
        message = conversation.service.encoder.result(error, frames[3], conversation.envelope)
        conversation.send(message)


def on_schedule(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """SCHEDULE: jobs by a rule. There is no answer."""
    be_client(conversation)
    if _is_work(frames):
        conversation.spent += WHOLE_SHARE
    conversation.service.schedules.schedule(frames, now)


def on_unschedule(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """UNSCHEDULE: no more jobs by this rule, nor by those that other schedulers keep."""
    be_client(conversation)
    schedulers = conversation.service.schedulers.all
    if _is_work(frames) or schedulers:
        conversation.spent += WHOLE_SHARE
    conversation.service.schedules.unschedule(frames)
    message = pieces(b"", frames)
    for scheduler in schedulers.values():
        scheduler.conversation.send(message)


def _is_work(frames: list[bytes]) -> bool:
    """Whether to read such a message is more work than usual: long texts, or a cron line."""
    return sum(map(len, frames)) > USUAL_RULE_BYTES or (len(frames) > 8 and frames[8] != b"")


def on_publish(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """PUBLISH: topic and message, with headers between them or without."""
    be_client(conversation)
    if len(frames) < 6:
        raise Unfit("a PUBLISH of too few frames")
    body = frames[6] if len(frames) > 6 else frames[5]
    publication = conversation.service.topics.publish(frames[4], body, now)
    if not publication.is_done:
        conversation.begin(publication.task(), now, len(frames[4]) + len(body))
    if publication.work > SHARE_WORK:
        conversation.spent += WHOLE_SHARE


def on_goodbye(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """KBYE, or the document's KBAI: nothing more for this peer; it may finish its jobs."""
    if conversation.worker is not None:
        conversation.worker.leave()
    else:
        conversation.is_client = False
        conversation.service.results.leave(conversation)
        conversation.forget(now)


def on_heartbeat(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """HEARTBEAT, HELLO, ACK: the peer lives."""
