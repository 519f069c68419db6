"""Jobs whose time has not come: the nearest in memory, the rest in the backlog.

The same rule as for a queue's window: memory holds every waiting job up to `mark` in order of
(run_at, id), the store every one behind it; with an empty backlog there is no mark.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, nlargest

from franca.core.model import Job, JobId, Millis

_SPARE_ENTRIES = 1_000


class Waiting:
    """Jobs by id, and a heap of their due times; entries of jobs that have left are skipped."""

    __slots__ = ("_heap", "_jobs", "backlog", "bytes_held", "mark", "supplying", "uncut")

    def __init__(self) -> None:
        self.supplying = False
        self.clear()

    def clear(self) -> None:
        """Forget everything, the backlog too."""
        self._jobs: dict[JobId, Job] = {}
        self._heap: list[tuple[Millis, JobId]] = []
        self.backlog = self.uncut = self.bytes_held = 0
        self.mark: tuple[Millis, int] | None = None

    @property
    def size(self) -> int:
        """How many jobs wait in memory."""
        return len(self._jobs)

    def belongs_to_backlog(self, job: Job) -> bool:
        """Whether a waiting job lies behind the mark."""
        return self.mark is not None and (job.run_at, job.id) > self.mark

    def add(self, job: Job) -> None:
        """Keep a waiting job in memory until its time."""
        self._jobs[job.id] = job
        self.bytes_held += job.weight
        heappush(self._heap, (job.run_at, job.id))

    def remove(self, job: Job) -> None:
        """A waiting job in memory is no longer waiting."""
        del self._jobs[job.id]
        self.bytes_held -= job.weight
        self._drop_old_entries()

    def due(self, now: Millis, most: int) -> list[Job]:
        """Take out up to `most` jobs whose time has come, in order of time."""
        found: list[Job] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            at, job_id = heappop(self._heap)
            job = self._jobs.get(job_id)
            if job is not None and job.run_at == at:
                del self._jobs[job_id]
                self.bytes_held -= job.weight
                found.append(job)
        return found

    def lighten(self, job: Job) -> None:
        """The body of a job, which may be waiting here, is about to leave memory."""
        if job.id in self._jobs:
            self.bytes_held -= len(job.body)

    def burden(self, job: Job) -> None:
        """The body of a job, which may be waiting here, has come back into memory."""
        if job.id in self._jobs:
            self.bytes_held += len(job.body)

    def cut(self, keep: int, keep_bytes: int, most: int) -> list[Job]:
        """Drop the latest jobs beyond `keep` or `keep_bytes`, up to `most` of them.

        The mark is set as for a queue.
        """
        dropped: list[Job] = []
        if self.size > keep or self.bytes_held > keep_bytes:
            for job in nlargest(most, self._jobs.values(), key=_key_of):
                if self.size <= keep and self.bytes_held <= keep_bytes:
                    break
                del self._jobs[job.id]
                self.bytes_held -= job.weight
                dropped.append(job)
            at, job_id = _key_of(dropped[-1])
            before = (at, job_id - 1)
            self.mark = before if self.mark is None else min(self.mark, before)
            self._drop_old_entries()
        return dropped

    def next_at(self) -> Millis | None:
        """When the next job falls due, or None; the backlog is behind all of these."""
        while self._heap:
            at, job_id = self._heap[0]
            job = self._jobs.get(job_id)
            if job is not None and job.run_at == at:
                return at
            heappop(self._heap)
        return None

    def earliest(self) -> dict[str, Millis]:
        """By queue, when the next of its jobs in memory falls due. Looks at each of them."""
        found: dict[str, Millis] = {}
        for job in self._jobs.values():
            if job.run_at < found.get(job.queue, job.run_at + 1):
                found[job.queue] = job.run_at
        return found

    def _drop_old_entries(self) -> None:
        # Whoever replaces one far-off job again and again leaves nothing but entries behind.
        if len(self._heap) > 2 * len(self._jobs) + _SPARE_ENTRIES:
            self._heap = [_key_of(job) for job in self._jobs.values()]
            heapify(self._heap)


def _key_of(job: Job) -> tuple[Millis, JobId]:
    return (job.run_at, job.id)
