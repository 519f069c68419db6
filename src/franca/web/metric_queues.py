"""What queues count, by name, so that counters never go back and never count a job twice."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from franca.control.port import NodePort
from franca.core.history import OTHER
from franca.core.model import Millis
from franca.core.queues import Queue

NAMES_MAX: Final = 1_000
"""Queues that have series of their own, and types; the others are summed as `OTHER`."""
NAME_CHARS_MAX: Final = 128
"""A longer name has no series of its own."""
QUEUES_AT_ONCE: Final = 500
STATES: Final = ("scheduled", "retrying", "ready", "running", "dead")
"""States of jobs that belong to a queue; of all others there is only the history."""


class QueueLine(Struct):
    """One queue, or several together: then `oldest_ms` is the highest, the rest are sums.

    `jobs` are by state, in the order of `STATES`. `workers` take jobs of it; of several queues
    together nobody counts them.
    """

    jobs: list[int]
    pushed: int = 0
    done: int = 0
    failed: int = 0
    died: int = 0
    oldest_ms: Millis = 0
    paused: int = 0
    workers: int = 0

    def add(self, other: QueueLine, sign: int = 1) -> None:
        """One more, or one less, but for its age."""
        self.jobs = [a + sign * b for a, b in zip(self.jobs, other.jobs, strict=True)]
        self.pushed += sign * other.pushed
        self.done += sign * other.done
        self.failed += sign * other.failed
        self.died += sign * other.died
        self.paused += sign * other.paused
        self.oldest_ms = max(self.oldest_ms, other.oldest_ms)


class Told(Struct):
    """What was told of a queue the last time. It is the queue itself: a later one begins anew."""

    queue: Queue
    pushed: int = 0
    done: int = 0
    failed: int = 0
    died: int = 0


class QueueSeries:
    """Which queues have series of their own, and what the last ones said.

    The first ones that there are have one for as long as they are there. One that had to be told
    with the others stays with them: to take it out would let their counters go back. What a queue
    said that is gone is not told again with what the others counted (`_gone`).
    """

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}
        self._others: set[str] = set()
        self._gone = _empty()

    async def look(self, node: NodePort) -> dict[str, QueueLine]:
        """Every queue, or sum of queues, that there is a series for. A part in each turn."""
        broker = node.engine.broker
        # Of one moment: one that is forgotten while others are looked at still counts as a queue.
        queues = list(broker.queues.values())
        forgotten = broker.queue_list.forgotten
        rest = _empty()
        rest.pushed, rest.done = forgotten.pushed, forgotten.done
        rest.failed, rest.died = forgotten.failed, forgotten.died
        lines: dict[str, QueueLine] = {}
        now_there: dict[str, Queue] = {}
        others: set[str] = set()
        for start in range(0, len(queues), QUEUES_AT_ONCE):
            now = node.clock_ms()
            for queue in queues[start : start + QUEUES_AT_ONCE]:
                if not (queue.listed or queue.pushed or queue.done or queue.failed or queue.died):
                    continue  # somebody waits for its first job
                if self._has_own(queue):
                    lines[queue.name] = line_of(queue, now)
                    now_there[queue.name] = queue
                else:
                    others.add(queue.name)
                    rest.add(line_of(queue, now))
            await asyncio.sleep(0)
        self._others = others
        self._note(lines, now_there)
        rest.add(self._gone, -1)
        if others or rest.pushed or rest.done or rest.failed or rest.died:
            lines[OTHER] = rest
        return lines

    def _has_own(self, queue: Queue) -> bool:
        if queue.name in self.told:
            return True
        if queue.name in self._others or len(self.told) >= NAMES_MAX or not fits(queue.name):
            return False
        self.told[queue.name] = Told(queue)
        return True

    def _note(self, lines: dict[str, QueueLine], there: dict[str, Queue]) -> None:
        for name, told in list(self.told.items()):
            if there.get(name) is not told.queue:
                self._gone.pushed += told.pushed
                self._gone.done += told.done
                self._gone.failed += told.failed
                self._gone.died += told.died
            if name in there:
                line = lines[name]
                self.told[name] = Told(there[name], line.pushed, line.done, line.failed, line.died)
            else:
                del self.told[name]


def fits(name: str) -> bool:
    """Whether a name can be that of a series: short, valid Unicode, and not that of the rest."""
    if len(name) > NAME_CHARS_MAX or name == OTHER:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def line_of(queue: Queue, now: Millis) -> QueueLine:
    """What one queue says."""
    first = queue.first()
    return QueueLine(
        [queue.scheduled, queue.retrying, queue.ready, queue.leased, queue.dead],
        queue.pushed,
        queue.done,
        queue.failed,
        queue.died,
        max(0, now - first.ready_at) if first else 0,
        int(queue.paused),
    )


def _empty() -> QueueLine:
    return QueueLine([0] * len(STATES))
