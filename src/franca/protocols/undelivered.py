"""Jobs that were granted to a worker and that it never got go back as if they had not been."""

from __future__ import annotations

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, Millis, Session

GIVEN_BACK_MAX = 1_000
"""Jobs whose delivery may be undone at once; with more under way, the first have surely left."""


def give_back(broker: Broker, job: Job, holder: str, now: Millis) -> None:
    """A job that was granted and that its worker never got, unless it was taken away meanwhile."""
    try:
        broker.give_back(job, holder, now)
    except Refused:
        pass


def give_back_undelivered(broker: Broker, session: Session, heard_at: Millis, now: Millis) -> None:
    """The same for all that a session was granted since its peer was last heard.

    Where something said never left, nobody knows how much of that did.
    """
    for job in [*reversed(session.leases.values())][:GIVEN_BACK_MAX]:
        if job.started_at < heard_at:
            return
        give_back(broker, job, session.holder, now)
