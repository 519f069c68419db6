"""PUSH and PUSHB: jobs as producers say them."""

from __future__ import annotations

from franca.core.errors import Refused
from franca.core.model import Millis
from franca.protocols.faktory.bulk import push_many
from franca.protocols.faktory.conversation import FaktoryConversation
from franca.protocols.faktory.job import TakesLong
from franca.protocols.faktory.waiting import NO_JOB, refusal_of
from franca.protocols.faktory.wire import OK


def on_push(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSH: one job."""
    conversation.last_grant = NO_JOB
    try:
        conversation.push(rest, now)
    except TakesLong:
        conversation.begin(conversation.service.intake.push_closely(rest, OK), len(rest), now)
    except Refused as refusal:
        conversation.link.write(refusal_of(refusal))
    else:
        conversation.link.write_after_commit(OK)


def on_push_large(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSH: one job, which is so large that it takes several turns."""
    conversation.begin(conversation.service.intake.push_large(rest, OK), len(rest), now)


def on_push_many(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSHB: many jobs; the answer names those that were not taken."""
    conversation.begin(push_many(conversation.service.intake, rest), len(rest), now)
