"""The store under load: nothing that it does keeps others waiting, and its file gives room back."""

from __future__ import annotations

import datetime
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cases.conftest import StartServer, environment
from tests.prove.wall_clock import SETTLED_S, TWEAK, WallClock
from tests.support.faktory import Faktory, FaktoryError, JobDict, compact, job
from tests.support.server import Server, ServerFailed

BODY = "x" * (4 << 20)
MIB = 1 << 20
Cli = Callable[..., subprocess.CompletedProcess[str]]


def at(seconds: float) -> str:
    """A moment so many seconds from now, as Faktory writes it."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    return moment.isoformat()


def schedule(port: int, count: int, when: Callable[[int], str], first: int = 0) -> None:
    """Push so many jobs, each for its moment, over one connection."""
    with Faktory(port, timeout=60) as client:
        client.hello()
        for start in range(first, first + count, 1_000):
            numbers = range(start, min(start + 1_000, first + count))
            works = [
                f'{{"jid":"later-{n:08d}","jobtype":"t","args":[],"at":"{when(n)}"}}'
                for n in numbers
            ]
            client.call(f"PUSHB [{','.join(works)}]").checked()


def push_patiently(client: Faktory, work: JobDict) -> None:
    """Push a job, and again while there is no room for it: the store's log has to be moved first."""
    deadline = time.monotonic() + 20.0
    while True:
        try:
            client.push(work)
        except FaktoryError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def in_threads(act: Callable[[int], None], first: int, count: int) -> None:
    """Act twice at once, each on one half of so many numbers."""
    threads = [threading.Thread(target=act, args=(start,)) for start in (first, first + count // 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Beats:
    """Says BEAT all the time; `longest_s` is the longest that it waited for an answer."""

    def __init__(self, port: int) -> None:
        self.longest_s = 0.0
        self._client = Faktory(port, timeout=60)
        self._client.hello(wid="the-beating-worker")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        while not self._over.wait(0.005):
            began = time.monotonic()
            self._client.beat("the-beating-worker")
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    def __enter__(self) -> Beats:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of this size, as only root can have one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.long
@pytest.mark.case(3)
def test_after_a_failure_it_starts_without_room_to_copy(start: StartServer, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "320m") as disk:
        server = start(data=disk / "data")
        with Faktory(server.port, timeout=60) as client:
            client.hello()
            for number in range(42):
                push_patiently(client, job(f"large-job-{number}", BODY))
        server.terminate()
        (server.data / "suspect").write_text("SQLITE_IOERR_FSYNC\n")
        try:
            server.start(timeout=60)
        except ServerFailed as failure:
            last = str(failure)[-300:]
            raise AssertionError(f"no start on a disk that is 64 % full: {last}") from None
        with Faktory(server.port, timeout=60) as client:
            client.hello()
            found = client.fetch() or {}
            assert found["args"] == [BODY]
        server.kill9()


@pytest.mark.long
@pytest.mark.case(5)
def test_jobs_in_the_backlog_that_fall_due_are_ready_in_time(server: Server) -> None:
    """Others wait in the backlog by the million, and must not be looked through each time."""
    jobs, others, span_s = 200_000, 1_200_000, 20.0
    tomorrow = at(86_400)
    in_threads(
        lambda first: schedule(server.port, others // 2, lambda n: tomorrow, first), jobs, others
    )
    begin = time.time() + 30.0

    def when(number: int) -> str:
        moment = begin + number * span_s / jobs
        return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat()

    in_threads(lambda first: schedule(server.port, jobs // 2, when, first), 0, jobs)
    assert time.time() < begin, "this machine is too slow for this case"
    with Faktory(server.port, timeout=60) as client:
        client.hello()
        while time.time() < begin + span_s + 3.0:
            time.sleep(0.1)
        left = client.info()["faktory"]["tasks"]["Scheduled"]["size"] - others
    assert left == 0, f"{left} of {jobs} jobs are not ready 3 s after the last one fell due"


@pytest.mark.long
@pytest.mark.case(6)
def test_changing_many_jobs_of_a_large_backlog_keeps_nobody_waiting(server: Server) -> None:
    schedule(server.port, 400_000, lambda number: at(86_400))
    names = [f"later-{number:08d}" for number in range(0, 400_000, 100)]
    order = {"cmd": "kill", "target": "scheduled", "filter": {"jids": names}}
    with Beats(server.port) as beats, Faktory(server.port, timeout=120) as client:
        client.hello()
        client.call(f"MUTATE {compact(order)}").checked()
    dead = len(names)
    assert beats.longest_s < 0.7, (
        f"a BEAT waited {beats.longest_s:.1f} s for a MUTATE of {dead} jids"
    )


@pytest.mark.long
@pytest.mark.case(13)
def test_the_file_gives_room_back_when_a_backlog_is_gone(server: Server) -> None:
    path = server.data / "franca.db"
    with Faktory(server.port, timeout=60) as client:
        client.hello()
        for number in range(40):
            client.push(job(f"large-job-{number}", BODY))
        client.command("FLUSH")
        client.push(job("one-more-job"))
    deadline = time.monotonic() + 30.0
    while (size := os.path.getsize(path)) > 40 * MIB and time.monotonic() < deadline:
        time.sleep(0.1)
    assert size <= 40 * MIB, f"{size // MIB} MiB for one small job, 30 s after a FLUSH"


@pytest.mark.case(30)
def test_push_in_goes_by_the_clock_that_people_set(tmp_path: Path, cli: Cli) -> None:
    wall_clock = WallClock(tmp_path / "clock")
    server = Server(
        tmp_path / "data",
        env=environment() | wall_clock.environment,
        argv_prefix=("-m", "tests.prove.mutants", TWEAK),
    )
    with server.start(timeout=20.0), Faktory(server.port) as client:
        client.hello()
        wall_clock.set_wall(3_600.0)
        time.sleep(SETTLED_S)
        done = cli("push", "--data", str(server.data), "--in", "30m", "default", "some-type")
        assert done.returncode == 0, done.stderr
        assert client.fetch() is None, "a job that was pushed for half an hour later came at once"
