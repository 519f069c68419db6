"""One queue: its ready jobs, those who wait for one, and what else is known of it."""

from __future__ import annotations

from collections import OrderedDict

from franca.core.model import NEVER, Demand, Millis
from franca.core.window import Window, Windows

QUEUE_BYTES = 2_400
"""What a queue takes in memory beside its name, roughly."""


def queue_bytes(name: str) -> int:
    """What a queue of that name takes in memory, roughly."""
    return QUEUE_BYTES + (len(name) if name.isascii() else 4 * len(name))


class Queue(Window):
    """One queue: its window, its counts, and the lines of those who wait.

    A queue is `listed` from its first job on; until then it exists only for those who wait.
    `woken` counts the `sleepers` that were told of its jobs and have not asked for one yet; the
    `light_sleepers` are told of every job, and not counted.
    A pause that has an end is over at `paused_until`.
    While it is `watched` it is looked at now and then; `idle_since` is when it was first found
    to have no jobs, no workers and no settings.
    `asked` is set while somebody wanted a job and only the tail had one.
    `line` is where the next to be served stands; where some go before others there is a line for
    each of the `ranks`, and it is the foremost that somebody stands in.
    """

    __slots__ = (
        "asked",
        "dead",
        "idle_since",
        "leased",
        "light_sleepers",
        "line",
        "listed",
        "name",
        "paused",
        "paused_until",
        "ranks",
        "retrying",
        "scheduled",
        "servers",
        "sleepers",
        "supplying",
        "watched",
        "woken",
    )

    def __init__(self, name: str, windows: Windows | None = None) -> None:
        super().__init__(windows)
        self.name = name
        self.listed = False
        self.watched = False
        self.idle_since: Millis = NEVER
        self.paused = False
        self.paused_until: Millis = NEVER
        self.asked = False
        self.supplying = False
        self.leased = 0
        self.scheduled = 0
        self.retrying = 0
        self.dead = 0
        self.servers = 0
        self.woken = 0
        self.line: OrderedDict[Demand, None] = OrderedDict()
        self.ranks: dict[int, OrderedDict[Demand, None]] | None = None
        self.sleepers: OrderedDict[Demand, None] = OrderedDict()
        self.light_sleepers: dict[Demand, None] = {}

    def stand_in_line(self, demand: Demand, rank: int) -> None:
        """Let somebody wait behind all others of this rank; higher ranks are served first."""
        if self.ranks is None:
            self.ranks = {0: self.line}
        self.ranks.setdefault(rank, OrderedDict())[demand] = None
        self._find_the_foremost(self.ranks)

    def leave_line(self, demand: Demand) -> None:
        """Somebody waits no longer, in whichever line."""
        if self.ranks is None:
            self.line.pop(demand, None)
            return
        for line in self.ranks.values():
            line.pop(demand, None)
        self._find_the_foremost(self.ranks)

    def _find_the_foremost(self, ranks: dict[int, OrderedDict[Demand, None]]) -> None:
        for rank in [rank for rank, line in ranks.items() if rank and not line]:
            del ranks[rank]
        self.line = ranks[max((r for r in ranks if ranks[r]), default=0)]
        if len(ranks) == 1:
            self.ranks = None

    @property
    def live(self) -> int:
        """How many jobs are ready, waiting for their time, or run."""
        return self.size + self.tail + self.leased + self.scheduled + self.retrying

    def is_idle(self) -> bool:
        """Whether it has no jobs, no workers, nobody who waits for it, and no settings."""
        return not (
            self.live
            or self.dead
            or self.paused
            or self.servers
            or self.line
            or self.sleepers
            or self.light_sleepers
            or self.woken
        )
