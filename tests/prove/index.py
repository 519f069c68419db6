"""A history sorted for questions: by job, by connection, by queue, by time.

Nothing is judged here except one bound that every rule needs: when a lease may have ended
at the earliest. Where the history leaves room, it is given to the server.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from tests.prove.events import HABITS, Event, Habits

NEVER = float("inf")


class Spans:
    """Intervals of time, asked only whether one of them touches a given one."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._latest_ends = list(accumulate((end for _, end in ordered), max))

    def touch(self, start: float, end: float) -> bool:
        """Whether any of them and [start, end] have a moment in common."""
        before = bisect_right(self._starts, end)
        return before > 0 and self._latest_ends[before - 1] >= start

    def begun_by(self, moment: float) -> int:
        """How many of them had begun by `moment`."""
        return bisect_right(self._starts, moment)


class Moments:
    """Events of one kind, asked for the first that was not over by a given moment."""

    def __init__(self, events: Iterable[Event]) -> None:
        ordered = sorted(events, key=lambda event: event.t1)
        self._ends = [event.t1 for event in ordered]
        starts = [event.t0 for event in ordered]
        self._earliest_starts = list(accumulate(reversed(starts), min))[::-1]

    def first_from(self, moment: float) -> float:
        """The earliest start among those that ended at `moment` or later; NEVER if there is none."""
        index = bisect_left(self._ends, moment)
        return self._earliest_starts[index] if index < len(self._ends) else NEVER


class Promises:
    """Answers that left only once all that had been done before was on the disk."""

    def __init__(self, events: Iterable[Event]) -> None:
        ordered = sorted(events, key=lambda event: event.t0)
        self._starts = [event.t0 for event in ordered]
        ends = [event.t1 for event in ordered]
        self._earliest_ends = list(accumulate(reversed(ends), min))[::-1]

    def first_by(self, moment: float) -> float:
        """By when everything that was done before `moment` was surely on the disk."""
        index = bisect_left(self._starts, moment)
        return self._earliest_ends[index] if index < len(self._starts) else NEVER


@dataclass(slots=True)
class JobStory:
    """All that happened to one jid. `deliveries` are in the order in which they arrived."""

    jid: str
    pushes: list[Event] = field(default_factory=list)
    deliveries: list[Event] = field(default_factory=list)
    ends: list[Event] = field(default_factory=list)  # ack, fail, release
    removes: list[Event] = field(default_factory=list)
    results: list[Event] = field(default_factory=list)
    parts: list[Event] = field(default_factory=list)  # data

    # What follows from the pushes, set once by `close`.
    possible: list[Event] = field(default_factory=list)  # those that may have made a job
    copies: int = 0  # how many jobs may bear this jid: a repeated push may make another or not
    reserve: float | None = None  # the shortest lease any of them asked for
    retry: int | None = None  # the most retries any of them asked for

    def close(self) -> None:
        """All is in: put it in order and draw the bounds."""
        self.deliveries.sort(key=lambda delivery: delivery.t1)
        self.possible = [push for push in self.pushes if push.out != "no"]
        self.copies = len(self.possible)
        if any(push.unique for push in self.possible):
            # A push with a key joins or is refused, unless the job before it had ended.
            ended = min((end.t0 for end in self.ends if end.out != "no"), default=NEVER)
            self.copies = 1 + sum(push.t1 >= ended for push in self.possible)
        reserves = [push.reserve for push in self.possible if push.reserve is not None]
        self.reserve = min(reserves, default=None)
        retries = [push.retry for push in self.possible if push.retry is not None]
        self.retry = max(retries, default=None)

    @property
    def habits(self) -> Habits:
        """Those of the protocol in which it was submitted."""
        return HABITS[self.pushes[0].proto if self.pushes else ""]

    @property
    def volatile(self) -> bool:
        """Whether nothing of it is on the disk."""
        return all(push.volatile for push in self.pushes)

    def is_end(self, event: Event) -> bool:
        """Whether a report of this kind ends the job for good."""
        return event.op == "ack" or (event.op == "fail" and self.habits.fail_ends)

    @property
    def sole_push(self) -> Event | None:
        """The accepted push, when it is the only one of this jid."""
        only = len(self.pushes) == 1 and self.pushes[0].out == "ok"
        return self.pushes[0] if only else None

    def last_delivery_to(self, holder: str, moment: float) -> Event | None:
        """The run that a report made by `holder` at `moment` speaks of."""
        for delivery in reversed(self.deliveries):
            if delivery.holder == holder and delivery.t1 <= moment:
                return delivery
        return None


