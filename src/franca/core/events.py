"""What the broker may tell a session that did not just ask.

What a session did ask is the return value of the verb. Each event of a durable job is spoken
only after the commit that makes it true; `durable` says so.
"""

from __future__ import annotations

from msgspec import Struct

from franca.core.model import Demand, Failure, Job, Progress, State


class Granted(Struct, gc=False):
    """The demand is met: the session holds `job` now."""

    job: Job
    demand: Demand


class Unmet(Struct, gc=False):
    """The demand's time is over and no job came."""

    demand: Demand


class Woken(Struct, gc=False):
    """There is work for a session that only asked to be woken."""

    demand: Demand


class Progressed(Struct, gc=False):
    """The holder of a watched job reported; `kind` is the holder's word for what it is.

    Where it says how far it is, that is its `progress`, and `data` what it `said` if it is known.
    """

    job: Job
    kind: str
    data: bytes
    progress: Progress | None = None


class Finished(Struct, gc=False):
    """A watched job has ended: DONE with its result, DEAD or CANCELLED with the reason."""

    job: Job
    state: State
    result: bytes
    failure: Failure


class LeaseLost(Struct, gc=False):
    """The session no longer holds `job`: its time was over, or an operator took it."""

    job: Job


class Begun(Struct, gc=False):
    """A job that the session submitted is in somebody's hands, for the first time since."""

    job: Job


Event = Granted | Unmet | Woken | Progressed | Finished | LeaseLost | Begun
