"""Jobs whose time has not come: the nearest in memory, the rest in the tail.

The same rule as for a queue's window: memory holds every waiting job up to `mark` in order of
(run_at, id), the store every one behind it; with an empty tail there is no mark.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from franca.core.model import Job, Millis, State

_Entry = tuple[Millis, int, Job]


class Waiting:
    """A heap by due time. Jobs that left by another way are skipped when their turn comes."""

    __slots__ = ("_heap", "mark", "size", "supplying", "tail")

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self.size = 0
        self.tail = 0
        self.mark: tuple[Millis, int] | None = None
        self.supplying = False

    def belongs_to_tail(self, job: Job) -> bool:
        """Whether a waiting job lies behind the mark."""
        return self.mark is not None and (job.run_at, job.id) > self.mark

    def add(self, job: Job) -> None:
        """Keep a waiting job in memory until its time."""
        heappush(self._heap, (job.run_at, job.id, job))
        self.size += 1

    def left(self) -> None:
        """A waiting job in memory is no longer waiting; its entry is skipped later."""
        self.size -= 1

    def due(self, now: Millis, most: int) -> list[Job]:
        """Take out up to `most` jobs whose time has come, in order of time."""
        found: list[Job] = []
        heap = self._heap
        while heap and heap[0][0] <= now and len(found) < most:
            at, _, job = heappop(heap)
            if job.state is not State.WAITING or job.run_at != at:
                continue
            # A job that left and came back for the same moment has two entries side by side.
            if not found or found[-1] is not job:
                found.append(job)
        self.size -= len(found)
        return found

    def cut(self, keep: int) -> list[Job]:
        """Drop the latest jobs beyond `keep` from memory and set the mark."""
        live = sorted(e for e in self._heap if e[2].state is State.WAITING and e[2].run_at == e[0])
        dropped = [job for _, _, job in live[keep:]]
        self._heap = live[:keep]
        heapify(self._heap)
        self.size = len(self._heap)
        if dropped:
            self.mark = live[keep - 1][:2]
        return dropped

    def next_at(self) -> Millis | None:
        """When the next job falls due, or None; the tail is behind all of these."""
        heap = self._heap
        while heap and not (heap[0][2].state is State.WAITING and heap[0][2].run_at == heap[0][0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def clear(self) -> None:
        """Forget everything, the tail too."""
        self._heap.clear()
        self.size = self.tail = 0
        self.mark = None
