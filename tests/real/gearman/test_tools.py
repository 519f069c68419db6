"""Debian's `gearman` and `gearadmin`."""

import re
import subprocess

import pytest

from tests.real.gearman.clients import ToolClient
from tests.real.gearman.kinds import KINDS, differs, need
from tests.real.gearman.kit import Peers, digest
from tests.real.kit import CallRefused
from tests.support.server import HOST
from tests.support.shared import DEADLINE_S


def gearman(peers: Peers, *args: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    need("gearman")
    argv = ["gearman", "-h", HOST, "-p", str(peers.port), *args]
    return subprocess.run(argv, input=given, capture_output=True, timeout=DEADLINE_S)


def rows(peers: Peers, function: str, *command: str) -> list[list[str]]:
    """What gearadmin lists of a function, each line in words."""
    *lines, last = peers.admin(*command).splitlines()
    assert last == "."
    return [line.split("\t") for line in lines if line.split("\t")[0] == function]


# -- gearman ---------------------------------------------------------------------------------------


@differs("the tool hangs: its WORK_FAIL ends with a NUL that the tool does not expect")
@pytest.mark.parametrize("worker_kind", [name for name, kind in KINDS.items() if kind.raises])
def test_the_tool_ends_with_job_failed_when_a_worker_raises(
    shared: Peers, worker_kind: str
) -> None:
    shared.shared_worker(worker_kind)
    done = gearman(shared, "-f", f"{worker_kind}.raise", given=b"x")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"Job failed\n")


def test_each_line_may_be_a_job_and_the_data_may_be_arguments(shared: Peers) -> None:
    shared.shared_worker("php")
    name = "php.reverse"
    done = gearman(shared, "-N", "-f", name, given=b"one\ntwo\nthree\n")
    assert (done.returncode, done.stdout) == (0, b"enoowteerht")

    done = gearman(shared, "-P", "-f", name, "-f", name, "abc")
    assert (done.returncode, done.stdout) == (0, b"php.reverse: cba" * 2)

    done = gearman(shared, "-s", "-f", name)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_worker_of_the_tool_sends_its_lines_as_data_and_ends_after_its_count(
    shared: Peers,
) -> None:
    need("gearman")
    argv = ["gearman", "-h", HOST, "-p", str(shared.port), "-w", "-c", "2", "-n"]
    worker = subprocess.Popen([*argv, "-f", "tool.lines", "--", "sort"])
    try:
        for _ in range(2):
            done = gearman(shared, "-f", "tool.lines", given=b"b\nc\na\n")
            # Each packet holds all lines so far.
            assert (done.returncode, done.stdout) == (0, b"a\na\nb\na\nb\nc\n")
        assert worker.wait(DEADLINE_S) == 0
    finally:
        worker.kill()
        worker.wait()


# -- gearadmin -------------------------------------------------------------------------------------


def test_it_tells_of_the_server(shared: Peers) -> None:
    assert int(shared.admin("--getpid")) == shared.server.process.pid
    assert re.fullmatch(r"\d+\.\d+.*\n", shared.admin("--server-version"))
    assert shared.admin("--server-verbose").strip() in (
        "FATAL", "ALERT", "CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG",
    )  # fmt: skip


def test_it_counts_jobs_and_workers(shared: Peers) -> None:
    client = shared.shared_client("gear")
    for priority in ("high", "low", None, "low", "low"):
        client.background("admin.counted", b"x", priority=priority)
    assert rows(shared, "admin.counted", "--status") == [["admin.counted", "5", "0", "0"]]
    found = rows(shared, "admin.counted", "--priority-status")
    assert found == [["admin.counted", "1", "1", "3", "0"]]

    gate = shared.path("gate")
    waiting = shared.client("gear")
    worker = shared.worker("gear", {"admin.held": "wait"}, id="admin-gear")
    end = waiting.begin("admin.held", str(gate).encode())
    worker.said("started")
    assert rows(shared, "admin.held", "--status") == [["admin.held", "1", "1", "1"]]
    line = next(line for line in shared.admin("--workers").splitlines() if "admin-gear" in line)
    assert re.fullmatch(r"\d+ 127\.0\.0\.1 admin-gear : admin\.held", line)
    gate.touch()
    assert end().outcome == "complete"
    shared.until_counts("admin.held", 0, 0, 1)


def test_it_shows_jobs_and_cancels_them(shared: Peers) -> None:
    client = shared.library("php")
    handle = client.background("admin.cancelled", b"x", unique="admin-unique")
    assert f"{handle}\t0\t0\t1" in shared.admin("--show-jobs").splitlines()
    assert "admin-unique" in shared.admin("--show-unique-jobs").splitlines()

    assert shared.admin("--cancel-job", handle) == "OK\n"
    worker = shared.worker("gear", {"admin.cancelled": "reverse"})
    assert client.do("admin.cancelled", b"later").result == b"retal"
    assert worker.said("ran")["digest"] == digest(b"later"), "the cancelled one is not run"
    assert client.status(handle)[:2] == [0, 0]
    with pytest.raises(CallRefused, match="UNKNOWN_JOB"):
        shared.admin("--cancel-job", "H:nobody:99")


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_waits_for_a_cancelled_job_hears_that_it_failed(shared: Peers, kind: str) -> None:
    client = shared.client(kind)
    end = client.begin(f"admin.waited.{kind}", b"x", unique=f"waited-{kind}")
    shared.until_counts(f"admin.waited.{kind}", 1, 0, 0)
    with_unique = shared.shared_client("gear")
    handle = with_unique.background(f"admin.waited.{kind}", b"x", unique=f"waited-{kind}")
    assert shared.admin("--cancel-job", handle) == "OK\n"
    assert end().outcome == "fail"


def test_it_creates_and_drops_functions(shared: Peers) -> None:
    name = "admin.created"
    assert shared.admin("--create-function", name) == "OK\n"
    assert rows(shared, name, "--status") == [[name, "0", "0", "0"]]
    assert shared.admin("--drop-function", name) == "OK\n"
    assert rows(shared, name, "--status") == []
    with pytest.raises(CallRefused, match="function not found"):
        shared.admin("--drop-function", name)

    shared.shared_worker("gear")
    with pytest.raises(CallRefused, match="there are still connected workers"):
        shared.admin("--drop-function", "gear.reverse")


def test_the_tool_and_the_admin_see_each_others_jobs(shared: Peers) -> None:
    need("gearman")
    handle = ToolClient(shared.port).background("admin.tool", b"x", unique="tool-1")
    assert handle in [line.split("\t")[0] for line in shared.admin("--show-jobs").splitlines()]
    same = ToolClient(shared.port).background("admin.tool", b"y", unique="tool-1")
    assert same == handle
