"""Answers about the past, made of the jobs that a store finds, for stores that know no quicker way.

Everything here is called on the thread that reads the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from franca.core.history import (
    BadCursor,
    Found,
    Past,
    Rates,
    RatesQuery,
    Search,
    Tallies,
    Tally,
    bucket_of,
)  # fmt: skip
from franca.core.model import Job, JobQuery, Millis, Outcome, State

Find = Callable[[JobQuery], list[Job]]
ENDED = frozenset({State.DONE, State.CANCELLED})
ENDED_MAX = 10_000
"""Ended jobs that a store remembers which knows no quicker way."""


def search(find: Find, asked: Search) -> Found:
    """One page of a search: what is within the window is sorted, and the page is cut out of it."""
    key_of = _order_of(asked)
    query = JobQuery(
        states=asked.states,
        queue=_sole(asked.queues),
        kind=_sole(asked.kinds),
        names=asked.names,
        ids=asked.ids,
        limit=asked.look_max,
        newest_first=True,
        by_time=asked.states == (State.WAITING,),
        with_bodies=asked.body_bytes < 0,
    )
    there = find(query)
    mark = _mark(asked.cursor)
    jobs = [job for job in there if mark is None or key_of(job) > mark]
    jobs = sorted((job for job in jobs if _fits(job, asked)), key=key_of)
    page = jobs[: asked.limit]
    is_last = len(jobs) <= asked.limit
    cursor = "" if is_last else "{}.{}".format(*key_of(page[-1]))
    if asked.body_bytes >= 0:
        page = _with_beginnings(find, page, asked.body_bytes)
    return Found(page, cursor, len(there), len(there), None if asked.fits else len(jobs))


def _with_beginnings(find: Find, page: list[Job], size: int) -> list[Job]:
    """The same jobs, with the bodies of ended ones as far as they are shown."""
    ids = tuple(job.id for job in page if job.state in ENDED)
    found = find(JobQuery(states=tuple(ENDED), ids=ids, limit=len(ids))) if ids else []
    bodies = {job.id: job.body for job in found}
    return [replace(job, body=bodies.get(job.id, job.body)[:size]) for job in page]


def _sole(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 and not names[0].endswith("*") else ""


def _among(name: str, names: tuple[str, ...]) -> bool:
    return not names or any(
        name.startswith(one[:-1]) if one.endswith("*") else name == one for one in names
    )


def _fits(job: Job, asked: Search) -> bool:
    was_run = bool(job.failures or job.losses)
    return (
        _among(job.queue, asked.queues)
        and _among(job.kind, asked.kinds)
        and (asked.retried is None or job.state is not State.WAITING or asked.retried is was_run)
        and (not asked.since or job.ended_at >= asked.since)
        and (not asked.until or 0 < job.ended_at < asked.until)
        and (asked.fits is None or asked.fits(job))
    )


def _order_of(asked: Search) -> Callable[[Job], tuple[int, int]]:
    if asked.states and ENDED.issuperset(asked.states):
        return lambda job: (-job.ended_at, -job.id)
    if asked.states == (State.WAITING,):
        return lambda job: (job.run_at, job.id)
    return lambda job: (0, -job.id)


def _mark(cursor: str) -> tuple[int, int] | None:
    if not cursor:
        return None
    moment, _, job_id = cursor.partition(".")
    try:
        return int(moment), int(job_id)
    except ValueError:
        raise BadCursor("no page ended there") from None


def past(find: Find) -> Past:
    """What is kept of ended jobs."""
    query = JobQuery(states=tuple(ENDED), limit=ENDED_MAX, newest_first=True, with_bodies=False)
    jobs = find(query)
    return Past(
        done=sum(job.state is State.DONE for job in jobs),
        cancelled=sum(job.state is State.CANCELLED for job in jobs),
        bytes=sum(job.weight for job in jobs),
        oldest_at=min((job.ended_at for job in jobs), default=0),
    )


def rates(find: Find, asked: RatesQuery) -> Rates:
    """What happened in each step, as far as the jobs are remembered to which it did."""
    states = (*ENDED, State.DEAD)
    query = JobQuery(states=states, limit=ENDED_MAX, newest_first=True, with_bodies=False)
    first = asked.since // asked.step_ms * asked.step_ms
    at = list(range(first, max(asked.until, first + 1), asked.step_ms))
    steps: list[Tallies] = [{} for _ in at]
    known = [False] * len(at)
    for job in find(query):
        name = {"queue": job.queue, "kind": job.kind}.get(asked.of, "")
        if asked.names and name not in asked.names:
            continue
        for moment, tally in _happened(job):
            index = (moment - first) // asked.step_ms
            if 0 <= index < len(at):
                steps[index].setdefault(name, Tally(waits={}, runs={})).add(tally)
                known[index] = True
    told: list[Tallies | None] = [
        step if is_known else None for step, is_known in zip(steps, known, strict=True)
    ]
    return Rates(asked.step_ms, at, told)


def _happened(job: Job) -> Iterator[tuple[Millis, Tally]]:
    """The end of a job, and the failures that it had before."""
    is_done = job.state is State.DONE and job.started_at > 0
    yield (
        job.ended_at,
        Tally(
            done=int(job.state is State.DONE),
            cancelled=int(job.state is State.CANCELLED),
            dead=int(job.state is State.DEAD),
            waits=_bucket(job.started_at - job.ready_at) if is_done and job.ready_at else {},
            runs=_bucket(job.ended_at - job.started_at) if is_done else {},
        ),
    )
    for attempt in job.attempt_log or ():
        if attempt.outcome is Outcome.FAILED:
            yield attempt.ended_at, Tally(failed=1)


def _bucket(span_ms: Millis) -> dict[int, int]:
    return {bucket_of(max(span_ms, 0)): 1}
