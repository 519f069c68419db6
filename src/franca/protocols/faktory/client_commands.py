"""PUSH and PUSHB: jobs as producers say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from franca.core.errors import Refused
from franca.core.model import Millis
from franca.protocols.faktory.bulk import push_many
from franca.protocols.faktory.fetching import NO_JOB
from franca.protocols.faktory.jobs import TakesLong
from franca.protocols.faktory.parse import refusal_of
from franca.protocols.faktory.wire import OK

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation


def on_push(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSH: one job."""
    conversation.fetching.last_grant = NO_JOB
    try:
        conversation.push(rest, now)
    except TakesLong:
        conversation.begin(conversation.service.intake.push_closely(rest, OK), now, len(rest))
    except Refused as refusal:
        conversation.link.write(refusal_of(refusal))
    else:
        conversation.link.write_after_commit(OK)


def on_push_large(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSH: one job, which is so large that it takes several turns."""
    conversation.begin(conversation.service.intake.push_large(rest, OK), now, len(rest))


def on_push_many(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSHB: many jobs; the answer names those that were not taken."""
    conversation.begin(push_many(conversation.service.intake, rest), now, len(rest))
