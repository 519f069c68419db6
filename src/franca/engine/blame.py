"""Whose mistake an exception is: a conversation's, or the broker's."""

from __future__ import annotations

from franca.core.broker import Broker
from franca.core.errors import Refused


def is_of_the_core(error: BaseException, broker: Broker) -> bool:
    """Whether an exception came out of a verb of the broker, and is not a refusal."""
    if isinstance(error, Refused):
        return False
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_locals.get("self") is broker:
            return True
        trace = trace.tb_next
    return False
