"""Whoever submits, whoever works: nine kinds on each side, in every pair."""

import itertools
from collections.abc import Callable

import pytest

from tests.real.gearman.kinds import KINDS, Kind, differs_here
from tests.real.gearman.kit import Peers, digest

TEXT = bytes(range(32, 127))
BYTES = bytes(range(256))
LARGE_TEXT = b"0123456789abcdef" * 20_000
LARGE_BYTES = BYTES * 1_600


def in_pairs(worker_can: Callable[[Kind], object]) -> pytest.MarkDecorator:
    """Every client with every worker that can do what the test is about."""
    workers = [name for name, kind in KINDS.items() if worker_can(kind)]
    pairs = [pytest.param(*each, id="-".join(each)) for each in itertools.product(KINDS, workers)]
    return pytest.mark.parametrize(("client_kind", "worker_kind"), pairs)


in_every_pair = in_pairs(lambda worker: True)


def carried(client_kind: str, worker_kind: str) -> bool:
    """Whether both libraries can carry any bytes, or text only."""
    return KINDS[client_kind].takes_bytes and KINDS[worker_kind].gives_bytes


def unique_for(client_kind: str, worker_kind: str) -> str:
    """Nothing, but where the one would send what the other cannot read."""
    return "text" if (client_kind, worker_kind) == ("aiogear", "python3-gearman") else ""


@in_every_pair
def test_a_result_comes_back_whatever_the_bytes(
    shared: Peers, client_kind: str, worker_kind: str
) -> None:
    worker = shared.shared_worker(worker_kind)
    client = shared.shared_client(client_kind)
    workload = f"{client_kind} ".encode() + (BYTES if carried(client_kind, worker_kind) else TEXT)

    done = client.do(
        f"{worker_kind}.reverse", workload, unique=unique_for(client_kind, worker_kind)
    )

    assert (done.outcome, done.result) == ("complete", workload[::-1])
    worker.said("ran", digest=digest(workload))


@in_every_pair
def test_large_workloads_and_results_come_whole(
    shared: Peers, client_kind: str, worker_kind: str
) -> None:
    shared.shared_worker(worker_kind)
    client = shared.shared_client(client_kind)
    workload = LARGE_BYTES if carried(client_kind, worker_kind) else LARGE_TEXT

    done = client.do(
        f"{worker_kind}.reverse", workload, unique=unique_for(client_kind, worker_kind)
    )

    assert done.outcome == "complete"
    assert digest(done.result) == digest(workload[::-1])


@in_every_pair
def test_a_result_may_be_empty(shared: Peers, client_kind: str, worker_kind: str) -> None:
    if worker_kind == "perl":
        differs_here("an empty result of Perl's worker is never passed on")
    shared.shared_worker(worker_kind)
    client = shared.shared_client(client_kind)

    done = client.do(f"{worker_kind}.empty", b"x", unique=unique_for(client_kind, worker_kind))

    assert (done.outcome, done.result) == ("complete", b"")


@in_every_pair
def test_a_failure_is_told(shared: Peers, client_kind: str, worker_kind: str) -> None:
    raises = not KINDS[worker_kind].fails
    if raises:
        differs_here("it mistreats exceptions, see below")
    shared.shared_worker(worker_kind)
    client = shared.shared_client(client_kind)

    done = client.do(f"{worker_kind}.fail", b"x", unique=unique_for(client_kind, worker_kind))

    told = raises and KINDS[client_kind].hears_exceptions
    assert done.outcome == ("exception" if told else "fail")


@in_pairs(lambda worker: worker.raises)
def test_an_exception_is_told_to_those_who_asked_and_is_a_failure_for_others(
    shared: Peers, client_kind: str, worker_kind: str
) -> None:
    """A worker that sends WORK_FAIL after it is none the worse: it does the next job."""
    if worker_kind in ("perl", "abraxas", "python3-gearman"):
        differs_here("WORK_FAIL after WORK_EXCEPTION is answered with an error")
    if not KINDS[client_kind].hears_exceptions:
        differs_here("the substituted WORK_FAIL ends with a NUL, and the client waits for ever")
    worker = shared.shared_worker(worker_kind)
    client = shared.shared_client(client_kind)
    unique = unique_for(client_kind, worker_kind)

    for attempt in (b"first", b"second"):
        workload = client_kind.encode() + attempt
        done = client.do(f"{worker_kind}.raise", workload, unique=unique)
        if KINDS[client_kind].hears_exceptions:
            assert done.outcome == "exception"
            assert b"boom" in done.exception
        else:
            assert done.outcome == "fail"
        worker.said("ran", digest=digest(workload))


@in_pairs(lambda worker: worker.tells)
def test_status_data_and_warnings_come_before_the_result(
    shared: Peers, client_kind: str, worker_kind: str
) -> None:
    shared.shared_worker(worker_kind)
    client, hears = shared.shared_client(client_kind), KINDS[client_kind].hears
    tells = KINDS[worker_kind].tells

    done = client.do(f"{worker_kind}.progress", b"x", unique=unique_for(client_kind, worker_kind))

    joined = KINDS[client_kind].joins_data and "data" in tells
    assert (done.outcome, done.result) == ("complete", b"partwhole" if joined else b"whole")
    if "status" in tells & hears:
        last = done.heard["status"][-1] if "status" in done.heard else done.heard["last_status"]
        assert last[0] / last[1] == 0.75
        assert len(done.heard.get("status", [])) in (0, 2)
    if "data" in tells & hears:
        assert done.heard["data"] == [b"part"]
    if "warnings" in tells & hears:
        assert done.heard["warnings"] == [b"careful"]


@in_every_pair
def test_background_jobs_of_every_priority_are_run(
    shared: Peers, client_kind: str, worker_kind: str
) -> None:
    worker = shared.shared_worker(worker_kind)
    client = shared.shared_client(client_kind)
    unique = unique_for(client_kind, worker_kind)
    for priority in ("low", None, "high"):
        workload = f"{client_kind} {priority}".encode()
        mark = unique and f"{unique} {priority}"
        handle = client.background(f"{worker_kind}.reverse", workload, mark, priority)
        # node-gearman ends the workload of a background job with a NUL, and keeps the handle.
        assert bool(handle) == (client_kind != "node-gearman")
        sent = workload + b"\0" if client_kind == "node-gearman" else workload
        worker.said("ran", digest=digest(sent))
