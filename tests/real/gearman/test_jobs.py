"""What the server promises, seen by peers of several libraries at once."""

import itertools
import os
import signal
import time
from collections import Counter

import pytest

from tests.real.gearman.clients import b64
from tests.real.gearman.kinds import KINDS, ORIGINAL, PRIORITIES, SLEEPERS, differs
from tests.real.gearman.kit import Peers, bare, digest
from tests.real.kit import Program
from tests.support.server import listens
from tests.support.shared import eventually

MANY = [name for name in KINDS if name not in ("gearman", "aiogear")]
"""Clients that can submit several jobs before they wait for one."""
RETURNING = ("gearman", "gear", "php")
"""Workers that come back by themselves when the server does. Perl's looks only every ten seconds;
abraxas misses a connection that is reset."""


# -- many at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MANY)
def test_of_many_jobs_at_once_each_gets_its_own_result(shared: Peers, kind: str) -> None:
    for worker_kind in ("gear", "php", "gearmanode"):
        shared.shared_worker(worker_kind)
    workloads = [f"{kind} {n}".encode() for n in range(60)]
    found = shared.shared_library(kind).many("any.reverse", workloads)
    assert found == [workload[::-1] for workload in workloads]


def test_of_jobs_in_the_background_and_not_each_gets_its_own_answer(shared: Peers) -> None:
    """libgearman takes the answers in the order in which it submitted, the durable ones too."""
    worker = shared.worker("gear", {"mixed": "reverse"})
    workloads = [b"%d" % n for n in range(40)]
    told = shared.library("php").call("mixed", "mixed", [b64(each) for each in workloads])
    assert told["results"] == [b64(each[::-1]) for each in workloads[1::2]]
    ran = {each["digest"]: each["handle"] for each in (worker.said("ran") for _ in workloads)}
    assert told["handles"] == [ran[digest(each)] for each in workloads]


def test_no_wake_up_is_lost_by_workers_that_would_sleep_for_ever(shared: Peers) -> None:
    """A job alone, then bursts. The tool, Perl and PHP are left out: theirs look every ten seconds."""
    workers = [shared.shared_worker(kind) for kind in SLEEPERS]
    client = shared.shared_client("gear")
    sent = 0
    for size in [1] * 20 + [30, 60, 2, 40, 1]:
        for n in range(sent, sent + size):
            client.background("sleepers.reverse", f"burst {n}".encode())
        sent += size
        eventually(lambda: shared.counts("sleepers.reverse")[0] == 0, "the burst run")

    wanted = Counter(digest(f"burst {n}".encode()) for n in range(sent))
    told = Counter[str]()

    def all_told() -> bool:
        for worker in workers:
            told.update(each["digest"] for each in worker.has_said("ran"))
        return wanted <= told

    eventually(all_told, "every job run")
    assert {told[each] for each in wanted} == {1}
    for kind in SLEEPERS:  # and none of them sleeps on
        assert client.do(f"{kind}.reverse", b"abc").result == b"cba"


def test_workers_that_hang_keep_no_job_from_those_that_do_not(shared: Peers) -> None:
    """They are asleep as far as the server can see, and are woken in vain."""
    function = "hanging"
    workers = [shared.worker(kind, {function: "reverse"}) for kind in ("gear", "aiogear", "gear")]
    *hanging, awake = workers
    for worker in hanging:
        worker.said("asleep")  # not between a GRAB_JOB and its answer, which could be a job
    # What is asked after that is answered when the server has read it.
    shared.until_counts(function, 0, 0, len(workers))
    for worker in hanging:
        worker.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, worker.process.pid, os.WSTOPPED)
    workloads = [b"%d" % n for n in range(len(hanging))]  # as many as are woken in vain
    for workload in workloads:
        shared.shared_client("php").background(function, workload)
    ran = {awake.said("ran")["digest"] for _ in workloads}
    assert ran == {digest(workload) for workload in workloads}


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_gets_the_high_ones_first_and_the_low_ones_last(shared: Peers, kind: str) -> None:
    function = f"{kind}.ordered"
    clients = itertools.cycle(["gear", "php", "perl"])
    for n, priority in itertools.product(range(2), reversed(PRIORITIES)):
        client = shared.shared_client(next(clients))
        client.background(function, f"{priority} {n}".encode(), priority=priority)

    worker = shared.worker(kind, {function: "reverse"})

    order = [worker.said("ran")["digest"] for _ in range(6)]
    wanted = [f"{priority} {n}".encode() for priority in PRIORITIES for n in range(2)]
    assert order == [digest(each) for each in wanted]


