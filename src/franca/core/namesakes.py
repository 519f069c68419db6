"""Jobs in memory that go by one public name.

Nothing keeps a client from giving a hundred thousand jobs the same name. Whoever looks one of them
up must not have to look at all the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from franca.core.model import Job, JobId, State

LOOKED_AT = 1_000
"""Jobs of one name that are looked at where only looking tells which one is meant."""
LAST_LOOKED_AT = 32
"""The last ones of one name, one of which a submit may repeat because its answer was lost."""
_LEASED = State.LEASED


class Namesakes:
    """Two or more jobs of one name: all of them, those that run, those that did and will again.

    In OrderedDicts: the oldest go first, and a dict would look at all that are gone for the next.
    """

    __slots__ = ("_returned", "_running", "jobs")

    def __init__(self, *jobs: Job) -> None:
        self.jobs: OrderedDict[JobId, Job] = OrderedDict()
        self._running: dict[str, OrderedDict[JobId, Job]] = {}
        self._returned: OrderedDict[JobId, Job] = OrderedDict()
        for job in jobs:
            self.add(job)

    def add(self, job: Job) -> None:
        """A job of this name is in memory; adding it twice changes nothing."""
        self.jobs[job.id] = job
        if job.state is _LEASED:
            self.lease(job)
        elif job.attempts:
            self._returned[job.id] = job

    def discard(self, job: Job) -> None:
        """A job of this name is not in memory any more."""
        self.unlease(job)
        self._returned.pop(job.id, None)
        self.jobs.pop(job.id, None)

    def lease(self, job: Job) -> None:
        """One of them runs now, by its holder."""
        self._returned.pop(job.id, None)
        mine = self._running.get(job.holder)
        if mine is None:
            mine = self._running[job.holder] = OrderedDict()
        mine[job.id] = job

    def unlease(self, job: Job) -> None:
        """A run of one of them is over."""
        mine = self._running.get(job.holder)
        if mine is not None and mine.pop(job.id, None) is not None:
            self._returned[job.id] = job
            if not mine:
                del self._running[job.holder]

    def held_by(self, holder: str) -> Iterator[Job]:
        """Those that this holder runs, in the order in which it was given them."""
        return iter(self._running.get(holder, {}).values())

    def running(self) -> Iterator[Job]:
        """Those that anybody runs, as many as are looked at."""
        return islice((job for mine in self._running.values() for job in mine.values()), LOOKED_AT)

    def returned(self) -> Iterator[Job]:
        """Those that somebody ran and that wait to be run again, as many as are looked at."""
        return islice(self._returned.values(), LOOKED_AT)

    def newest(self) -> Iterator[Job]:
        """The last ones that came, newest first."""
        return islice(reversed(self.jobs.values()), LAST_LOOKED_AT)
