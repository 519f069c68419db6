"""Rules that compare jobs with each other: order, urgency, lateness, uniqueness, pause.

Only first deliveries are compared, of jobs pushed once and accepted, and only when nothing
(a lost fetch, a consumer's close, a restart, a pause) may have moved them unseen in between.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from tests.prove.events import Event, Rules
from tests.prove.history_index import NEVER, Index, JobHistory, Least, starts_by_end

Found = tuple[str, str, str]  # class, jid, detail


class Passage(NamedTuple):
    """A job's way through its queue: surely in it from `ready`, surely not out before `asked`."""

    jid: str
    prio: int
    volatile: bool
    begun: float
    ready: float
    asked: float
    out: float


def violations(index: Index, rules: Rules) -> Iterator[Found]:
    """All that is wrong between the jobs of this history."""
    queues: dict[str, list[Passage]] = defaultdict(list)
    timed: dict[str, list[Passage]] = defaultdict(list)
    for record in index.records.values():
        passage = _passage(index, record)
        if passage is not None:
            push = record.pushes[0]
            timed[push.queue].append(passage)
            if push.at is None:
                queues[push.queue].append(passage)
    for passages in queues.values():
        yield from _overtaken(passages, rules)
        yield from _less_urgent_first(passages)
    yield from _late(index, timed, rules)
    yield from _not_unique(index)
    yield from _while_paused(index)
    yield from _after_removal(index)


def _passage(index: Index, record: JobHistory) -> Passage | None:
    push = record.sole_push
    # One that may have been taken away, or replaced, has no place of its own.
    if push is None or not record.deliveries or record.removes:
        return None
    first = min(record.deliveries, key=lambda delivery: delivery.t0)
    if index.disturbances.touch(push.t0, first.t1):
        return None
    ready = push.t1 if push.at is None else max(push.t1, push.at)
    return Passage(record.jid, push.prio, push.volatile, push.t0, ready, first.t0, first.t1)


def _overtaken(passages: list[Passage], rules: Rules) -> Iterator[Found]:
    """I9: a later job was out before anybody even asked for this one."""
    by_priority: dict[int, list[Passage]] = defaultdict(list)
    for passage in passages:
        by_priority[passage.prio].append(passage)
    for group in by_priority.values():
        # By any later job, and by one that the store has: the other may pass what lies in the store.
        by_any = Least((passage.begun, passage.out) for passage in group)
        by_stored = Least((passage.begun, passage.out) for passage in group if not passage.volatile)
        for passage in group:
            may_pass = rules.volatile_overtakes and not passage.volatile
            out = (by_stored if may_pass else by_any).after(passage.ready)
            if out < passage.asked:
                yield "fifo", passage.jid, f"overtaken by {passage.asked - out:.3f} s"


def _less_urgent_first(passages: list[Passage]) -> Iterator[Found]:
    """I10: this job was given out although a more urgent one had been waiting."""
    for prio in {passage.prio for passage in passages}:
        urgent = sorted((p for p in passages if p.prio > prio), key=lambda p: p.ready)
        ready = [passage.ready for passage in urgent]
        longest = list(accumulate((passage.asked for passage in urgent), max))
        for passage in passages:
            waiting = bisect_left(ready, passage.asked)
            if passage.prio == prio and waiting and longest[waiting - 1] > passage.out:
                yield "priority", passage.jid, "a more urgent one was ready"


def _late(index: Index, timed: dict[str, list[Passage]], rules: Rules) -> Iterator[Found]:
    """I12: the server said "no work" to somebody who asked after the job was long due."""
    empties: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for fetch in index.of["fetch"]:
        if fetch.out == "no":
            # The latest moment at which it was surely still waiting. One that was answered at once may
            # have been judged at its start; one that blocked for long, at its end, give or take the slack.
            blocked = fetch.t1 - fetch.t0 >= 2 * rules.slack
            waiting = fetch.t1 - rules.slack if blocked else fetch.t0
            for queue in fetch.queue.split(","):
                empties[queue].append((waiting, fetch.t1))
    for queue, passages in timed.items():
        told_no = Least(empties[queue])
        for passage in passages:
            told_at = told_no.since(passage.ready + rules.slack)
            if told_at < passage.asked:
                after = told_at - passage.ready
                yield "late", passage.jid, f"no work said {after:.3f} s after it was due"


