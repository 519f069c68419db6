"""Rules that compare jobs with each other: order, urgency, lateness, uniqueness, pause.

Only first deliveries are compared, of jobs pushed once and accepted, and only when nothing
(a lost fetch, a consumer's close, a restart, a pause) may have moved them unseen in between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from tests.prove.events import Event, Rules
from tests.prove.index import NEVER, Index, JobStory, Moments

Found = tuple[str, str, str]  # class, jid, detail


class Passage:
    """A job's way through its queue: surely in it from `ready`, surely not out before `asked`."""

    __slots__ = ("asked", "begun", "jid", "out", "prio", "ready", "volatile")

    def __init__(self, jid: str, push: Event, first: Event) -> None:
        self.jid = jid
        self.prio = push.prio
        self.volatile = push.volatile
        self.begun = push.t0
        self.ready = push.t1 if push.at is None else max(push.t1, push.at)
        self.asked = first.t0
        self.out = first.t1


def violations(index: Index, rules: Rules) -> Iterator[Found]:
    """All that is wrong between the jobs of this history."""
    queues: dict[str, list[Passage]] = defaultdict(list)
    timed: dict[str, list[Passage]] = defaultdict(list)
    for story in index.stories.values():
        passage = _passage(index, story)
        if passage is not None:
            push = story.pushes[0]
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


def _passage(index: Index, story: JobStory) -> Passage | None:
    push = story.sole_push
    # One that may have been taken away, or replaced, has no place of its own.
    if push is None or not story.deliveries or story.removes:
        return None
    first = min(story.deliveries, key=lambda delivery: delivery.t0)
    if index.disturbances.touch(push.t0, first.t1):
        return None
    return Passage(story.jid, push, first)


def _overtaken(passages: list[Passage], rules: Rules) -> Iterator[Found]:
    """I9: a later job was out before anybody even asked for this one."""
    by_priority: dict[int, list[Passage]] = defaultdict(list)
    for passage in passages:
        by_priority[passage.prio].append(passage)
    for group in by_priority.values():
        group.sort(key=lambda passage: passage.begun)
        begun = [passage.begun for passage in group]
        # By any later job, and by one that the store has: the other may pass what lies in the store.
        by_any = _earliest([passage.out for passage in group])
        by_stored = _earliest([NEVER if passage.volatile else passage.out for passage in group])
        for passage in group:
            later = bisect_right(begun, passage.ready)
            may_pass = rules.volatile_overtakes and not passage.volatile
            out = (by_stored if may_pass else by_any)[later]
            if out < passage.asked:
                yield "fifo", passage.jid, f"overtaken by {passage.asked - out:.3f} s"


def _earliest(outs: list[float]) -> list[float]:
    """The first of all from each place on; NEVER behind the last."""
    return [*list(accumulate(reversed(outs), min))[::-1], NEVER]


def _less_urgent_first(passages: list[Passage]) -> Iterator[Found]:
    """I10: this job was given out although a more urgent one had been waiting."""
    for prio in {passage.prio for passage in passages}:
        urgent = sorted(
            (passage for passage in passages if passage.prio > prio), key=lambda p: p.ready
        )
        if not urgent:
            continue
        ready = [passage.ready for passage in urgent]
        longest = list(accumulate((passage.asked for passage in urgent), max))
        for passage in passages:
            waiting = bisect_left(ready, passage.asked)
            if passage.prio == prio and waiting and longest[waiting - 1] > passage.out:
                yield "priority", passage.jid, "a more urgent one was ready"


def _late(index: Index, timed: dict[str, list[Passage]], rules: Rules) -> Iterator[Found]:
    """I12: the server said "no work" to somebody who asked after the job was long due."""
    empties: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for fetch in index.empty_fetches:
        for queue in fetch.queue.split(","):
            empties[queue].append((_surely_asking(fetch, rules), fetch.t1))
    for queue, passages in timed.items():
        asked = sorted(empties.get(queue, ()))
        starts = [start for start, _ in asked]
        earliest_end = list(accumulate((end for _, end in reversed(asked)), min))[::-1]
        for passage in passages:
            first = bisect_left(starts, passage.ready + rules.slack)
            if first < len(asked) and earliest_end[first] < passage.asked:
                detail = (
                    f"no work said {earliest_end[first] - passage.ready:.3f} s after it was due"
                )
                yield "late", passage.jid, detail


