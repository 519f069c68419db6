"""Who may settle a lease.

A job is held by the `wid` of the connection that fetched it, or by the connection itself where
it said none, and ACK and FAIL name only a jid. The holder's word counts. Another worker's word
never does. Where one side has no `wid` there is nothing to compare, and the original takes
anybody's word; here it counts while the job was delivered exactly once, because then it cannot
be about an earlier delivery. An ACK that comes after the lease ran out counts by the same rules,
as long as nobody was given the job since.
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
    by_trust = None
    for job in broker.named(jid):
        if job.state is LEASED:
            if job.holder == holder:
                return job
            if by_trust is None and _is_trusted_with(job, holder):
                by_trust = job
    return by_trust


def expired_of(broker: Broker, holder: str, jid: str) -> Job | None:
    """The job of that name whose lease ran out on `holder`, if nobody was given it since."""
    for job in broker.named(jid):
        if (
            job.state is not LEASED
            and job.story
            and job.story[-1].how == "expired"
            and (job.holder == holder or _is_trusted_with(job, holder))
        ):
            return job
    return None


def _is_trusted_with(job: Job, holder: str) -> bool:
    """Whether the two cannot be told apart and the word can only be about this delivery."""
    return (
        job.attempts == 1
        and not job.bound
        and (holder.startswith(ANONYMOUS) or job.holder.startswith(ANONYMOUS))
    )
