"""The checker: from a history to a verdict, one class of violation for each promise.

The promises are the invariants of the server's consistency table. Every rule uses the bound that
favours the server, so that a violation is one: what was sent, answered and seen leaves no other
reading. It therefore misses what a live history cannot show; simulation, where times are exact,
is for that. O(n log n) in the number of events.

Rules about one job are here, rules about many (order, uniqueness, pause) in `history_order.py`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.prove import history_order
from tests.prove.events import Event, Rules
from tests.prove.history_index import NEVER, Index, JobHistory, rules_of

CLASSES: tuple[str, ...] = (
    "lost",  # accepted, and after a full drain never seen or never ended
    "ghost",  # refused, and delivered all the same
    "unexpected",  # delivered, and never offered
    "mangled",  # delivered with another body
    "two_leases",  # delivered while the run before it cannot have ended
    "unexplained_dup",  # delivered again, and nothing that allows it had happened
    "ran_after_ack",  # delivered to a fetch that began after the completion was accepted
    "double_completion",  # completions of two runs were accepted
    "stale_effect",  # a report by an earlier holder ended the run of a later one
    "fifo",  # overtaken by a later job of the same queue and priority
    "priority",  # overtaken by a less urgent job
    "early",  # delivered before its time
    "late",  # due, and the server said it had no work
    "unique",  # two live jobs with one key
    "result",  # a waiting client heard the end never, twice, or parts out of order
    "attempts",  # more runs than allowed, or a wrong count of failures told
    "delivered_while_paused",  # delivered from a paused queue, or after its removal
    "counters",  # the server's own sums do not add up, or contradict the history
)
_SAMPLES_PER_CLASS = 5


@dataclass(slots=True)
class Verdict:
    """How often each promise was broken, with a few examples of each."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    samples: dict[str, list[str]] = field(default_factory=dict)
    crossed: int = 0  # violations whose producer and consumer spoke different protocols (I18)
    accepted: int = 0  # jobs whose push was answered ok
    recovered: int = 0  # jobs whose push had an unknown outcome, and which turned up
    deliveries: int = 0
    crossings: int = 0  # deliveries to a worker of another protocol than the job's
    by_protocol: Counter[str] = field(default_factory=Counter)  # accepted jobs

    @property
    def ok(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """The classes with at least one violation."""
        return [kind for kind, count in self.counts.items() if count]

    def note(self, kind: str, record: JobHistory | None, detail: str) -> None:
        self.counts[kind] += 1
        if record is not None and record.pushes and record.deliveries:
            self.crossed += record.pushes[0].proto != record.deliveries[0].proto
        shown = self.samples.setdefault(kind, [])
        if len(shown) < _SAMPLES_PER_CLASS:
            shown.append(f"{kind}: {record.jid if record else '-'}: {detail}")

    @property
    def examples(self) -> list[str]:
        return [sample for samples in self.samples.values() for sample in samples]

    def figures(self, always: Iterable[str] = ()) -> str:
        """How often the named classes, and every broken one, occurred, and of how much."""
        shown = dict.fromkeys([*always, *self.broken])
        classes = " ".join(f"{kind}={self.counts[kind]}" for kind in shown)
        by_protocol = ",".join(f"{name}:{n}" for name, n in sorted(self.by_protocol.items()))
        return (
            f"acked={self.accepted} {classes} protocols={by_protocol} crossings={self.crossings}"
            f" deliveries={self.deliveries} recovered={self.recovered}"
        )


def check(events: Iterable[Event], *, drained: bool, rules: Rules | None = None) -> Verdict:
    """Judge a history. `drained` promises that every queue was served until empty, and every
    lease that nobody ended had time to run out and its job to come back."""
    index, rules, verdict = Index(events), rules or Rules(), Verdict()
    settled = 0
    for record in index.records.values():
        judge = _Judge(index, rules, drained, verdict, record)
        judge.judge()
        settled += bool(judge.settled)
    for kind, jid, detail in history_order.violations(index, rules):
        verdict.note(kind, index.records.get(jid), detail)
    _check_counters(index, drained, verdict, settled)
    return verdict


@dataclass
class _Judge:
    """Holds one job's record against the promises."""

    index: Index
    rules: Rules
    drained: bool
    verdict: Verdict
    record: JobHistory

    def __post_init__(self) -> None:
        self.runs = self.record.deliveries
        self.settled = self._settled()

    def judge(self) -> None:
        record, verdict = self.record, self.verdict
        verdict.deliveries += len(self.runs)
        if record.pushes:
            own = record.pushes[0].proto
            verdict.crossings += sum(run.proto != own for run in self.runs)
            if any(push.out == "ok" for push in record.pushes):
                verdict.accepted += 1
                verdict.by_protocol[own] += 1
        if self._has_origin():
            self._bodies_and_times()
            self._redeliveries(self._completions())
            self._refused_reports()
            if record.copies == 1 and not any(end.op == "release" for end in record.ends):
                self._attempts()
            for conn in {push.conn for push in record.pushes if push.waits and push.out == "ok"}:
                self._results(conn)
            if self.drained and self._is_lost():
                runs = f"{len(self.runs)} runs, none completed" if self.runs else "never seen"
                self._note("lost", runs)

    def _note(self, kind: str, detail: str) -> None:
        self.verdict.note(kind, self.record, detail)

    def _over(self, run: Event, *, reports: bool = True) -> float:
        return self.index.lease_over(self.record, run, reports=reports)

    # -- I2, I3, I11 -----------------------------------------------------------------------

    def _has_origin(self) -> bool:
        """Whether its deliveries, if any, come from a push; what does not is judged no further."""
        possible = self.record.possible
        if not self.runs:
            return True
        if not self.record.pushes:
            self._note("unexpected", "never pushed")
        elif not possible:
            self._note("ghost", "its push was refused")
        elif min(push.t0 for push in possible) > self.runs[0].t1:
            self._note("unexpected", "delivered before it was pushed")
        else:
            self.verdict.recovered += all(push.out == "maybe" for push in possible)
            return True
        return False

    def _bodies_and_times(self) -> None:
        bodies = {push.body for push in self.record.possible}
        # One that has no time of its own may come at once.
        due = min((push.at or 0.0 for push in self.record.possible), default=0.0)
        for run in self.runs:
            if run.body and "" not in bodies and bodies and run.body not in bodies:
                self._note("mangled", f"{run.body} is none of {sorted(bodies)}")
            if run.t1 < due - self.rules.epsilon:
                self._note("early", f"{due - run.t1:.3f} s too early")

    # -- I6, I7 ----------------------------------------------------------------------------

    def _settled(self) -> dict[int, float]:
        """The runs that were surely completed, by identity, and when that was answered."""
        record, settled = self.record, dict[int, float]()
        # A removed job's ack is answered like any other, and means nothing.
        for ack in () if record.removes else record.ends:
            if not record.is_end(ack) or ack.out != "ok" or not self.index.lasts(ack):
                continue
            if record.volatile and self.index.restarts.since(ack.t0) < NEVER:
                continue  # forgotten with the job, which its client may have asked for again
            run = record.last_delivery_to(ack.holder, ack.t0)
            if run is None:
                continue
            # Who runs another protocol's volatile job need not be told that its time is over.
            crossed = record.volatile and any(p.proto != ack.proto for p in record.pushes[:1])
            if (rules_of(ack.proto).ack_tells and not crossed) or self._held(run, ack):
                settled[id(run)] = min(settled.get(id(run), NEVER), ack.t1)
        return settled

    def _held(self, run: Event, report: Event) -> bool:
        """Whether the reporter surely still held its lease when the report was answered."""
        return self._over(run) > report.t1 and not self._is_followed(run, report)

    def _is_followed(self, run: Event, report: Event) -> bool:
        """Whether another run may have begun by the time that a report was answered."""
        others = (other for other in self.runs if other is not run)
        return any(other.t1 > run.t1 and other.t0 < report.t1 for other in others)

    def _completions(self) -> set[int]:
        """Note what ran after its end; the identities of those runs, which need no second verdict."""
        ended, copies = sorted(self.settled.values()), self.record.copies
        again: set[int] = set()
        if len(ended) >= copies > 0:
            final = ended[copies - 1]
            late = [run for run in self.runs if run.t0 > final]
            again = {id(run) for run in late}
            for run in late:
                self._note("ran_after_ack", f"{run.t0 - final:.3f} s after")
        extra = len(self.settled.keys() - again) - copies
        for _ in range(extra if copies else 0):
            self._note("double_completion", "completions of two runs were accepted")
        return again

    # -- I4, I5, I8 ------------------------------------------------------------------------

    def _redeliveries(self, again: set[int]) -> None:
        """Each run is the first of a job, or follows one that can have ended.

        Each further push with this jid may have made a job of its own: then there are several
        rows of runs, and a run need not follow the one right before it.
        """
        rows: list[Event] = []  # the last run of each, the latest of them last
        for run in (run for run in self.runs if id(run) not in again):
            place = next((i for i, last in enumerate(rows) if self._may_follow(last, run)), None)
            if place is None and rows and len(rows) >= self.record.copies:
                self._note(*self._why_not(rows[-1], run))
                place = -1
            if place is not None:
                del rows[place]
            rows.append(run)

    def _may_follow(self, before: Event, run: Event) -> bool:
        # Two fetches that overlap may have been granted in the other order.
        overlap = run.t0 < before.t1
        return self._over(before) <= run.t1 or (overlap and self._over(run) <= before.t1)

    def _why_not(self, before: Event, run: Event) -> tuple[str, str]:
        gap = f"again after {run.t1 - before.t0:.3f} s"
        if self._has_stale_report(before, run.t1):
            return "stale_effect", f"{gap}, following an earlier holder's report"
        acks = [end for end in self.record.ends if end.op == "ack" and end.holder == before.holder]
        if any(before.t0 <= ack.t0 < run.t1 for ack in acks) or self._over(before) == NEVER:
            return "unexplained_dup", f"{gap}, no expiry, failure, close or restart"
        return "two_leases", f"{gap}, the lease before it cannot have ended"

    def _has_stale_report(self, current: Event, until: float) -> bool:
        """Whether a holder of an earlier run made a report while `current` ran."""
        said = [end for end in self.record.ends if end.out != "no" and end.op != "release"]
        others = [end for end in said if end.holder != current.holder]
        meanwhile = [end for end in others if current.t0 < end.t1 and end.t0 < until]
        earlier = [self.record.last_delivery_to(end.holder, end.t0) for end in meanwhile]
        return any(run is not None and run.t1 < current.t1 for run in earlier)

    def _refused_reports(self) -> None:
        """A holder refused although its lease lived: somebody else's report ended it."""
        ends = () if self.record.removes else self.record.ends
        for end in ends:
            if end.out != "no" or end.op == "release":
                continue
            run = self.record.last_delivery_to(end.holder, end.t0)
            if run is None or not self._held(run, end):
                continue
            own = [e for e in ends if e is not end and e.holder == end.holder and e.out != "no"]
            repeated = any(run.t1 <= other.t0 < end.t1 for other in own)
            if self._has_stale_report(run, end.t1) and not repeated:
                self._note("stale_effect", f"the holder's {end.op} was refused")

    # -- I15 -------------------------------------------------------------------------------

    def _attempts(self) -> None:
        failed = list(self._sure_failures())
        retry = self.record.retry
        for place, run in enumerate(self.runs):
            sure = sum(moment < run.t0 for moment in failed)
            # Runs that nobody saw may have failed too.
            most = place + self.index.hidden.begun_by(run.t1)
            if retry is not None and sure > max(retry, 0):
                self._note("attempts", f"run after {sure} failures, retry={retry}")
            elif run.attempt is not None and not sure <= run.attempt <= most:
                self._note("attempts", f"told {run.attempt} failures, {sure} seen")

    def _sure_failures(self) -> Iterator[float]:
        """When each failure that surely counted had been taken note of."""
        for end in self.record.ends:
            run = self.record.last_delivery_to(end.holder, end.t0)
            if run is None or end.op != "fail" or end.out != "ok" or not self.index.lasts(end):
                continue
            if self._over(run, reports=False) > end.t1 and not self._is_followed(run, end):
                yield end.t1
        for run, after in pairwise(self.runs):
            if self.record.peer_rules.expiry_fails and self._only_expired(run, after):
                yield after.t0 - self.rules.epsilon

    def _only_expired(self, run: Event, after: Event) -> bool:
        said = any(end.holder == run.holder and end.t0 >= run.t0 for end in self.record.ends)
        closed = self.index.closed_from(run.conn, run.t0) < after.t1
        restarted = self.index.restarts.since(run.t0) < after.t1
        reserve = run.reserve if run.reserve is not None else self.record.reserve
        expired = reserve is not None and run.t0 + reserve <= after.t1
        return expired and not (said or closed or restarted)

    # -- I14 -------------------------------------------------------------------------------

    def _results(self, conn: str) -> None:
        record = self.record
        asked = [p for p in record.pushes if p.conn == conn and p.waits and p.out != "no"]
        heard = sum(r.conn == conn and r.out == "ok" for r in record.results)
        if heard > len(asked):
            self._note("result", f"{conn} heard the end {heard} times")
        stayed = self.index.closed_from(conn, 0.0) == NEVER
        served = self.index.restarts.since(asked[0].t0) == NEVER
        if self.drained and self.settled and stayed and served and heard == 0:
            self._note("result", f"{conn} never heard the end")
        parts = [p.seq for p in record.parts if p.conn == conn and p.seq is not None]
        if len(self.runs) == 1 and parts != sorted(set(parts)):
            self._note("result", f"{conn} heard parts in the order {parts}")

    # -- I1 --------------------------------------------------------------------------------

    def _is_lost(self) -> bool:
        """Whether it was accepted, and nothing is known that may have ended it."""
        record = self.record
        accepted = [push for push in record.pushes if push.out == "ok"]
        ended = any(record.is_end(end) and end.out != "no" for end in record.ends)
        # Who waited for it heard its end, whatever it was.
        heard = any(result.out == "ok" for result in record.results)
        ahead = any(push.at is not None and push.at > self.index.horizon for push in accepted)
        if not accepted or ended or heard or ahead or self._taken_away() or self._given_up():
            return False
        return not all(push.volatile and self._is_abandoned(push) for push in accepted)

    def _taken_away(self) -> bool:
        removes = [r for r in (*self.record.removes, *self.index.queue_removes) if r.out != "no"]
        return any(
            remove.jid or (remove.queue in ("*", push.queue) and push.t0 < remove.t1)
            for remove in removes
            for push in self.record.possible
        )

    def _given_up(self) -> bool:
        """Whether the runs that were seen may have used up what the job was allowed."""
        failed = any(end.op == "fail" and end.out != "no" for end in self.record.ends)
        if self.record.retry is not None:
            allowed = max(self.record.retry, 0) + 1
        else:
            allowed = 1 if failed else self.rules.losses_max
        unseen = self.index.hidden.begun_by(NEVER) > 0 and allowed == 1
        return len(self.runs) + unseen >= min(allowed, self.rules.losses_max)

    def _is_abandoned(self, push: Event) -> bool:
        gone = self.index.closed_from(push.conn, push.t0)
        return min(gone, self.index.restarts.since(push.t0)) != NEVER


# -- I17 -----------------------------------------------------------------------------------


def _check_counters(index: Index, drained: bool, verdict: Verdict, settled: int) -> None:
    """Hold what the server counted against itself and against the history."""
    records = index.records.values()
    stored = [any(p.out == "ok" and not p.volatile for p in record.pushes) for record in records]
    acks = [end for record in records for end in record.ends if end.op == "ack" and end.out != "no"]
    possible = sum(len(record.possible) for record in records)
    bounds = {"pushed": (sum(stored), possible), "done": (settled, len(acks))}
    for count in index.of["count"]:
        tally = count.tally or {}
        ends = [tally[key] for key in ("done", "dead", "discarded", "removed") if key in tally]
        balanced = "pushed" not in tally or len(ends) < 4 or tally["pushed"] == sum(ends)
        if drained and not balanced:
            verdict.note("counters", None, f"pushed={tally['pushed']}, ended={sum(ends)}")
            continue
        for key, (least, most) in bounds.items():
            if key in tally and not least <= tally[key] <= most:
                verdict.note("counters", None, f"{key}={tally[key]}, seen {least} to {most}")
