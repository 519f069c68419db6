"""What is on the disks of others: it may be added to at the end, and never changed."""

from zlib import crc32

import msgspec
import pytest
from msgspec.structs import replace

from franca.core.model import Attempt, Backoff, Job, Outcome, Policy, Shelf, State
from franca.store.ended import Ended, encode
from franca.store.ended import job_of as ended_job
from franca.store.rows import job_of, row_of
from tests.store.kit import a_job, all_fields, odd_jobs

WRITTEN: dict[type[msgspec.Struct], str] = {
    Job: (
        "id queue kind name key body media origin policy priority created_at extra state place run_at "
        "ready_at start_by started_at until holder bound timed attempts failures losses failed_at attempt_log "
        "ended_at result reported shelf digest"
    ),
    Policy: (
        "max_failures max_losses loss_is_failure bury backoff delay_ms lease_ms durable dies_unwatched no_retry_if_watched"
    ),
    Attempt: "holder started_at ended_at outcome error_kind error_text trace",
    Ended: (
        "id queue kind name state origin media priority created_at ready_at started_at ended_at holder "
        "attempts failures losses attempt_log body result by key"
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_new_fields_go_to_the_end(kind: type[msgspec.Struct]) -> None:
    """These are written by position: a field put in between would shift all that is behind it."""
    written = tuple(WRITTEN[kind].split())
    assert kind.__struct_fields__[: len(written)] == written


def test_the_numbers_of_states_and_shelves_stay() -> None:
    assert {s.name: s.value for s in State} == {
        "WAITING": 0, "READY": 1, "LEASED": 2, "DONE": 3, "DEAD": 4, "CANCELLED": 5,
    }  # fmt: skip
    assert {s.name: s.value for s in Shelf} == {"NOWHERE": 0, "HELD": 1, "BACKLOG": 2}
    assert {b.name: b.value for b in Backoff} == {"FIXED": 0, "POWER": 1, "DOUBLING": 2}


def test_a_piece_without_the_newest_fields_is_read_with_their_defaults() -> None:
    job = odd_jobs()[0]
    *values, piece, _ = row_of(job)
    fields = msgspec.msgpack.decode(piece)
    assert Job.__struct_fields__[-4:] == ("away", "weight", "expiries", "by")
    older = msgspec.msgpack.encode(fields[:-4])
    found = job_of((*values, older, crc32(older), None, None), {}, Shelf.HELD)
    assert all_fields([found]) == all_fields([job])


def test_a_row_of_the_first_release_is_read_as_what_it_was() -> None:
    row = bytes.fromhex(
        "dc00200aa171a16ba16ea179c403626f64a56279746573a16f9a030ac2c301cd03e800c3c2c20001"
        "c40201ff01020304050607a17cc3c2030405099197a1770102a66661696c6564a145a17491a16c0ac400c400010b"
    )
    job = Job(
        10, "q", "k", "n", "y", b"bod", "bytes", "o", Policy(3, 10, False, True, Backoff.POWER, 1_000), 0, 1,
        b"\x01\xff", State.READY, 2, 3, 4, 5, 6, 7, "|", True, False, 3, 4, 5, 9,
        [Attempt("w", 1, 2, Outcome.FAILED, "E", "t", ["l"])], 10, b"", None, Shelf.HELD, 11,
    )  # fmt: skip
    found = msgspec.msgpack.decode(row, type=Job)
    assert all_fields([found]) == all_fields([job])
    assert found.progress is None


@pytest.mark.parametrize("said", [b"", b"3\0007"])
def test_what_earlier_versions_kept_of_the_progress_of_a_run_is_read_and_means_nothing(
    said: bytes,
) -> None:
    """It was a worker's whose lease ended with its connection, and so with the server."""
    job = odd_jobs()[0]
    job.reported = said
    *values, piece, crc = row_of(job)
    found = job_of((*values, piece, crc, None, None), {}, Shelf.HELD)
    assert found.progress is None
    assert len(piece) == len(row_of(replace(job, reported=None))[-2]) + 1 + len(said)


@pytest.mark.parametrize("by", [0, 6])
def test_that_a_job_remembers_whose_worker_ran_it_makes_no_row_larger(by: int) -> None:
    job = a_job(7, state=State.LEASED, holder="worker-1", attempts=1, until=9, by=by)
    fields = msgspec.msgpack.decode(row_of(job)[-2])
    assert (fields.pop(), fields[Job.__struct_fields__.index("reported")]) == (by, None)
    fields[Job.__struct_fields__.index("reported")] = b""  # as it was before
    assert len(row_of(job)[-2]) == len(msgspec.msgpack.encode(fields))


def test_attempts_and_ended_jobs_of_earlier_versions_were_run_by_nobody_knows_whom() -> None:
    run = Attempt("w", 1, 2, Outcome.FAILED, "E", "t", ["l"], by=3)
    job = a_job(7, state=State.DONE, attempt_log=[run], by=2)
    [found] = _read(encode([job]))
    assert (found.by, found.attempt_log) == (2, [run])
    [fields] = msgspec.msgpack.decode(encode([job]))
    del fields[Ended.__struct_fields__.index("by") :]
    fields[Ended.__struct_fields__.index("attempt_log")][0].pop()
    [found] = _read(msgspec.msgpack.encode([fields]))
    assert (found.by, found.attempt_log and found.attempt_log[0].by) == (0, 0)


def _read(piece: bytes) -> list[Job]:
    return [ended_job(ended) for ended in msgspec.msgpack.decode(piece, type=list[Ended])]
