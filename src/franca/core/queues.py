"""Queues: what is known of each, which there are, and which are forgotten."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from franca.core.changelog import Changelog
from franca.core.changes import QueueSetting
from franca.core.errors import TooMuch
from franca.core.keys import Keys
from franca.core.limits import Limits
from franca.core.model import NEVER, Demand, Job, Millis
from franca.core.stubs import Stub
from franca.core.window import Window, Windows

QUEUE_BYTES = 2_400
"""What a queue takes in memory beside its name, roughly."""
QUEUES_OWN = 4
"""The part of what queues may take that is theirs, however many keys there are."""
CHECKS = 500
CHECKS_MAX = 5_000
"""Queues that are checked in one tick for being idle: more where there are many."""
CHECKS_PER_NEW = 3
"""And so many for each that came since the last tick. A queue that has nothing in it is forgotten
at the second check, so names that come and go cannot outrun it."""


def queue_bytes(name: str) -> int:
    """What a queue of that name takes in memory, roughly."""
    return QUEUE_BYTES + (len(name) if name.isascii() else 4 * len(name))


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Queue(Window):
    """One queue: its window, its counts, and the demands that wait for its jobs.

    A queue is `listed` from its first job on; until then it exists only for those who wait.
    `demands` are met next; where some go before others there are some for each of the `ranks`, and
    `demands` are the highest ones that are not empty. `sleepers` are only told that there is work;
    `woken` counts those that were told and have not asked for a job yet. The `always_woken` are
    told of every job, and not counted.
    A pause that has an end is over at `paused_until`.
    While it is `checked` it is looked at now and then; `idle_since` is when it was first found
    to have no jobs, no workers and no settings.
    Since the start so many jobs were `pushed`, `done` or given up (`died`), and so many runs
    `failed`.
    `asked` is set while a demand found jobs in the backlog alone.
    """

    name: str
    listed: bool = False
    checked: bool = False
    idle_since: Millis = NEVER
    paused: bool = False
    paused_until: Millis = NEVER
    asked: bool = False
    supplying: bool = False
    leased: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    servers: int = 0
    woken: int = 0
    pushed: int = 0
    done: int = 0
    failed: int = 0
    died: int = 0
    demands: OrderedDict[Demand, None] = field(default_factory=OrderedDict)
    ranks: dict[int, OrderedDict[Demand, None]] | None = None
    sleepers: OrderedDict[Demand, None] = field(default_factory=OrderedDict)
    always_woken: dict[Demand, None] = field(default_factory=dict)

    def add_demand(self, demand: Demand) -> None:
        """Let a demand wait behind all others of its rank; higher ranks are met first."""
        if demand.only_wake:
            (self.always_woken if demand.wake_always else self.sleepers)[demand] = None
        elif demand.ranks is None and self.ranks is None:
            self.demands[demand] = None
        else:
            rank = (demand.ranks or {}).get(self.name, 0)
            if self.ranks is None:
                self.ranks = {0: self.demands}
            self.ranks.setdefault(rank, OrderedDict())[demand] = None
            self._find_demands(self.ranks)

    def drop_demand(self, demand: Demand) -> None:
        """A demand waits no longer."""
        if demand.only_wake:
            self.sleepers.pop(demand, None)
            self.always_woken.pop(demand, None)
        elif self.ranks is None:
            self.demands.pop(demand, None)
        else:
            for line in self.ranks.values():
                line.pop(demand, None)
            self._find_demands(self.ranks)

    def _find_demands(self, ranks: dict[int, OrderedDict[Demand, None]]) -> None:
        for rank in [rank for rank, line in ranks.items() if rank and not line]:
            del ranks[rank]
        self.demands = ranks[max((r for r in ranks if ranks[r]), default=0)]
        if len(ranks) == 1:
            self.ranks = None

    def count_waiting(self, job: Job | Stub, step: int) -> None:
        """A job waits for its time, or does no longer."""
        if job.failures:
            self.retrying += step
        else:
            self.scheduled += step

    @property
    def live(self) -> int:
        """How many jobs are ready, waiting for their time, or run."""
        return self.size + self.backlog + self.leased + self.scheduled + self.retrying

    def has_demands(self) -> bool:
        """Whether anybody waits for its jobs."""
        return bool(self.demands or self.sleepers or self.always_woken)

    def is_idle(self) -> bool:
        """Whether it has no jobs, no workers, nobody who waits for it, and no settings."""
        in_use = self.live or self.dead or self.paused or self.servers or self.woken
        return not (in_use or self.has_demands())

    def clear(self) -> None:
        """Forget all jobs and settings; demands go on waiting."""
        self.forget_all()
        self.scheduled = self.retrying = self.dead = self.leased = 0
        self.listed = self.paused = False
        self.paused_until = NEVER


@dataclass(slots=True)
class Counted:
    """What queues count since the start, of several together."""

    pushed: int = 0
    done: int = 0
    failed: int = 0
    died: int = 0

    def add(self, queue: Queue) -> None:
        """One more queue."""
        self.pushed += queue.pushed
        self.done += queue.done
        self.failed += queue.failed
        self.died += queue.died


class Queues:
    """All queues by name, and what they take. Listed ones are checked now and then.

    `bytes_max` and `keys_max` are what queues and keys may take: they share some of their room.
    `supplied` has the queues whose windows the store has filled, the last one filled last. `idle`
    is how many queues were found idle. `forgotten` is what those counted that are gone.
    """

    def __init__(self, limits: Limits, changelog: Changelog, keys: Keys) -> None:
        self.by_name: dict[str, Queue] = {}
        self.windows = Windows()
        self.supplied: dict[Queue, None] = {}
        self.bytes = 0
        self.bytes_max = limits.queues_bytes
        self.keys_max = limits.keyed_bytes
        self.idle = 0
        self.forgotten = Counted()
        self._limits = limits
        self._settings = changelog.settings
        self._keys = keys
        self._new = 0
        self._checked: deque[Queue] = deque()

    def listed(self, name: str) -> Queue:
        """The queue of that name, made and listed if it is new."""
        queue = self.get_or_make(name)
        if not queue.listed:
            queue.listed = True
            self.save(queue)
            if not queue.checked:
                queue.checked = True
                self._new += 1
                self._checked.append(queue)
        return queue

    def list_all(self, *names: str) -> None:
        """Have these queues listed: all, or none and `TooMuch` if there are too many."""
        self.check_no_new(names)
        for name in names:
            self.listed(name)

    def get_or_make(self, name: str) -> Queue:
        """The queue of that name; one that nobody pushed to yet is not listed."""
        queue = self.by_name.get(name)
        if queue is None:
            queue = self.by_name[name] = Queue(name=name, windows=self.windows)
            self.bytes += queue_bytes(name)
        return queue

    def save(self, queue: Queue) -> None:
        """The store must hear of a queue's settings."""
        self._settings[queue.name] = QueueSetting(queue.name, queue.paused, queue.paused_until)

    def check_no_new(self, names: Iterable[str]) -> None:
        """Refuse names of queues that there are not yet, while there are too many."""
        if self.bytes >= self.bytes_max:
            for name in names:
                if name not in self.by_name:
                    raise TooMuch("there are too many queues; try again when some are empty")

    def share_room(self) -> None:
        """Queues beyond a quarter of what they may take share the room of keys with these."""
        limits = self._limits
        own = limits.queues_bytes // QUEUES_OWN
        room = own + max(limits.keyed_bytes - self._keys.bytes, 0)
        self.bytes_max = min(room, limits.queues_bytes)
        self.keys_max = limits.keyed_bytes - max(self.bytes - own, 0)

    def unlist(self, queue: Queue) -> None:
        """Forget a queue that has nothing in it; demands for its jobs go on waiting."""
        queue.listed = False
        self._settings[queue.name] = None
        self.drop_if_unused(queue)

    def drop_if_unused(self, queue: Queue) -> None:
        """Forget a queue that is not listed and that nobody waits for or serves."""
        if not (queue.listed or queue.servers or queue.woken or queue.has_demands()):
            del self.by_name[queue.name]
            self.forgotten.add(queue)
            self.bytes -= queue_bytes(queue.name)
            self._keys.forget_queue(queue.name)
            self.supplied.pop(queue, None)

    def is_overfull(self) -> bool:
        """Whether windows that the store has filled must be emptied for the one it filled last."""
        limits = self._limits
        most = limits.window_bytes + limits.supply_bytes
        return len(self.supplied) > 1 and self.windows.bytes_held > most

    def unlist_idle(self, now: Millis) -> None:
        """Check some of the listed queues, and forget those that have been idle for long."""
        limits = self._limits
        many = min(len(self._checked) // 4, CHECKS_MAX)
        checks = max(CHECKS, CHECKS_PER_NEW * self._new, many)
        self._new = 0
        for _ in range(min(checks, len(self._checked))):
            queue = self._checked.popleft()
            if queue.idle_since and not (queue.listed and queue.is_idle()):
                queue.idle_since = NEVER
                self.idle -= 1
            elif queue.idle_since and (
                self.idle > limits.idle_queues or now - queue.idle_since > limits.idle_queue_ms
            ):
                self.idle -= 1
                queue.checked = False
                self.unlist(queue)
                continue
            elif not queue.idle_since and queue.listed and queue.is_idle():
                queue.idle_since = now
                self.idle += 1
            queue.checked = queue.listed
            if queue.listed:
                self._checked.append(queue)
