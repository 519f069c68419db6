"""Which jobs are in memory: by id, by public name and by key. And stubs of those that are not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from franca.core.keys import Keys
from franca.core.limits import Limits
from franca.core.model import Job, JobId, NewJob, State
from franca.core.stubs import Stub

LOOKED_AT = 1_000
"""Jobs of one name that are looked at where only looking tells which one is meant."""
LAST_LOOKED_AT = 32
"""The last ones of one name, one of which a submit may repeat because its answer was lost."""
LEASED = State.LEASED
READY = State.READY
WAITING = State.WAITING


class SameName:
    """Two or more jobs of one name: all of them, those that run, those that did and will again.

    Nothing keeps a client from giving a hundred thousand jobs the same name, and whoever looks one
    up must not look at all the others. In OrderedDicts: the oldest go first, and a dict would look
    at all that are gone for the next.
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
        if job.state is LEASED:
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


class Index:
    """All jobs in memory, and how each is found.

    `same_names` has the names that several jobs go by. `recent` has stubs of jobs of the backlog
    that nobody has run, by their names: a submit may say one of them again.
    """

    def __init__(self, limits: Limits) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.by_name: dict[str, Job | SameName] = {}
        self.same_names: dict[str, SameName] = {}
        self.keys = Keys()
        self.recent: OrderedDict[str, Stub] = OrderedDict()
        self._limits = limits

    # -- lookups --------------------------------------------------------------------------

    def sole(self, name: str) -> Job | None:
        """The one job in memory that goes by this public name; None if none or several do."""
        found = self.by_name.get(name)
        return None if isinstance(found, SameName) else found

    def all_named(self, name: str) -> Iterable[Job]:
        """Every job in memory that goes by this public name, oldest first. They may be many.

        They are to be looked at before anything changes.
        """
        found = self.by_name.get(name)
        if found is None:
            return ()
        return found.jobs.values() if isinstance(found, SameName) else (found,)

    def ids_named(self, name: str) -> list[JobId]:
        """Their ids, which are quickly taken however many they are."""
        found = self.by_name.get(name)
        if found is None:
            return []
        return list(found.jobs) if isinstance(found, SameName) else [found.id]

    def first_named(self, name: str) -> Iterator[Job]:
        """The same jobs, as many as are looked at."""
        return islice(self.all_named(name), LOOKED_AT)

    def last_named(self, name: str) -> Iterator[Job]:
        """The last jobs in memory that go by this public name, newest first."""
        found = self.by_name.get(name)
        return found.newest() if isinstance(found, SameName) else iter(self.all_named(name))

    def held_as(self, name: str, holder: str) -> Iterator[Job]:
        """Jobs of this public name that `holder` runs."""
        found = self.by_name.get(name)
        if isinstance(found, SameName):
            return found.held_by(holder)
        is_held = found is not None and found.state is LEASED and found.holder == holder
        return iter((found,) if found is not None and is_held else ())

    def running_as(self, name: str) -> Iterator[Job]:
        """Jobs of this public name that anybody runs, as many as are looked at."""
        found = self.by_name.get(name)
        if isinstance(found, SameName):
            return found.running()
        return iter((found,) if found is not None and found.state is LEASED else ())

    def returned_as(self, name: str) -> Iterator[Job]:
        """Jobs of this public name that will be run once more, as many as are looked at."""
        found = self.by_name.get(name)
        if isinstance(found, SameName):
            return found.returned()
        will_run = found is not None and found.state is not LEASED and found.attempts > 0
        return iter((found,) if found is not None and will_run else ())

    def said_before(self, new: NewJob) -> Job | Stub | None:
        """The unrun job that this submit repeats, because its answer was lost on the way."""
        for job in self.last_named(new.name):
            is_unrun = job.attempts == 0 and job.state in (READY, WAITING)
            is_as_long = job.away or len(job.body) == len(new.body)
            if is_unrun and is_as_long and _is_said_by(job, new):
                return job
        stub = self.recent.get(new.name)
        return stub if stub is not None and _is_said_by(stub, new) else None

    # -- jobs come into memory and leave it -----------------------------------------------

    def hold(self, job: Job) -> None:
        """Keep a job in memory and find it by id, name and key."""
        self.jobs[job.id] = job
        name = job.name
        if name:
            other = self.by_name.setdefault(name, job)
            if other is not job:
                if isinstance(other, SameName):
                    other.add(job)
                else:
                    self.by_name[name] = self.same_names[name] = SameName(other, job)
        if job.key:
            self.keys.put(job)

    def forget(self, job: Job) -> None:
        """Let a job go from memory; the store keeps what it was told."""
        if self.jobs.pop(job.id, None) is None:
            return
        name = job.name
        if name:
            found = self.by_name.pop(name, None)
            if found is not job and found is not None:
                if isinstance(found, SameName):
                    found.discard(job)
                    if len(found.jobs) == 1:
                        del self.same_names[name]
                        [found] = found.jobs.values()
                self.by_name[name] = found
        if job.key:
            self.keys.drop(job)

    def end_run(self, job: Job) -> None:
        """A run is over: the job is not found among those of its name that run."""
        if job.name in self.same_names:
            self.same_names[job.name].unlease(job)

    def add_stub(self, stub: Stub) -> Stub | None:
        """Remember a job of the backlog; returns the oldest stub if it had to go for it."""
        if stub.key:
            self.keys.put(stub)
        if stub.name and not stub.attempts:
            self.recent[stub.name] = stub
            if len(self.recent) > self._limits.recent_names:
                return self.recent.popitem(last=False)[1]
        return None

    def drop_stub(self, job: Job | Stub) -> None:
        """A job has left the backlog."""
        stub = self.recent.get(job.name)
        if stub is not None and stub.id == job.id:
            del self.recent[job.name]
        if job.key:
            self.keys.drop(job)

    def clear(self) -> None:
        """Forget everything."""
        for found in (self.jobs, self.by_name, self.same_names, self.recent):
            found.clear()


def _is_said_by(job: Job | Stub, new: NewJob) -> bool:
    """Whether a submit describes this job, as far as it was remembered."""
    same = (job.queue, job.kind, job.digest) == (new.queue, new.kind, new.digest)
    return same and job.run_at == new.run_at
