"""Whose mistake an exception is: a conversation's, or the broker's; what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Millis
from franca.protocols.conversation import Conversation, Link


def is_of_the_core(error: BaseException, broker: Broker) -> bool:
    """Whether an exception came out of a verb of the broker, and is not a refusal."""
    if isinstance(error, Refused):
        return False
    return any(one is part for one in _objects_in(error) for part in broker.parts)


def link_in(error: BaseException) -> Link | None:
    """The link of the conversation, or of a part of one, whose code a service called for it.

    None if the exception is the service's own.
    """
    for one in _objects_in(error):
        conversation = getattr(one, "conversation", getattr(one, "_conversation", one))
        link = getattr(conversation, "link", None)
        if isinstance(link, Link):
            return link
    return None


def _objects_in(error: BaseException) -> Iterator[object]:
    """Whose methods the exception came through, the outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_locals.get("self")
        trace = trace.tb_next


def close_sessions(broker: Broker, conversation: Conversation, now: Millis) -> None:
    """What a conversation should have done at its end, and did not: what it ran goes back."""
    for session in broker.sessions_of(conversation):
        broker.close_session(session, now)