def _surely_asking(fetch: Event, rules: Rules) -> float:
    """The latest moment at which an empty fetch was surely still waiting.

    One that was answered at once may have been judged at its start; one that blocked for long was
    judged at its end, give or take the slack.
    """
    blocked = fetch.t1 - fetch.t0 >= 2 * rules.slack
    return fetch.t1 - rules.slack if blocked else fetch.t0


def _not_unique(index: Index) -> Iterator[Found]:
    """I13: at one moment two jobs with the same key were surely alive."""
    lives: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for story in index.stories.values():
        keys = {push.unique: push for push in story.pushes if push.unique and push.out == "ok"}
        for key, push in keys.items():
            lives[key].append((push.t1, _first_end(index, story, push), story.jid))
    for same in lives.values():
        same.sort()
        until = -NEVER
        for born, ended, jid in same:
            if born < until and born < ended:
                yield "unique", jid, "another job with its key was alive"
            until = max(until, ended)


def _first_end(index: Index, story: JobStory, push: Event) -> float:
    """The earliest moment at which a job may have been over, one way or another."""
    ends = [end.t0 for end in (*story.ends, *story.removes) if end.out != "no"]
    ends += [r.t0 for r in index.queue_removes if r.queue in ("*", push.queue)]
    # The end of a run without a word may have been its last.
    ends += [index.lease_over(story, delivery) for delivery in story.deliveries]
    if push.volatile:
        ends.append(index.closed_from(push.conn, push.t0))
        ends.append(index.restarts.first_from(push.t0))
    return min((end for end in ends if end >= push.t0), default=NEVER)


def _while_paused(index: Index) -> Iterator[Found]:
    """I16: the fetch began after the pause was confirmed, and nobody had resumed by its end."""
    if not index.pauses:
        return
    known = _known_from(index)
    pauses: dict[str, list[Event]] = {}
    ends: dict[str, Moments] = {}
    for queue, events in index.pauses.items():
        # Pausing a queue that does not exist yet is no pause.
        good = [p for p in events if p.out == "ok" and known.get(queue, NEVER) < p.t0]
        pauses[queue] = sorted(good, key=lambda pause: pause.t1)
        undone = [r for r in index.queue_removes if r.queue in ("*", queue)]
        ends[queue] = Moments([*index.resumes.get(queue, []), *undone])
    for story in index.stories.values():
        queue = story.pushes[0].queue if story.pushes else ""
        confirmed = [pause.t1 for pause in pauses.get(queue, ())]
        for delivery in story.deliveries if confirmed else ():
            last = bisect_left(confirmed, delivery.t0)
            if last and ends[queue].first_from(pauses[queue][last - 1].t0) > delivery.t1:
                yield "delivered_while_paused", story.jid, f"{queue} was paused"


def _known_from(index: Index) -> dict[str, float]:
    """When each queue surely existed: its first accepted push."""
    known: dict[str, float] = {}
    for story in index.stories.values():
        for push in story.pushes:
            if push.out == "ok":
                known[push.queue] = min(known.get(push.queue, NEVER), push.t1)
    return known


def _after_removal(index: Index) -> Iterator[Found]:
    """I16: a job was taken away, this was confirmed, and a later fetch got it."""
    for story in index.stories.values():
        push = story.sole_push
        if push is None or not story.deliveries:
            continue
        last = max(delivery.t0 for delivery in story.deliveries)
        removed = [r.t1 for r in story.removes if r.out == "ok" and r.t0 > push.t1]
        # Of a removed queue only the jobs that waited in it are gone, not those that run or are
        # yet to come.
        first = min(delivery.t0 for delivery in story.deliveries)
        if push.at is None and not index.hidden.touch(push.t0, first):
            removed += [
                r.t1
                for r in index.queue_removes
                if r.out == "ok"
                and r.t0 > push.t1
                and r.queue in ("*", push.queue)
                and first > r.t1
            ]
        if removed and last > min(removed):
            yield "delivered_while_paused", story.jid, "it had been removed"
