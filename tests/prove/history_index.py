"""A history sorted for questions: by job, by connection, by queue, by time.

Nothing is judged here except one bound that every rule needs: when a lease may have ended
at the earliest. Where the history leaves room, it is given to the server.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from tests.prove.events import Event
from tests.support.peer import PeerRules
from tests.support.protocols import PEERS

NEVER = float("inf")
# `core`: a harness inside the process, which sees what the broker itself answered.
_RULES = {"core": PeerRules(grace=60.0, ack_tells=True, expiry_fails=True)}
_RULES |= {name: one for kind in PEERS.values() for name, one in kind.behaviour.peer_rules.items()}


def rules_of(protocol: str) -> PeerRules:
    return _RULES.get(protocol, PeerRules())


class Least:
    """Pairs of moments, asked for the least second one among those whose first is not before a moment."""

    def __init__(self, pairs: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(pairs)
        self._firsts = [first for first, _ in ordered]
        backwards = accumulate((second for _, second in reversed(ordered)), min, initial=NEVER)
        self._least = list(backwards)[::-1]

    def since(self, moment: float) -> float:
        """NEVER if there is none."""
        return self._least[bisect_left(self._firsts, moment)]

    def after(self, moment: float) -> float:
        """The same of those whose first moment is later."""
        return self._least[bisect_right(self._firsts, moment)]


def starts_by_end(events: Iterable[Event]) -> Least:
    """When the first of the events began that were not over by a moment."""
    return Least((event.t1, event.t0) for event in events)


def ends_by_start(events: Iterable[Event]) -> Least:
    """When the first of the events was over that had not begun by a moment."""
    return Least((event.t0, event.t1) for event in events)


class Spans:
    """Intervals of time, asked only whether one of them touches a given one."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._latest_ends = list(accumulate((end for _, end in ordered), max))

    def touch(self, start: float, end: float) -> bool:
        """Whether any of them and [start, end] have a moment in common."""
        before = self.begun_by(end)
        return before > 0 and self._latest_ends[before - 1] >= start

    def begun_by(self, moment: float) -> int:
        """How many of them had begun by `moment`."""
        return bisect_right(self._starts, moment)


@dataclass(slots=True)
class JobHistory:
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
        self.possible = possible = [push for push in self.pushes if push.out != "no"]
        self.copies = len(possible)
        if any(push.unique for push in possible):
            # A push with a key joins or is refused, unless the job before it had ended.
            ended = min((end.t0 for end in self.ends if end.out != "no"), default=NEVER)
            self.copies = 1 + sum(push.t1 >= ended for push in possible)
        self.reserve = min((p.reserve for p in possible if p.reserve is not None), default=None)
        self.retry = max((p.retry for p in possible if p.retry is not None), default=None)

    @property
    def peer_rules(self) -> PeerRules:
        """Those of the protocol in which it was submitted."""
        return rules_of(self.pushes[0].proto if self.pushes else "")

    @property
    def volatile(self) -> bool:
        """Whether nothing of it is on the disk."""
        return all(push.volatile for push in self.pushes)

    def is_end(self, event: Event) -> bool:
        """Whether a report of this kind ends the job for good."""
        return event.op == "ack" or (event.op == "fail" and self.peer_rules.fail_ends)

    @property
    def sole_push(self) -> Event | None:
        """The accepted push, when it is the only one of this jid."""
        return self.pushes[0] if [push.out for push in self.pushes] == ["ok"] else None

    def last_delivery_to(self, holder: str, moment: float) -> Event | None:
        """The run that a report made by `holder` at `moment` speaks of."""
        runs = (d for d in reversed(self.deliveries) if d.holder == holder and d.t1 <= moment)
        return next(runs, None)


_PARTS = {
    "push": "pushes", "fetch": "deliveries", "ack": "ends", "fail": "ends", "release": "ends",
    "remove": "removes", "result": "results", "data": "parts",
}  # fmt: skip
"""Which list of a job's record takes events of a kind."""


class Index:
    """One history, read once."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.records: dict[str, JobHistory] = {}
        self.of: dict[str, list[Event]] = defaultdict(list)  # by op
        self.horizon = 0.0
        for event in events:
            self.horizon = max(self.horizon, event.t1)
            self.of[event.op].append(event)
            about_a_job = event.jid if event.op == "remove" else event.op in _PARTS
            if about_a_job and (event.op != "fetch" or event.out == "ok"):
                record = self.records.get(event.jid)
                if record is None:
                    record = self.records[event.jid] = JobHistory(event.jid)
                getattr(record, _PARTS[event.op]).append(event)
        for record in self.records.values():
            record.close()
        self.queue_removes = [remove for remove in self.of["remove"] if not remove.jid]
        self.restarts = starts_by_end(self.of["restart"])
        # Answers that left only once all that had been done before was on the disk.
        promises = [push for push in self.of["push"] if push.out == "ok" and not push.volatile]
        self._promises = ends_by_start(promises)
        closes: dict[str, list[Event]] = defaultdict(list)
        for close in self.of["close"]:
            closes[close.conn].append(close)
        self._closes = {conn: starts_by_end(of_one) for conn, of_one in closes.items()}
        # A fetch whose answer was lost may have leased a job that nobody saw.
        lost = [fetch for fetch in self.of["fetch"] if fetch.out == "maybe"]
        self.hidden = Spans((fetch.t0, fetch.t1) for fetch in lost)
        consumers = {fetch.conn for fetch in self.of["fetch"]}
        gone = [close for conn in consumers & closes.keys() for close in closes[conn]]
        disturbing = [*lost, *gone, *self.of["restart"], *self.queue_removes]
        spans = [(event.t0, event.t1) for event in disturbing]
        for pause in self.of["pause"]:
            resumes = [resume for resume in self.of["resume"] if resume.queue == pause.queue]
            spans.append((pause.t0, ends_by_start(resumes).since(pause.t1)))
        self.disturbances = Spans(spans)

    # -- the one bound ---------------------------------------------------------------------

    def lease_over(self, record: JobHistory, delivery: Event, *, reports: bool = True) -> float:
        """The earliest moment at which this run may have ended so that the job may run again.

        Expiry is counted from the moment before the fetch was sent; a FAIL and a close from before
        they were said. With `reports` off, only what the holder did not report itself.
        """
        grace = rules_of(delivery.proto).grace
        over = min(
            self.closed_from(delivery.conn, delivery.t0) + grace,
            # What is not on the disk is forgotten in a restart, leases and all.
            self.restarts.since(delivery.t0) + (0.0 if record.volatile else grace),
        )
        # A worker may be told a time that the job itself does not have.
        reserve = delivery.reserve if delivery.reserve is not None else record.reserve
        if reserve is not None:
            over = min(over, delivery.t0 + reserve)
        for end in record.ends if reports else ():
            if end.out == "no" or end.t1 < delivery.t0 or record.is_end(end):
                continue
            # An operator's release needs no lease; a worker's FAIL is good for its own run only.
            if end.op == "release" or (end.op == "fail" and end.holder == delivery.holder):
                over = min(over, end.t0)
        return over

    def lasts(self, end: Event) -> bool:
        """Whether no restart can have undone what this report was told."""
        on_the_disk = rules_of(end.proto).ack_lasts
        return on_the_disk or self._promises.since(end.t1) <= self.restarts.since(end.t1)

    def closed_from(self, conn: str, moment: float) -> float:
        """When this connection may have ended, seen from `moment` on."""
        closes = self._closes.get(conn)
        return NEVER if closes is None else closes.since(moment)
