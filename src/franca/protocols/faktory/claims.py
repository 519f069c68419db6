"""Whose report of a job counts.

A job is held by the `wid` of the connection that fetched it, or by the connection itself where it
said none; ACK and FAIL name only a jid. While a job has been granted only once in its life, a
report counts whoever says it: it can be about no other run. Once it was granted again, only the
present holder's report counts, because an earlier holder's may be about its own run. Where that
holder has no `wid`, it may report over any other connection without one, unless that connection
is known to have held the job before: the story of the job says so. An ACK that comes after the
lease ran out counts by the same rules, as long as nobody was given the job since.
"""

from __future__ import annotations

from typing import Final

from franca.core.broker import Broker
from franca.core.model import Job, State

ANONYMOUS: Final = "link "
"""What the holder's name of a connection without a `wid` begins with."""

LEASED = State.LEASED


def held_by(broker: Broker, holder: str, jid: str) -> Job | None:
    """The running job of that name that `holder` may settle; its own comes first."""
    sole = broker.sole(jid)
    if sole is not None and sole.state is LEASED and sole.holder == holder:
        return sole
    # A bound lease is of another protocol, whose own words settle it.
    own = (job for job in broker.held_as(jid, holder) if not job.bound)
    others = (job for job in broker.running_as(jid) if not job.bound and _counts(job, holder))
    return next(own, None) or next(others, None)


def expired_of(broker: Broker, holder: str, jid: str) -> Job | None:
    """The job of that name whose lease ran out on `holder`, if nobody was given it since."""
    for job in broker.returned_as(jid):
        if job.story and job.story[-1].how == "expired" and _counts(job, holder):
            return job
    return None


def _counts(job: Job, holder: str) -> bool:
    """Whether a report by `holder` is about the last time that the job was granted."""
    if job.attempts == 1 or job.holder == holder:
        return True
    return (
        job.holder.startswith(ANONYMOUS)
        and holder.startswith(ANONYMOUS)
        and all(attempt.holder != holder for attempt in job.story or ())
    )
