"""Workers over HTTP: who was seen lately, what each was asked, and whose requests wait for a job.

Such a worker is a name that leases are asked for with: no connection stands for it. What it was
asked, to take no more jobs (`quiet`) or to leave (`stop`), is remembered with its name, in memory
only. It is forgotten when a process says that it has just begun, when nothing was heard of the name
for a minute and it runs nothing, and after a day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Literal

from msgspec import Struct, field

from franca.core.broker import Broker
from franca.core.events import Event, Granted, Unmet
from franca.core.leases import Leases
from franca.core.model import NEVER, Job, Millis, Session
from franca.protocols.numbers import REST, name_of
from franca.protocols.service import WorkerView, runs_of, state_of
from franca.protocols.tokens import holder_prefix, worker_in

PROTOCOL: Final = name_of(REST)
NAMES_MAX: Final = 10_000
"""Names that are remembered; the one that was not heard of for longest is forgotten first."""
SILENT_MS: Final = 60_000
"""A worker that was not heard of for longer, and runs nothing, is gone."""
ASKED_MS: Final = 24 * 3_600_000
QUEUES_KEPT: Final = 8
QUEUES_CHARS: Final = 256
"""Of the queues that a worker asks for, so many are shown while it runs nothing."""
_HOLDERS: Final = holder_prefix(PROTOCOL)

What = Literal["quiet", "stop"]
"""What a worker may be asked. Who was asked to stop is not asked to be quiet any more."""
Held = dict[str, list[Job]]
"""Running jobs by the names of their workers."""


class Waiting:
    """Hears what becomes of one request for a job. It has a session while it demands one."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()
        self.session: Session | None = None

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """The demand is met, or its time is over."""
        if isinstance(event, Granted | Unmet):
            self.give(event.job if isinstance(event, Granted) else None)

    def give(self, job: Job | None) -> None:
        """This is the answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(job)

    def end(self, broker: Broker) -> None:
        """Wait no longer. A job that is on its way is still given."""
        demands = [] if self.session is None else list(self.session.demands)
        for demand in demands:
            broker.withdraw(demand)
        if demands or self.session is None:
            self.give(None)


class _Worker(Struct, eq=False):
    """A name, as it was heard of last. `told` is what a lease's answer has told it."""

    name: str
    since: Millis
    seen_at: Millis
    fetched_at: Millis = NEVER
    queues: list[str] = []
    asked: What | None = None
    asked_at: Millis = NEVER
    told: What | None = None
    waits: set[Waiting] = field(default_factory=set)


class HttpWorkers:
    """All of them, in the order in which they were heard of last."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Worker] = {}

    # -- what workers say -------------------------------------------------------------------------

    def fetches(
        self, name: str, queues: list[str], leases: Leases, now: Millis, *, is_new: bool
    ) -> tuple[What | None, bool]:
        """A worker asks for a job. What it was asked, and whether a lease has told it that."""
        if not name:
            return None, False
        one = self._heard(name, now)
        if is_new:
            one.asked, one.since = None, now
        self._forget_asked(one, leases, now)
        one.seen_at = one.fetched_at = now
        one.queues = _some(queues)
        return one.asked, one.told == one.asked

    def reports(self, name: str, now: Millis) -> What | None:
        """A worker says something of a job that it runs. What it was asked."""
        one = self._by_name.get(name)
        if one is None:
            return None
        self._heard(name, now).seen_at = now
        return one.asked

    def tell(self, name: str) -> What | None:
        """What this worker was asked, which it is told now in the answer to a lease."""
        one = self._by_name.get(name)
        if one is None:
            return None
        one.told = one.asked
        return one.asked

    def begin_wait(self, name: str, waiting: Waiting) -> None:
        """A request of this worker waits for a job."""
        if name in self._by_name:
            self._by_name[name].waits.add(waiting)

    def end_wait(self, name: str, waiting: Waiting) -> None:
        """It waits no longer."""
        if name in self._by_name:
            self._by_name[name].waits.discard(waiting)

    def _heard(self, name: str, now: Millis) -> _Worker:
        one = self._by_name.pop(name, None) or _Worker(name, now, now)
        self._by_name[name] = one
        if len(self._by_name) > NAMES_MAX:
            del self._by_name[next(iter(self._by_name))]
        return one

    def _forget_asked(self, one: _Worker, leases: Leases, now: Millis) -> None:
        """Forget what was asked so long ago that it was another process, as far as is known."""
        if one.asked is None:
            return
        is_other = self._is_gone(one, now) and one.name not in held_by(leases)
        if is_other or now - one.asked_at > ASKED_MS:
            one.asked = None

    # -- what operators ask -----------------------------------------------------------------------

    def ask(
        self, name: str, what: What, broker: Broker, held: Callable[[], Held], now: Millis
    ) -> bool:
        """Ask a worker to be `quiet` or to `stop`; False if there is none of this name."""
        one = self._by_name.get(name)
        if (one is None or self._is_gone(one, now)) and name not in held():
            return False
        one = self._by_name.get(name) or self._heard(name, now)
        one.asked = "stop" if one.asked == "stop" else what
        one.asked_at, one.told = now, None
        for waiting in one.waits:
            waiting.end(broker)
        return True

    def _is_gone(self, one: _Worker, now: Millis) -> bool:
        """Whether nothing was heard of it for long; it may run a job all the same."""
        return now - one.seen_at > SILENT_MS and not one.waits

    def views(self, leases: Leases, now: Millis) -> Iterator[WorkerView]:
        """Those who run a job, wait for one, or were heard of lately; by their names."""
        held = held_by(leases)
        here = [name for name, one in self._by_name.items() if not self._is_gone(one, now)]
        # One without a name is only there while it runs a job.
        named = [name for name in here if not name.startswith(_HOLDERS)]
        names = list(dict.fromkeys([*held, *named]))
        return (_view(name, held.get(name, []), self._by_name.get(name), now) for name in names)


def held_by(leases: Leases) -> Held:
    """What workers over HTTP run, by what they call themselves."""
    held: Held = {}
    for holder, jobs in leases.by_holder().items():
        if holder.startswith(_HOLDERS):
            held.setdefault(worker_in(holder), []).extend(jobs.values())
    return held


def _view(name: str, jobs: list[Job], one: _Worker | None, now: Millis) -> WorkerView:
    began = [job.started_at for job in jobs]
    if one is None:  # it took its jobs before the server was started, or was forgotten
        one = _Worker(name, min(began, default=now), max(began, default=now))
        one.fetched_at = one.seen_at
    running = runs_of(jobs)
    return WorkerView(
        name=name,
        protocol=PROTOCOL,
        host="",
        state=state_of(running, stopping=one.asked == "stop", quiet=one.asked == "quiet"),
        started_at=min([one.since, *began]),
        seen_at=max([one.seen_at, *began]),
        fetched_at=max([one.fetched_at, *began]),
        connections=len(one.waits),
        queues=sorted({job.queue for job in jobs}.union(one.queues)),
        running=running,
    )


def _some(queues: list[str]) -> list[str]:
    """As many of them as are remembered."""
    some: list[str] = []
    room = QUEUES_CHARS
    for queue in queues[:QUEUES_KEPT]:
        room -= len(queue)
        if room < 0:
            break
        some.append(queue)
    return some