def _not_unique(index: Index) -> Iterator[Found]:
    """I13: at one moment two jobs with the same key were surely alive."""
    lives: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for record in index.records.values():
        keys = {push.unique: push for push in record.pushes if push.unique and push.out == "ok"}
        for key, push in keys.items():
            lives[key].append((push.t1, _first_end(index, record, push), record.jid))
    for same in lives.values():
        until = -NEVER
        for born, ended, jid in sorted(same):
            if born < until and born < ended:
                yield "unique", jid, "another job with its key was alive"
            until = max(until, ended)


def _first_end(index: Index, record: JobHistory, push: Event) -> float:
    """The earliest moment at which a job may have been over, one way or another."""
    ends = [end.t0 for end in (*record.ends, *record.removes) if end.out != "no"]
    ends += [remove.t0 for remove in _removes_of(index, push.queue)]
    # The end of a run without a word may have been its last.
    ends += [index.lease_over(record, delivery) for delivery in record.deliveries]
    if push.volatile:
        ends.append(index.closed_from(push.conn, push.t0))
        ends.append(index.restarts.since(push.t0))
    return min((end for end in ends if end >= push.t0), default=NEVER)


def _removes_of(index: Index, queue: str) -> list[Event]:
    return [remove for remove in index.queue_removes if remove.queue in ("*", queue)]


def _while_paused(index: Index) -> Iterator[Found]:
    """I16: the fetch began after the pause was confirmed, and nobody had resumed by its end."""
    known: dict[str, float] = {}  # when each queue surely existed: its first accepted push
    for push in index.of["push"]:
        if push.out == "ok":
            known[push.queue] = min(known.get(push.queue, NEVER), push.t1)
    pauses: dict[str, list[Event]] = defaultdict(list)
    for pause in sorted(index.of["pause"], key=lambda pause: pause.t1):
        # Pausing a queue that does not exist yet is no pause.
        if pause.out == "ok" and known.get(pause.queue, NEVER) < pause.t0:
            pauses[pause.queue].append(pause)
    for queue, of_one in pauses.items():
        resumes = [resume for resume in index.of["resume"] if resume.queue == queue]
        ends = starts_by_end([*resumes, *_removes_of(index, queue)])
        confirmed = [pause.t1 for pause in of_one]
        records = [s for s in index.records.values() if s.pushes and s.pushes[0].queue == queue]
        for jid, delivery in ((s.jid, delivery) for s in records for delivery in s.deliveries):
            last = bisect_left(confirmed, delivery.t0)
            if last and ends.since(of_one[last - 1].t0) > delivery.t1:
                yield "delivered_while_paused", jid, f"{queue} was paused"


def _after_removal(index: Index) -> Iterator[Found]:
    """I16: a job was taken away, this was confirmed, and a later fetch got it."""
    for record in index.records.values():
        push = record.sole_push
        if push is None or not record.deliveries:
            continue
        asked = [delivery.t0 for delivery in record.deliveries]
        removed = [r.t1 for r in record.removes if r.out == "ok" and r.t0 > push.t1]
        # Of a removed queue only the jobs that waited in it are gone, not those that run or are
        # yet to come.
        if push.at is None and not index.hidden.touch(push.t0, min(asked)):
            confirmed = [r for r in _removes_of(index, push.queue) if r.out == "ok"]
            removed += [r.t1 for r in confirmed if r.t0 > push.t1 and r.t1 < min(asked)]
        if removed and max(asked) > min(removed):
            yield "delivered_while_paused", record.jid, "it had been removed"
