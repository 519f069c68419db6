"""`franca status`: a few lines for people, everything for programs."""

import re
from typing import Any

import pytest

from franca.cli.status import notice_line
from tests.cli import recorded
from tests.cli.conftest import Shell
from tests.cli.double import Double

BEHIND = {
    "id": "n1", "level": "bad", "what": "behind", "queue": "mail",
    "facts": {"ready": 1200, "oldest_ms": 65_000, "in": 12.5, "out": 3.0},
}  # fmt: skip


def test_it_tells_what_there_is_and_what_is_wrong(shell: Shell, double: Double) -> None:
    double.answers["server.status"] = recorded.STATUS
    double.answers["overview"] = recorded.overview(notices=[BEHIND])
    assert shell("status").stdout.splitlines() == [
        "Franca 1.2.3, up 2h, pid 77",
        "  data       /var/lib/franca (sqlite)",
        "  faktory    127.0.0.1:7419           export FAKTORY_URL=x",
        "  memodb     127.0.0.1:12703",
        "  jobs       1 retrying, 12,345 ready, 3 running, 4 done, 5 dead, 6 cancelled",
        "  load       3 connections, 51 MB of memory",
        "  FAIL       queue mail falls behind: 1,200 ready, in 12.5/s, out 3.0/s, "
        "the oldest waits for 1m",
    ]


def test_a_server_without_faults_is_well(shell: Shell, double: Double) -> None:
    double.answers |= {"server.status": recorded.STATUS, "overview": recorded.overview()}
    assert shell("status").stdout.splitlines()[-1] == "  all is well"


def test_a_full_disk_and_a_late_loop_are_faults(shell: Shell, double: Double) -> None:
    double.answers["server.status"] = recorded.STATUS | {
        "refusing_new": True,
        "loop_lag_p99_ms": 900,
    }
    told = shell("status").stdout
    assert "new jobs are refused" in told
    assert "lags 900 ms" in told
    assert "well" not in told


def test_a_server_of_an_earlier_release_tells_what_it_can(shell: Shell, double: Double) -> None:
    double.answers["server.status"] = recorded.STATUS
    assert shell.json("status") == recorded.STATUS
    assert "jobs" not in shell("status").stdout


def test_programs_get_every_member_that_they_had_and_more(shell: Shell, double: Double) -> None:
    double.answers |= {"server.status": recorded.STATUS, "overview": recorded.overview()}
    told = shell.json("status")
    assert {name: told[name] for name in recorded.STATUS} == recorded.STATUS
    assert told["counts"]["ready"] == 12_345
    assert told["notices"] == []


@pytest.mark.parametrize(
    ("notice", "text"),
    [
        ({"what": "errors", "level": "bad", "facts": {"error": "T", "dead": 2}}, "T: 2 dead, 0 retrying"),
        ({"what": "paused", "level": "warn", "queue": "q\x1b", "facts": {"ready": 3}},
         "queue q\\u001b is paused, 3 jobs are ready in it"),
        ({"what": "schedule", "level": "bad", "schedule": "s", "facts": {}}, "schedule s fails"),
        ({"what": "stalled", "level": "bad", "worker": "w", "facts": {}}, "worker w has asked for no job"),
        ({"what": "of-later\n", "level": "bad"}, "of-later\\n"),
    ],
)  # fmt: skip
def test_every_notice_is_a_sentence(notice: dict[str, Any], text: str) -> None:
    assert text in notice_line(notice)


def test_of_a_stalled_worker_it_is_told_since_when() -> None:
    facts = {"fetched_at": "2020-01-31T12:00:00Z"}
    line = notice_line({"what": "stalled", "level": "bad", "worker": "w", "facts": facts})
    assert re.search(r"for no job for \d+d$", line)
