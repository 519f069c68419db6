"""Which queues have had nothing in them for long: looked at a few at a time."""

from __future__ import annotations

from collections import deque

from franca.core.limits import Limits
from franca.core.model import NEVER, Millis
from franca.core.ready import Queue

LOOKS = 500
LOOKS_MAX = 5_000
"""Queues that are looked at in one tick: more where there are many."""
LOOKS_PER_NEW = 3
"""And so many for each that came since the last tick. A queue that has nothing in it is forgotten
when it is looked at for the second time, so names that come and go cannot outrun it."""


class IdleQueues:
    """All listed queues, each looked at now and then. `count` is how many were found idle."""

    __slots__ = ("_new", "_queues", "count")

    def __init__(self) -> None:
        self.count = 0
        self._new = 0
        self._queues: deque[Queue] = deque()

    def add(self, queue: Queue) -> None:
        """Look at a listed queue from now on; one that is looked at already is not added again."""
        if not queue.watched:
            queue.watched = True
            self._new += 1
            self._queues.append(queue)

    def look(self, limits: Limits, now: Millis) -> list[Queue]:
        """The queues, of those that it is the turn of, that are to be forgotten now."""
        found: list[Queue] = []
        many = min(len(self._queues) // 4, LOOKS_MAX)
        looks = max(LOOKS, LOOKS_PER_NEW * self._new, many)
        self._new = 0
        for _ in range(min(looks, len(self._queues))):
            queue = self._queues.popleft()
            if queue.idle_since and not (queue.listed and queue.is_idle()):
                queue.idle_since = NEVER
                self.count -= 1
            elif queue.idle_since and (
                self.count > limits.idle_queues or now - queue.idle_since > limits.idle_queue_ms
            ):
                self.count -= 1
                queue.watched = False
                found.append(queue)
                continue
            elif not queue.idle_since and queue.listed and queue.is_idle():
                queue.idle_since = now
                self.count += 1
            queue.watched = queue.listed
            if queue.listed:
                self._queues.append(queue)
        return found
