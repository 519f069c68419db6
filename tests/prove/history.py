"""The checker: from a history to a verdict, one class of violation for each promise.

The promises are the invariants of the server's consistency table. Every rule uses the bound that
favours the server, so that a violation is one: what was sent, answered and seen leaves no other
reading. It therefore misses what a live history cannot show; simulation, where times are exact,
is for that. O(n log n) in the number of events.

Rules about one job are here, rules about many (order, uniqueness, pause) in `between_jobs.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.prove import between_jobs
from tests.prove.events import HABITS, Event, Rules
from tests.prove.index import NEVER, Index, JobStory

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
        return not any(self.counts.values())

    @property
    def broken(self) -> list[str]:
        """The classes with at least one violation."""
        return [kind for kind, count in self.counts.items() if count]

    def note(self, kind: str, story: JobStory | None, detail: str) -> None:
        self.counts[kind] += 1
        if story is not None and story.pushes and story.deliveries:
            self.crossed += story.pushes[0].proto != story.deliveries[0].proto
        shown = self.samples.setdefault(kind, [])
        if len(shown) < _SAMPLES_PER_CLASS:
            shown.append(f"{kind}: {story.jid if story else '-'}: {detail}")

    @property
    def protocols(self) -> str:
        """How many jobs were accepted in each protocol."""
        return ",".join(f"{name}:{count}" for name, count in sorted(self.by_protocol.items()))

    def line(self, always: Iterable[str] = ()) -> str:
        """`class=count` for the named classes and for every broken one."""
        shown = dict.fromkeys([*always, *self.broken])
        return " ".join(f"{kind}={self.counts[kind]}" for kind in shown)


def check(events: Iterable[Event], *, drained: bool, rules: Rules | None = None) -> Verdict:
    """Judge a history. `drained` promises that every queue was served until empty, and every
    lease that nobody ended had time to run out and its job to come back."""
    index = Index(events)
    judge = _Judge(index, rules or Rules(), drained)
    for story in index.stories.values():
        judge.job(story)
    for kind, jid, detail in between_jobs.violations(index, judge.rules):
        judge.verdict.note(kind, index.stories.get(jid), detail)
    judge.counters()
    return judge.verdict


@dataclass(slots=True)
class _Judge:
    index: Index
    rules: Rules
    drained: bool
    verdict: Verdict = field(default_factory=Verdict)

    def job(self, story: JobStory) -> None:
        """Hold one job's story against the promises."""
        self.verdict.deliveries += len(story.deliveries)
        if any(push.out == "ok" for push in story.pushes):
            self.verdict.accepted += 1
            self.verdict.by_protocol[story.pushes[0].proto] += 1
        if story.pushes:
            own = story.pushes[0].proto
            self.verdict.crossings += sum(run.proto != own for run in story.deliveries)
        if not self._has_origin(story):
            return
        self._bodies_and_times(story)
        settled = self._accepted_acks(story)
        again = self._completions(story, settled)
        self._redeliveries(story, again)
        self._refused_reports(story)
        self._attempts(story)
        self._results(story, settled)
        if self.drained:
            self._loss(story)

    # -- I2, I3, I11 -----------------------------------------------------------------------

    def _has_origin(self, story: JobStory) -> bool:
        """Whether its deliveries, if any, come from a push; what does not is judged no further."""
        if not story.deliveries:
            return True
        first, possible = story.deliveries[0], story.possible
        if not story.pushes:
            self.verdict.note("unexpected", story, "never pushed")
        elif not possible:
            self.verdict.note("ghost", story, "its push was refused")
        elif min(push.t0 for push in possible) > first.t1:
            self.verdict.note("unexpected", story, "delivered before it was pushed")
        else:
            self.verdict.recovered += all(push.out == "maybe" for push in possible)
            return True
        return False

    def _bodies_and_times(self, story: JobStory) -> None:
        possible = story.possible
        bodies = {push.body for push in possible}
        times = [push.at for push in possible]
        due = None if None in times else min((at for at in times if at is not None), default=None)
        for delivery in story.deliveries:
            if delivery.body and "" not in bodies and bodies and delivery.body not in bodies:
                self.verdict.note("mangled", story, f"{delivery.body} is none of {sorted(bodies)}")
            if due is not None and delivery.t1 < due - self.rules.epsilon:
                self.verdict.note("early", story, f"{due - delivery.t1:.3f} s too early")

    # -- I6, I7 ----------------------------------------------------------------------------

    def _accepted_acks(self, story: JobStory) -> dict[int, Event]:
        """The runs that were surely completed: position of the delivery, and its ack."""
        accepted: dict[int, Event] = {}
        if story.removes:
            return accepted  # a removed job's ack is answered like any other, and means nothing
        for ack in story.ends:
            if not story.is_end(ack) or ack.out != "ok" or not self.index.lasts(ack):
                continue
            if story.volatile and self.index.restarts.first_from(ack.t0) < NEVER:
                continue  # forgotten with the job, which its client may have asked for again
            delivery = story.last_delivery_to(ack.holder, ack.t0)
            if delivery is None:
                continue
            # Who runs another protocol's volatile job need not be told that its time is over.
            crossed = story.volatile and ack.proto != story.pushes[0].proto
            told = HABITS[ack.proto].ack_tells and not crossed
            if told or self._held(story, delivery, ack):
                place = next(i for i, d in enumerate(story.deliveries) if d is delivery)
                known = accepted.get(place)
                if known is None or ack.t1 < known.t1:
                    accepted[place] = ack
        return accepted

    def _held(self, story: JobStory, delivery: Event, report: Event) -> bool:
        """Whether the reporter surely still held its lease when the report was answered."""
        if self.index.lease_over(story, delivery) <= report.t1:
            return False
        return not any(
            other is not delivery and other.t1 > delivery.t1 and other.t0 < report.t1
            for other in story.deliveries
        )

    def _completions(self, story: JobStory, settled: dict[int, Event]) -> set[int]:
        """Note what ran after its end; the places of those runs, which need no second verdict."""
        ended = sorted(ack.t1 for ack in settled.values())
        again: set[int] = set()
        if len(ended) >= story.copies > 0:
            final = ended[story.copies - 1]
            for place, delivery in enumerate(story.deliveries):
                if delivery.t0 > final:
                    again.add(place)
                    self.verdict.note("ran_after_ack", story, f"{delivery.t0 - final:.3f} s after")
        extra = len(settled.keys() - again) - story.copies
        for _ in range(extra if story.copies else 0):
            self.verdict.note("double_completion", story, "completions of two runs were accepted")
        return again

    # -- I4, I5, I8 ------------------------------------------------------------------------

    def _redeliveries(self, story: JobStory, again: set[int]) -> None:
        """Each run is the first of a job, or follows one that can have ended.

        Each further push with this jid may have made a job of its own: then there are several
        rows of runs, and a run need not follow the one right before it.
        """
        rows: list[Event] = []  # the last run of each
        before: Event | None = None
        for run in (r for place, r in enumerate(story.deliveries) if place not in again):
            place = next((i for i, e in enumerate(rows) if self._may_follow(story, e, run)), None)
            if place is not None:
                rows[place] = run
            elif before is None or len(rows) < story.copies:
                rows.append(run)
            else:
                self.verdict.note(*self._why_not(story, before, run))
                rows[next(i for i, e in enumerate(rows) if e is before)] = run
            before = run

    def _may_follow(self, story: JobStory, before: Event, run: Event) -> bool:
        if self.index.lease_over(story, before) <= run.t1:
            return True
        # Two fetches that overlap may have been granted in the other order.
        overlap = run.t0 < before.t1
        return overlap and self.index.lease_over(story, run) <= before.t1

    def _why_not(self, story: JobStory, before: Event, run: Event) -> tuple[str, JobStory, str]:
        gap = f"again after {run.t1 - before.t0:.3f} s"
        if any(self._is_stale(story, end, before, run.t1) for end in story.ends):
            return "stale_effect", story, f"{gap}, following an earlier holder's report"
        reported = any(
            end.op == "ack" and end.holder == before.holder and before.t0 <= end.t0 < run.t1
            for end in story.ends
        )
        if reported or self.index.lease_over(story, before) == NEVER:
            return "unexplained_dup", story, f"{gap}, no expiry, failure, close or restart"
        return "two_leases", story, f"{gap}, the lease before it cannot have ended"

    @staticmethod
    def _is_stale(story: JobStory, end: Event, current: Event, until: float) -> bool:
        """Whether `end` is a report, made while `current` ran, by a holder of an earlier run."""
        if end.out == "no" or end.op == "release" or end.holder == current.holder:
            return False
        if not (current.t0 < end.t1 and end.t0 < until):
            return False
        earlier = story.last_delivery_to(end.holder, end.t0)
        return earlier is not None and earlier.t1 < current.t1

    def _refused_reports(self, story: JobStory) -> None:
        """A holder refused although its lease lived: somebody else's report ended it."""
        if story.removes:
            return
        for end in story.ends:
            if end.out != "no" or end.op == "release":
                continue
            run = story.last_delivery_to(end.holder, end.t0)
            if run is None or not self._held(story, run, end):
                continue
            repeated = any(
                other is not end and other.holder == end.holder and other.out != "no"
                and run.t1 <= other.t0 < end.t1
                for other in story.ends
            )  # fmt: skip
            stale = any(self._is_stale(story, other, run, end.t1) for other in story.ends)
            if stale and not repeated:
                self.verdict.note("stale_effect", story, f"the holder's {end.op} was refused")

    # -- I15 -------------------------------------------------------------------------------

    def _attempts(self, story: JobStory) -> None:
        if story.copies != 1 or any(end.op == "release" for end in story.ends):
            return
        failed = sorted(self._sure_failures(story))
        retry = story.retry
        for place, run in enumerate(story.deliveries):
            sure = sum(moment < run.t0 for moment in failed)
            if retry is not None and sure > max(retry, 0):
                self.verdict.note("attempts", story, f"run after {sure} failures, retry={retry}")
            elif run.attempt is not None and not self._count_fits(run, sure, place):
                self.verdict.note("attempts", story, f"told {run.attempt} failures, {sure} seen")

    def _count_fits(self, run: Event, sure: int, runs_before: int) -> bool:
        told = run.attempt or 0
        if told < sure:
            return False
        # Runs that nobody saw may have failed too.
        return told <= runs_before + self.index.hidden.begun_by(run.t1)

    def _sure_failures(self, story: JobStory) -> Iterator[float]:
        """When each failure that surely counted had been taken note of."""
        for end in story.ends:
            run = story.last_delivery_to(end.holder, end.t0)
            if end.op == "fail" and end.out == "ok" and run is not None and self.index.lasts(end):
                over = self.index.lease_over(story, run, reports=False)
                later = any(o.t1 > run.t1 and o.t0 < end.t1 for o in story.deliveries)
                if over > end.t1 and not later:
                    yield end.t1
        for run, after in pairwise(story.deliveries):
            if story.habits.expiry_fails and self._only_expired(story, run, after):
                yield after.t0 - self.rules.epsilon

    def _only_expired(self, story: JobStory, run: Event, after: Event) -> bool:
        said = any(end.holder == run.holder and end.t0 >= run.t0 for end in story.ends)
        closed = self.index.closed_from(run.conn, run.t0) < after.t1
        restarted = self.index.restarts.first_from(run.t0) < after.t1
        reserve = run.reserve if run.reserve is not None else story.reserve
        expired = reserve is not None and run.t0 + reserve <= after.t1
        return expired and not (said or closed or restarted)

    # -- I14 -------------------------------------------------------------------------------

    def _results(self, story: JobStory, settled: dict[int, Event]) -> None:
        for conn in {push.conn for push in story.pushes if push.waits and push.out == "ok"}:
            asked = [p for p in story.pushes if p.conn == conn and p.waits and p.out != "no"]
            heard = sum(r.conn == conn and r.out == "ok" for r in story.results)
            if heard > len(asked):
                self.verdict.note("result", story, f"{conn} heard the end {heard} times")
            stayed = self.index.closed_from(conn, 0.0) == NEVER
            served = self.index.restarts.first_from(asked[0].t0) == NEVER
            if self.drained and settled and stayed and served and heard == 0:
                self.verdict.note("result", story, f"{conn} never heard the end")
            parts = [p.seq for p in story.parts if p.conn == conn and p.seq is not None]
            if len(story.deliveries) == 1 and parts != sorted(set(parts)):
                self.verdict.note("result", story, f"{conn} heard parts in the order {parts}")

    # -- I1 --------------------------------------------------------------------------------

    def _loss(self, story: JobStory) -> None:
        accepted = [push for push in story.pushes if push.out == "ok"]
        if not accepted or any(story.is_end(end) and end.out != "no" for end in story.ends):
            return
        if self._taken_away(story) or self._given_up(story):
            return
        if any(result.out == "ok" for result in story.results):
            return  # who waited for it heard its end, whatever it was
        if any(push.at is not None and push.at > self.index.horizon for push in accepted):
            return
        if all(push.volatile and self._abandoned(push) for push in accepted):
            return
        runs = len(story.deliveries)
        self.verdict.note("lost", story, f"{runs} runs, none completed" if runs else "never seen")

    def _taken_away(self, story: JobStory) -> bool:
        if any(remove.out != "no" for remove in story.removes):
            return True
        return any(
            remove.out != "no" and remove.queue in ("*", push.queue) and push.t0 < remove.t1
            for remove in self.index.queue_removes
            for push in story.possible
        )

    def _given_up(self, story: JobStory) -> bool:
        """Whether the runs that were seen may have used up what the job was allowed."""
        failed = any(end.op == "fail" and end.out != "no" for end in story.ends)
        if story.retry is not None:
            allowed = max(story.retry, 0) + 1
        else:
            allowed = 1 if failed else self.rules.losses_max
        unseen = self.index.hidden.begun_by(NEVER) > 0 and allowed == 1
        return len(story.deliveries) + unseen >= min(allowed, self.rules.losses_max)

    def _abandoned(self, push: Event) -> bool:
        restarted = self.index.restarts.first_from(push.t0) != NEVER
        return restarted or self.index.closed_from(push.conn, push.t0) != NEVER

    # -- I17 -------------------------------------------------------------------------------

    def counters(self) -> None:
        """Hold what the server counted against itself and against the history."""
        for count in self.index.counts:
            tally = count.tally or {}
            ends = [tally[key] for key in ("done", "dead", "discarded", "removed") if key in tally]
            balanced = "pushed" not in tally or len(ends) < 4 or tally["pushed"] == sum(ends)
            if self.drained and not balanced:
                detail = f"pushed={tally['pushed']}, ended={sum(ends)}"
                self.verdict.note("counters", None, detail)
                continue
            for key, op in (("pushed", "push"), ("done", "ack")):
                least, most = self._bounds(op)
                if key in tally and not least <= tally[key] <= most:
                    detail = f"{key}={tally[key]}, seen {least} to {most}"
                    self.verdict.note("counters", None, detail)

    def _bounds(self, op: str) -> tuple[int, int]:
        least = most = 0
        for story in self.index.stories.values():
            if op == "push":
                least += any(push.out == "ok" and not push.volatile for push in story.pushes)
                most += len(story.possible)
            else:
                least += bool(self._accepted_acks(story))
                most += sum(end.op == "ack" and end.out != "no" for end in story.ends)
        return least, most
