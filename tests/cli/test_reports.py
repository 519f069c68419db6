"""Queues, workers, schedules, types, errors, history and audit, as people and programs see them."""

from typing import Any

import pytest

from franca.node import exits
from tests.cli import recorded
from tests.cli.conftest import Shell
from tests.cli.double import Double

ERROR = {
    "id": "e1", "error": "Timeout", "text": "no answer", "where": "", "retrying": 3, "dead": 14,
    "types": ["A", "B"], "queues": ["mail"], "by": ["faktory"], "first_at": None,
    "last_at": "2026-01-31T12:00:00Z", "hours": [0] * 24, "samples": [],
}  # fmt: skip
TYPE = {
    "type": "SendMail", "queues": ["mail", "news"], "done": 100, "failed": 3, "dead": 1,
    "share": 0.5, "wait_p95_ms": 40, "ran_p50_ms": 10, "ran_p95_ms": 1200, "ran_p99_ms": 2100,
    "recent": {"done": [], "failed": []},
}  # fmt: skip
BOUNDS = {"jobs": 1_000_000, "bytes": 1 << 30, "age_ms": 604_800_000}
HISTORY = {"jobs": 12_345, "bytes": 5_000_000, "oldest_at": None, "indexed_ms_behind": 900}
ENTRY = {
    "at": "2026-01-31T12:00:00Z", "who": "anna", "role": "operator", "over": "rest",
    "operation": "queues.pause", "about": "mail", "outcome": "done",
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "types.list": {"types": [TYPE]},
    "errors.list": {"classes": [ERROR], "looked_at": 1000, "of": 20_000},
    "history": HISTORY | {"bounds": BOUNDS},
    "audit.list": {"entries": [ENTRY]},
    "health": {"version": "1", "store": {"bytes": 5}, "limits": [1], "series": {"t": []}},
    "queues.show": recorded.queue()
    | {"types": [{"type": "A", "share": 1.0, "failed": 0.0, "p50_ms": 1, "p95_ms": 2}]}
    | {"series": {"t": []}, "serving": ["mail-1", "mail-2"]},
    "workers.find": {"workers": [recorded.worker(), recorded.worker("other")]},
    "schedules.list": {"schedules": [recorded.schedule()]},
    "schedules.show": recorded.schedule(every_ms=90_000, cron=""),
}


@pytest.mark.parametrize(
    ("words", "op", "row"),
    [
        ("types ls", "types.list", "SendMail mail,news 100 3 1 40ms 10ms 1s 2s"),
        ("errors ls", "errors.list", "e1 Timeout 14 3 A,B"),
        ("audit", "audit.list", "anna operator rest queues.pause mail done"),
        ("history", "history", "jobs 12,345"),
        ("history", "history", "1,000,000 jobs, 1.1 GB, 7d"),
        ("health", "health", 'store {"bytes": 5}'),
        ("queues show mail", "queues.show", "in, out, failed a second 12.2, 11.0, 0"),
        ("queues show mail", "queues.show", "served by mail-1, mail-2"),
        ("queues show mail", "queues.show", "A 1.0 0 1ms 2ms"),
        ("workers show other", "workers.find", "7 SendMail mail"),
        ("schedules ls", "schedules.list", "nightly mail Digest 0 3 * * * Europe/Berlin"),
        ("schedules show nightly", "schedules.show", "when every 1m"),
        ("schedules show nightly", "schedules.show", "next 2026-02-02T02:00:00.000Z"),
    ],
)
def test_each_is_told_in_words_and_as_json(
    shell: Shell, double: Double, words: str, op: str, row: str
) -> None:
    double.answers |= ANSWERS
    told = [" ".join(line.split()) for line in shell(*words.split()).stdout.splitlines()]
    assert any(row in line for line in told), told
    assert {name for name, _params in double.asked} == {op}
    expected = ANSWERS[op]
    if "workers show" in words:
        expected = {"workers": [recorded.worker("other")]}
    assert shell.json(*words.split()) == expected


def test_a_worker_that_is_not_there_is_not_found(shell: Shell, double: Double) -> None:
    double.answers |= ANSWERS
    assert "zoe" in shell("workers", "show", "zoe", code=exits.NOT_FOUND).stderr


def test_a_queue_is_paused_until_a_moment(shell: Shell, double: Double) -> None:
    double.answers["queues.pause"] = {}
    shell("queues", "pause", "mail", "--until", "2031-01-31T12:00:00+02:00")
    shell("queues", "pause", "mail", "--until", "later", code=exits.USAGE)
    [asked] = double.params_of("queues.pause")
    assert asked["queues"] == ["mail"]
    assert asked["until"].startswith("2031-01-31T")


# -- schedules --------------------------------------------------------------------------------


def test_a_schedule_is_made_with_its_rule_and_arguments(shell: Shell, double: Double) -> None:
    double.answers["schedules.create"] = recorded.schedule()
    words = ("schedules", "add", "nightly", "mail", "Digest", "1.0", "x")
    shell(*words, "--cron", "0 3 * * *", "--timezone", "Europe/Berlin")
    shell(*words, "--every", "15m")
    first, second = double.params_of("schedules.create")
    assert first == {
        "id": "nightly", "queue": "mail", "type": "Digest", "args": [1.0, "x"],
        "cron": "0 3 * * *", "timezone": "Europe/Berlin",
    }  # fmt: skip
    assert second["every_ms"] == 900_000
    for wrong in ([], ["--cron", "* * * * *", "--every", "1m"]):
        shell(*words, *wrong, code=exits.USAGE)


def test_an_edit_says_only_what_is_to_change(shell: Shell, double: Double) -> None:
    double.answers["schedules.edit"] = recorded.schedule()
    shell("schedules", "edit", "nightly", "--every", "1h")
    shell("schedules", "edit", "nightly", "--args", "[1, 2.50]", "--queue", "other")
    assert double.params_of("schedules.edit") == [
        {"id": "nightly", "every_ms": 3_600_000},
        {"id": "nightly", "args": [1, 2.5], "queue": "other"},
    ]
    wrongs: tuple[list[str], ...] = (
        [],
        ["--args", "17"],
        ["--args", "{"],
        ["--cron", "x", "--every", "1m"],
    )
    for wrong in wrongs:
        shell("schedules", "edit", "nightly", *wrong, code=exits.USAGE)


def test_schedules_are_run_paused_resumed_and_removed(shell: Shell, double: Double) -> None:
    names = ("run", "pause", "resume", "delete")
    double.answers |= {f"schedules.{name}": {"id": 12, "name": "n"} for name in names}
    assert shell("schedules", "run", "nightly").stdout == "12\n"
    for verb in ("pause", "resume", "rm"):
        assert shell("schedules", verb, "nightly").stdout == ""
    assert double.asked == [(f"schedules.{name}", {"id": "nightly"}) for name in names]
