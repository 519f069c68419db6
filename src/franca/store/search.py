"""The SQL of searches, and what is searched in memory because it is kept in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from franca.core.model import Job, JobQuery, QueueCount, Shelf, State
from franca.store.port import fits
from franca.store.rows import COLUMNS


def select(table: str, where: str = "", order: str = "", *, bodies: bool = True) -> str:
    """All columns of a shelf's jobs, with the `bodies` that lie apart; one limit if ordered."""
    columns = ", ".join(f"j.{column.strip()}" for column in COLUMNS.split(","))
    sql = f"SELECT {columns} FROM {table} j"
    if bodies:
        join = "LEFT JOIN bodies b ON j.apart AND b.id = j.id"
        sql = f"SELECT {columns}, b.body AS body, b.crc AS body_crc FROM {table} j {join}"
    if where:
        sql += f" WHERE {where}"
    if not order:
        return sql
    by = ", ".join(f"j.{column.strip()}" for column in order.split(","))
    return f"{sql} ORDER BY {by} LIMIT ?"


def both_shelves(query: JobQuery) -> tuple[str, list[object]]:
    """A search over both shelves; each row begins with the number of its shelf."""
    conditions: list[str] = []
    values: list[object] = []
    if query.states:
        conditions.append(f"j.state IN ({_marks(query.states)})")
        values += [int(state) for state in query.states]
    if query.queue:
        conditions.append("j.queue = ?")
        values.append(query.queue)
    if query.kind:
        conditions.append("j.kind = ?")
        values.append(query.kind)
    if query.names:
        conditions.append(f"j.name IN ({_marks(query.names)})")
        values += query.names
    if query.ids:
        conditions.append(f"j.id IN ({_marks(query.ids)})")
        values += query.ids
    if query.after and not query.by_time:
        conditions.append("j.id < ?" if query.newest_first else "j.id > ?")
        values.append(query.after)
    order = "run_at, id" if query.by_time else "id DESC" if query.newest_first else "id"
    where = " AND ".join(conditions) or "1"
    shelves = ((Shelf.HELD, "jobs"), (Shelf.TAIL, "tail"))
    parts = [
        f"SELECT * FROM (SELECT {shelf.value} AS shelf, * FROM ({select(table, where, order)}))"
        for shelf, table in shelves
    ]
    sql = f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT ?"
    once = [*values, query.limit]
    return sql, [*once, *once, query.limit]


def among_ended(pieces: Iterable[list[Job]], query: JobQuery) -> list[Job]:
    """Ended jobs that fit. All pieces are looked at: jobs end in any order of their ids."""
    return [job for jobs in pieces for job in jobs if fits(job, query) and _in_page(job, query)]


def merge(live: list[Job], past: list[Job], query: JobQuery) -> list[Job]:
    """One page of both."""
    found = {job.id: job for job in past}
    found.update((job.id, job) for job in live)
    if query.by_time:
        ordered = sorted(found.values(), key=lambda job: (job.run_at, job.id))
    else:
        ordered = sorted(found.values(), key=lambda job: job.id, reverse=query.newest_first)
    return ordered[: query.limit]


def count_rows(rows: Iterable[tuple[str, int, int, int]]) -> list[QueueCount]:
    """Counts by queue from rows of (queue, state, ever failed, count)."""
    counts: dict[str, QueueCount] = {}
    for queue, state, failed, number in rows:
        count = counts.setdefault(queue, QueueCount(queue))
        if state == State.READY:
            count.ready += number
        elif state == State.LEASED:
            count.leased += number
        elif state == State.DEAD:
            count.dead += number
        elif failed:
            count.retrying += number
        else:
            count.scheduled += number
    return list(counts.values())


def _in_page(job: Job, query: JobQuery) -> bool:
    if not query.after or query.by_time:
        return True
    return job.id < query.after if query.newest_first else job.id > query.after


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
