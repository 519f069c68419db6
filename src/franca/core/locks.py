"""Counted, named locks held by jobs while they run. Nothing else in the core needs them.

Only runs hold locks, and no run outlives its lease: nothing of this is kept in the store.
"""

from __future__ import annotations

from collections import OrderedDict

from franca.core.model import JobId
from franca.core.multimaps import discard


class Locks:
    """Who holds which lock, `count` times in all.

    A lock is open to as many as the largest count anyone asked for. Who waits for one stands in
    its line, and leaves it at once when it waits no more, whatever the reason: the first in line
    is always the next. (An OrderedDict, because the front of a dict from which much was taken is
    found only by looking at all that is gone.)
    """

    __slots__ = ("_holders", "_most", "_waiting", "count", "of_job", "waits_for")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.count = 0
        self._waiting: dict[str, OrderedDict[JobId, None]] = {}
        self.waits_for: dict[JobId, str] = {}
        self._holders: dict[str, dict[JobId, None]] = {}
        self._most: dict[str, int] = {}
        self.of_job: dict[JobId, dict[str, None]] = {}

    def acquire(self, name: str, most: int, job_id: JobId) -> bool:
        """Let the job hold the lock if it is open to it; asking again while holding is True."""
        holders = self._holders.get(name, {})
        if job_id in holders:
            return True
        most = max(most, self._most.get(name, 0))
        if len(holders) >= most:
            return False
        self.count += 1
        self._most[name] = most
        self._holders.setdefault(name, holders)[job_id] = None
        self.of_job.setdefault(job_id, {})[name] = None
        return True

    def release(self, name: str, job_id: JobId) -> bool:
        """The job holds the lock no more; False if it did not."""
        holders = self._holders.get(name)
        if holders is None or job_id not in holders:
            return False
        self.count -= 1
        if discard(self._holders, name, job_id):
            self._most.pop(name, None)
        discard(self.of_job, job_id, name)
        return True

    def wait(self, name: str, job_id: JobId) -> None:
        """The job would hold the lock once it is open; it waits for one lock at a time."""
        self.wait_no_more(job_id)
        self.waits_for[job_id] = name
        self._waiting.setdefault(name, OrderedDict())[job_id] = None

    def wait_no_more(self, job_id: JobId) -> None:
        """The job is on its way again, gone, or in the store alone."""
        name = self.waits_for.pop(job_id, None)
        if name is not None:
            discard(self._waiting, name, job_id)

    def first_waiting(self, name: str) -> JobId | None:
        """Whoever has waited longest for the lock, if anybody has."""
        return next(iter(self._waiting.get(name, ())), None)

    def let_go(self, job_id: JobId) -> list[str]:
        """The job holds no lock any more; returns those that it held."""
        names = list(self.of_job.get(job_id, ()))
        for name in names:
            self.release(name, job_id)
        return names
