"""What is known of jobs by type: of all from the store's rates, of one queue from a sample."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct

from franca.control import shapes
from franca.control.port import NodePort
from franca.control.series import RANGES, Range
from franca.core.history import OTHER, RatesQuery, Search, percentile
from franca.core.model import Job, Millis, Outcome, State

QUEUE_MS = 300_000
"""The time over which a queue's line tells how long jobs waited and ran."""
SAMPLE_JOBS = 1_000
"""Ended jobs, the newest ones, of which it is told how types share a queue, and their queues."""
PARTS = 30
"""Parts of a range in the small chart of a type."""
QUEUES_NAMED = 20
TYPES_NAMED = 50
ENDED = (State.DONE, State.CANCELLED)


class ListTypes(Struct, forbid_unknown_fields=True):
    """Of jobs that ended in this range."""

    range: Range = "1h"


async def list_types(node: NodePort, params: ListTypes) -> shapes.TypeList:
    """Every type of which jobs ended in the range, those with most jobs first."""
    span_ms, _ = RANGES[params.range]
    now = node.clock_ms()
    step_ms = max(span_ms // PARTS // 60_000, 1) * 60_000
    rates = await node.observer.lately(node, RatesQuery(now - span_ms, now, step_ms, "kind"))
    queues = _queues_by_type((await sample(node)).jobs)
    totals = [(name, rates.total(name)) for name in rates.names()]
    ended = sum(total.done + total.dead for _, total in totals) or 1
    rows: list[shapes.TypeRow] = []
    for name, total in totals:
        steps = list(rates.of(name))
        rows.append(
            shapes.TypeRow(
                type=name,
                queues=queues.get(name, []),
                done=total.done,
                failed=total.failed,
                dead=total.dead,
                share=round((total.done + total.dead) / ended, 4),
                wait_p95_ms=percentile(total.waits, 0.95),
                ran_p50_ms=percentile(total.runs, 0.5),
                ran_p95_ms=percentile(total.runs, 0.95),
                ran_p99_ms=percentile(total.runs, 0.99),
                recent=shapes.RecentRuns(
                    [0 if one is None else one.done for one in steps],
                    [0 if one is None else one.failed for one in steps],
                ),
            )
        )
    rows.sort(key=lambda row: (row.type == OTHER, -row.done - row.failed, row.type))
    return shapes.TypeList(rows)


def _queues_by_type(jobs: Iterable[Job]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}
    for job in jobs:
        queues = found.setdefault(job.kind, {})
        if len(queues) < QUEUES_NAMED:
            queues[job.queue] = None
    return {kind: sorted(queues) for kind, queues in found.items()}


class Sample(Struct):
    """The newest jobs that have ended."""

    jobs: list[Job]


async def sample(node: NodePort, queue: str = "") -> Sample:
    """The newest jobs that have ended, of one queue or of all."""
    queues = (queue,) if queue else ()
    found = await node.search(Search(states=ENDED, queues=queues, limit=SAMPLE_JOBS, body_bytes=0))
    return Sample(found.jobs)


async def types_of_queue(node: NodePort, queue: str, span_ms: Millis) -> list[shapes.TypeShare]:
    """How types share a queue, by the newest of its jobs that ended in this time."""
    since = node.clock_ms() - span_ms
    jobs = [job for job in (await sample(node, queue)).jobs if job.ended_at >= since]
    return await asyncio.get_running_loop().run_in_executor(None, _shares, jobs)


def _shares(jobs: Sequence[Job]) -> list[shapes.TypeShare]:
    by_kind: dict[str, list[Job]] = {}
    for job in jobs:
        by_kind.setdefault(job.kind, []).append(job)
    most = sorted(by_kind.items(), key=lambda one: -len(one[1]))[:TYPES_NAMED]
    return [_share(kind, some, len(jobs)) for kind, some in most]


def _share(kind: str, jobs: Sequence[Job], of: int) -> shapes.TypeShare:
    ran = sorted(
        job.ended_at - job.started_at for job in jobs if job.state is State.DONE and job.started_at
    )
    failed = sum(a.outcome is Outcome.FAILED for job in jobs for a in job.attempt_log or ())
    return shapes.TypeShare(
        type=kind,
        share=round(len(jobs) / of, 4),
        failed=round(failed / max(failed + len(ran), 1), 4),
        p50_ms=_part(ran, 50),
        p95_ms=_part(ran, 95),
    )


def _part(ordered: Sequence[int], percent: int) -> int | None:
    """The number that so many of a hundred are not above."""
    return ordered[(len(ordered) - 1) * percent // 100] if ordered else None
