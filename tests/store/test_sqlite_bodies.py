"""Large bodies lie apart from their jobs in SQLite's store: written once, and read only when they are wanted."""

import os
import tracemalloc
from pathlib import Path

from franca.core.changes import Changes
from franca.core.model import Job, Shelf, State
from tests.store.kit import (
    LARGE,
    StoreFixture,
    a_job,
    all_fields,
    copy,
    light_fields,
    odd_jobs,
    tailed,
)


def bodies_in(s: StoreFixture) -> list[int]:
    rows = s.sqlite._db.execute("SELECT id FROM bodies ORDER BY id").fetchall()
    return [job_id for (job_id,) in rows]


def large(job_id: int, shelf: Shelf) -> Job:
    return a_job(job_id, shelf=shelf, body=b"b" * LARGE)


def test_every_way_out_of_the_store_takes_the_body_along(s: StoreFixture) -> None:
    held, tail = (
        [large(n + base, shelf) for n in range(5)]
        for base, shelf in ((1, Shelf.HELD), (11, Shelf.BACKLOG))
    )
    s.write(added=[*held, *tail, large(21, Shelf.HELD)])
    assert bodies_in(s) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21]
    s.write(gone_from_memory=[held[0]], gone_from_backlog=[tail[0]])
    s.write(gone_from_backlog=[a_job(12, body=b"")])
    s.write(moved=[copy(held[1], shelf=Shelf.BACKLOG), copy(tail[2], shelf=Shelf.HELD)])
    s.write(updated=[copy(held[2], state=State.LEASED), copy(tail[3], state=State.DEAD)])
    assert bodies_in(s) == [2, 3, 4, 5, 13, 14, 15, 21]
    s.write(emptied_backlogs=["q"])
    s.sweep()
    assert bodies_in(s) == [3, 4, 5, 13, 14, 21]
    s.write(gone_from_backlog=[tail[3]], gone_from_memory=[tail[2]], ended=[tail[2]])
    assert bodies_in(s) == [3, 4, 5, 21]
    s.write(flushed=True, added=[large(31, Shelf.BACKLOG)])
    s.sweep()
    assert bodies_in(s) == [31]


def test_a_change_of_shelf_does_not_write_a_large_body_again(s: StoreFixture) -> None:
    job = a_job(1, body=b"b" * (1 << 20))
    s.write(added=[job])
    log = Path(f"{s.sqlite.path}-wal")
    before = log.stat().st_size
    for shelf in (Shelf.BACKLOG, Shelf.HELD):
        s.write(moved=[copy(job, shelf=shelf)])
    assert log.stat().st_size - before < len(job.body) // 4
    assert s.held() == all_fields([job])


def test_bodies_of_the_tail_are_not_read_before_they_are_wanted(s: StoreFixture) -> None:
    """A backlog may be larger than memory, at the start too."""
    body = os.urandom(1 << 20)
    for number in range(1, 25):
        s.write(added=[tailed(number, body=body, key=f"key-{number}" if number % 2 else "")])
    tracemalloc.start()
    known = s.reopen().known
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [k.id for k in sorted(known, key=lambda k: k.id)] == list(range(1, 25))
    assert most < 4 << 20


def test_a_prepared_group_is_what_its_jobs_were_then_and_nothing_before_its_commit(
    s: StoreFixture,
) -> None:
    jobs = odd_jobs()
    written = light_fields(jobs)
    s.sqlite.prepare(Changes(added=jobs, totals=s.totals))
    assert not s.sqlite._db.in_transaction
    for job in jobs:
        job.place -= 1
        job.body = b"another"
    s.sqlite.commit()
    assert s.held() == written
