"""What a worker says: INFORM, READY, REPLY."""

from __future__ import annotations

from typing import TYPE_CHECKING

from franca.core.errors import Refused
from franca.core.model import Millis
from franca.protocols.eventmq.hands import Hands, settle_late
from franca.protocols.eventmq.post import KEPT_COSTS_BYTES

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation


def on_inform(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """INFORM: the peer is a worker of these queues, or a scheduler."""
    queues = frames[4] if len(frames) > 4 else b""
    role = frames[5].strip().lower() if len(frames) > 5 else b"worker"
    conversation.had_a_role = True
    try:
        hands = Hands.of(conversation, role, queues, now)
        hands.claim()
    except Refused as refusal:
        conversation.refuse(refusal.text)
        return
    if conversation.hands is not None:
        conversation.hands.replace()
    conversation.hands = hands
    conversation.drops = False
    service = conversation.service
    # At once: a job manager starts its processes on the first heartbeat it hears.
    conversation.say(service.voice.ack(frames[3]) + service.heartbeat(now))
    hands.join()
    conversation.has_had_its_share = True
    if service.stopping:
        hands.stop()


def on_ready(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """READY: the worker would take one more job."""
    if conversation.hands is not None:
        conversation.hands.ready(now)


def on_reply(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """REPLY: a job is done. The document's form has one frame less and does not say which."""
    hands = conversation.hands
    if conversation.service.post.kept_bytes and _must_wait(conversation, frames, now):
        conversation.put_off(on_reply, frames)
        conversation.service.post.wait(conversation)
    elif len(frames) > 5:
        if hands is not None:
            hands.reply(frames[4], frames[5], now)
        else:
            settle_late(conversation.broker, frames[4], frames[5], now)
    elif len(frames) == 5 and hands is not None:
        hands.reply_unnamed(frames[4], frames[3], now)
    else:
        conversation.refuse("a REPLY of too few frames")


def _must_wait(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> bool:
    """Whether the client that asked for this result has as many as it may, and still takes them.

    A worker that is gone waits for nobody.
    """
    hands, post = conversation.hands, conversation.service.post
    if hands is None or len(frames) < 5 or conversation.link.closed:
        return False
    size = len(frames[4])
    if post.kept_bytes + size + KEPT_COSTS_BYTES <= post.share:
        return False
    job = hands.held_as(frames[5] if len(frames) > 5 else frames[3])
    return job is not None and post.must_wait(job, size, now)