class Index:
    """One history, read once."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.stories: dict[str, JobStory] = {}
        self.empty_fetches: list[Event] = []
        self.counts: list[Event] = []
        self.pauses: dict[str, list[Event]] = defaultdict(list)
        self.resumes: dict[str, list[Event]] = defaultdict(list)
        self.queue_removes: list[Event] = []
        self.horizon = 0.0
        self._closes: dict[str, list[Event]] = defaultdict(list)
        self._restarts: list[Event] = []
        self._lost_fetches: list[Event] = []
        self._consumers: set[str] = set()
        self._promises: list[Event] = []
        for event in events:
            self.horizon = max(self.horizon, event.t1)
            self._sort_in(event)
        self._finish()

    def story(self, jid: str) -> JobStory:
        found = self.stories.get(jid)
        if found is None:
            found = self.stories[jid] = JobStory(jid)
        return found

    # -- the one bound ---------------------------------------------------------------------

    def lease_over(self, story: JobStory, delivery: Event, *, reports: bool = True) -> float:
        """The earliest moment at which this run may have ended so that the job may run again.

        Expiry is counted from the moment before the fetch was sent; a FAIL and a close from before
        they were said. With `reports` off, only what the holder did not report itself.
        """
        grace = HABITS[delivery.proto].grace
        over = min(
            self.closed_from(delivery.conn, delivery.t0) + grace,
            # What is not on the disk is forgotten in a restart, leases and all.
            self.restarts.first_from(delivery.t0) + (0.0 if story.volatile else grace),
        )
        # A worker may be told a time that the job itself does not have.
        reserve = delivery.reserve if delivery.reserve is not None else story.reserve
        if reserve is not None:
            over = min(over, delivery.t0 + reserve)
        if reports:
            for end in story.ends:
                if not story.is_end(end) and self._puts_back(end, delivery):
                    over = min(over, end.t0)
        return over

    @staticmethod
    def _puts_back(end: Event, delivery: Event) -> bool:
        if end.out == "no" or end.t1 < delivery.t0:
            return False
        # An operator's release needs no lease; a worker's FAIL is good for its own run only.
        return end.op == "release" or (end.op == "fail" and end.holder == delivery.holder)

    def lasts(self, end: Event) -> bool:
        """Whether no restart can have undone what this report was told."""
        if HABITS[end.proto].ack_lasts:
            return True
        return self.promises.first_by(end.t1) <= self.restarts.first_from(end.t1)

    def closed_from(self, conn: str, moment: float) -> float:
        """When this connection may have ended, seen from `moment` on."""
        closes = self._closes.get(conn)
        if not closes:
            return NEVER
        return min((close.t0 for close in closes if close.t1 >= moment), default=NEVER)

    # -- inside ----------------------------------------------------------------------------

    def _sort_in(self, event: Event) -> None:
        match event.op:
            case "push":
                self.story(event.jid).pushes.append(event)
                if event.out == "ok" and not event.volatile:
                    self._promises.append(event)
            case "fetch":
                self._sort_in_fetch(event)
            case "ack" | "fail" | "release":
                self.story(event.jid).ends.append(event)
            case "result":
                self.story(event.jid).results.append(event)
            case "data":
                self.story(event.jid).parts.append(event)
            case "remove" if event.jid:
                self.story(event.jid).removes.append(event)
            case "remove":
                self.queue_removes.append(event)
            case "pause":
                self.pauses[event.queue].append(event)
            case "resume":
                self.resumes[event.queue].append(event)
            case "close":
                self._closes[event.conn].append(event)
            case "restart":
                self._restarts.append(event)
            case "count":
                self.counts.append(event)

    def _sort_in_fetch(self, event: Event) -> None:
        self._consumers.add(event.conn)
        if event.out == "maybe":
            self._lost_fetches.append(event)
        elif event.out == "no":
            self.empty_fetches.append(event)
        else:
            self.story(event.jid).deliveries.append(event)

    def _finish(self) -> None:
        for story in self.stories.values():
            story.close()
        self.restarts = Moments(self._restarts)
        self.promises = Promises(self._promises)
        # A fetch whose answer was lost may have leased a job that nobody saw.
        self.hidden = Spans((fetch.t0, fetch.t1) for fetch in self._lost_fetches)
        disturbing = [*self._lost_fetches, *self._restarts, *self.queue_removes]
        disturbing += [
            close
            for conn, closes in self._closes.items()
            if conn in self._consumers
            for close in closes
        ]
        spans = [(event.t0, event.t1) for event in disturbing]
        for queue, pauses in self.pauses.items():
            spans += [(pause.t0, self._paused_until(queue, pause)) for pause in pauses]
        self.disturbances = Spans(spans)

    def _paused_until(self, queue: str, pause: Event) -> float:
        resumes = self.resumes.get(queue, [])
        return min((resume.t1 for resume in resumes if resume.t0 >= pause.t1), default=NEVER)

    restarts: Moments
    promises: Promises
    hidden: Spans
    disturbances: Spans