@differs("1.1.20 looks at the functions first, at the priorities then")
def test_priorities_count_across_functions_and_functions_take_turns(shared: Peers) -> None:
    client = shared.shared_client("php")
    names = ("across.a", "across.b")
    for name, priority, n in itertools.product(names, ("low", "high"), range(2)):
        client.background(name, f"{name} {priority} {n}".encode(), priority=priority)

    worker = shared.worker("gear", dict.fromkeys(names, "reverse"))

    order = [worker.said("ran") for _ in range(8)]
    high = {digest(f"{name} high {n}".encode()) for name in names for n in range(2)}
    assert {each["digest"] for each in order[:4]} == high
    for one, other in zip(order[::2], order[1::2], strict=True):
        assert {one["function"], other["function"]} == set(names)


# -- one job for several ---------------------------------------------------------------------------


def test_clients_of_every_kind_wait_for_one_job(shared: Peers) -> None:
    gate, unique = shared.path("gate"), "shared-by-all"
    workload = str(gate).encode()
    worker = shared.worker("gear", {"coalesced": "wait"})
    ends = [shared.client(kind).begin("coalesced", workload, unique) for kind in KINDS]
    worker.said("started")
    eventually(lambda: shared.waiting(unique) == len(KINDS), "all of them waiting")

    gate.touch()

    assert {end().result for end in ends} == {workload[::-1]}
    assert worker.said("ran")["unique"] == unique
    assert worker.has_said("ran") == []


def test_a_dash_stands_for_the_workload(shared: Peers) -> None:
    handles = {
        kind: bare(shared.shared_client(kind).background("dashed", b"same", unique="-"))
        for kind in ("gear", "perl", "gearmanode", "abraxas", "aiogear")
    }
    other = shared.shared_client("gear").background("dashed", b"other", unique="-")
    assert len(set(handles.values())) == 1
    assert other not in handles.values()


@differs("the background job is lost with the client that joined it")
@pytest.mark.parametrize("kind", ["gear", "php", "perl", "gearmanode"])
def test_a_background_job_survives_a_client_that_joined_and_left(shared: Peers, kind: str) -> None:
    function, unique = f"joined.{kind}", f"joined-{kind}"
    shared.shared_client("gear").background(function, b"once", unique)
    leaving = shared.library(kind)
    leaving.begin(function, b"once", unique)
    eventually(lambda: shared.waiting(unique) == 1, "the client waiting")
    leaving.close()
    eventually(lambda: shared.waiting(unique) == 0, "the client gone")

    worker = shared.worker("gear", {function: "reverse"})
    assert worker.said("ran")["digest"] == digest(b"once")


@differs("the late submission is joined to the abandoned job and never answered")
def test_a_late_submission_does_not_hang_on_an_abandoned_job(shared: Peers) -> None:
    leaving = shared.library("php")
    leaving.begin("abandoned", b"first", "abandoned-1")
    eventually(lambda: shared.waiting("abandoned-1") == 1, "the client waiting")
    leaving.close()
    eventually(lambda: shared.waiting("abandoned-1") == 0, "the client gone")

    end = shared.client("perl").begin("abandoned", b"second", "abandoned-1")
    shared.worker("gear", {"abandoned": "reverse"})
    assert end().outcome == "complete"


# -- status ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.asks_status])
def test_the_status_of_a_background_job_is_told(shared: Peers, kind: str) -> None:
    client, function, gate = shared.shared_library(kind), f"asked.{kind}", shared.path("gate")
    handle = client.background(function, str(gate).encode())
    assert client.status(handle) == [1, 0, 0, 0]

    worker = shared.worker("gear", {function: "wait"})
    worker.said("started")
    eventually(lambda: client.status(handle) == [1, 1, 1, 2], "half of it done")

    gate.touch()
    worker.said("ran")
    eventually(lambda: client.status(handle)[:2] == [0, 0], "the end of it")


# -- loss ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lost", "next_kind"), list(zip(KINDS, [*list(KINDS)[1:], "gearman"], strict=True))
)
def test_a_job_of_a_killed_worker_is_run_by_one_of_another_kind(
    shared: Peers, lost: str, next_kind: str
) -> None:
    function, gate = f"lost.{lost}", shared.path("gate")
    workload = str(gate).encode()
    waiting = shared.client("php").begin(function, workload)
    first = shared.worker(lost, {function: "wait"})
    first.said("started")
    second = shared.worker(next_kind, {function: "wait"})
    shared.until_counts(function, 1, 1, 2)

    first.close()

    second.said("started")
    gate.touch()
    assert waiting().result == workload[::-1]


def test_background_jobs_of_every_client_survive_kill_9(peers: Peers) -> None:
    """Also the one that was running, and under the handle that its client was given."""
    gate = peers.path("gate")
    runner = peers.worker("gear", {"running": "wait"})
    running = peers.client("gear").background("running", str(gate).encode(), "running")
    runner.said("started")
    handles, wanted = {}, Counter[str]()
    for n, kind in enumerate(KINDS):
        client = peers.client(kind)
        workload = f"kept for {kind}".encode()
        handles[kind] = bare(client.background("kept", workload, f"kept {kind}"))
        peers.until_counts("kept", n + 1, 0, 0)  # one client does not tell when it is done
        wanted[digest(workload + b"\0" if kind == "node-gearman" else workload)] += 1

    runner.close()
    peers.server.restart()

    assert peers.counts("kept")[0] == len(KINDS)
    gate.touch()
    worker = peers.worker("gear", {"kept": "reverse", "running": "wait"})
    ran = [worker.said("ran") for _ in range(len(KINDS) + 1)]
    found = Counter(each["digest"] for each in ran if each["function"] == "kept")
    assert found == wanted
    peers.until_counts("kept", 0, 0, 1)
    peers.until_counts("running", 0, 0, 1)
    if not ORIGINAL:  # which numbers them anew
        given = {handle for handle in [*handles.values(), running] if handle}
        assert given <= {each["handle"] for each in ran}


@differs("it keeps one of them, and with an empty workload does not even start")
def test_jobs_without_a_unique_or_without_a_workload_survive_kill_9(peers: Peers) -> None:
    clients = [peers.library(kind) for kind in ("gear", "perl", "gearmanode", "abraxas")]
    workloads = [b"", b"", b"a", b"a"]
    for client, workload in zip(clients, workloads, strict=True):
        client.background("bare", workload)
    for client in clients:
        client.close()

    peers.server.restart()

    worker = peers.worker("gear", {"bare": "reverse"})
    assert Counter(worker.said("ran")["digest"] for _ in workloads) == Counter(
        digest(workload) for workload in workloads
    )


@differs("it numbers handles anew with every start")
def test_a_handle_is_good_after_a_restart_and_never_given_twice(peers: Peers) -> None:
    handles = [peers.client("php").background("named", b"%d" % n) for n in range(3)]
    peers.server.restart()
    client = peers.library("php")
    assert [client.status(handle) for handle in handles] == [[1, 0, 0, 0]] * 3
    assert client.background("named", b"later") not in handles


@differs("it does not wait for what runs")
@pytest.mark.parametrize("kind", ["gear", "perl", "gearmanode"])
def test_a_server_that_is_asked_to_stop_lets_a_running_job_end(peers: Peers, kind: str) -> None:
    gate = peers.path("gate")
    worker = peers.worker(kind, {"last": "wait", "next": "reverse"})
    end = peers.client("php").begin("last", str(gate).encode())
    worker.said("started")
    peers.server.process.send_signal(signal.SIGTERM)
    eventually(lambda: not listens(peers.port), "it takes no new connections")
    gate.touch()
    assert end().result == str(gate).encode()[::-1]
    assert peers.server.wait(timeout=20) == 0


@pytest.mark.parametrize("kind", RETURNING)
def test_a_worker_that_outlives_the_server_is_back_by_itself(peers: Peers, kind: str) -> None:
    worker = peers.worker(kind, {"again": "reverse"})
    assert peers.client("php").do("again", b"before").result == b"erofeb"
    peers.server.restart()
    assert peers.client("php").do("again", b"after").result == b"retfa"
    worker.close()


# -- later -----------------------------------------------------------------------------------------


@differs("nobody is woken when the time has come")
def test_a_job_for_later_wakes_whoever_sleeps_when_its_time_has_come(shared: Peers) -> None:
    workers: dict[str, Program] = {kind: shared.shared_worker(kind) for kind in KINDS}
    client = shared.shared_library("abraxas")
    due = int(time.time()) + 2
    for kind in KINDS:
        workload = f"{kind} later".encode()
        handle = client.call("at", f"{kind}.reverse", b64(workload), due)
        assert shared.shared_library("aiogear").status(handle) == [1, 0, 0, 0]
    for kind, worker in workers.items():
        worker.said("ran", digest=digest(f"{kind} later".encode()))
        assert time.time() >= due, "not before its time"
    assert time.time() < due + 5, "and not by chance"


@differs("it refuses them")
def test_a_job_for_a_minute_hour_day_month_and_weekday_is_kept_until_then(shared: Peers) -> None:
    handles = [
        shared.shared_library("abraxas").call(
            "sched", "sched.abraxas", b64(b"x"), {"minute": 59, "hour": 23, "day": 31, "month": 12}
        ),
        shared.shared_library("aiogear").call(
            "sched", "sched.aiogear", b64(b"x"), "2096-02-29T12:30"
        ),
    ]
    for handle in handles:
        assert shared.shared_library("aiogear").status(handle) == [1, 0, 0, 0]
        assert shared.admin("--cancel-job", handle) == "OK\n"
