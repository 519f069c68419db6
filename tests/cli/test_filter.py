"""Jobs by a filter: what the server is asked, and what is said of its answer."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from franca.cli import actions
from franca.node import exits
from tests.cli.conftest import Shell
from tests.cli.double import Double, Refusal
from tests.cli.recorded import job, page


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["state:dead queue:mail type:Send* age>1h"], "state:dead queue:mail type:Send* age>1h"),
        (["-queue:x", "state:dead", "-age>1h"], "-queue:x state:dead -age>1h"),
        (['arg:"a b"'], 'arg:"a b"'),
        (["age>1h", "--queue", "two words", "--state", "dead"], 'age>1h queue:"two words" state:dead'),
        (["free", "--type", 'a"b\\'], 'free type:"a\\"b\\\\"'),
    ],
)  # fmt: skip
def test_words_and_options_become_one_filter(
    shell: Shell, double: Double, words: list[str], query: str
) -> None:
    double.answers["jobs.search"] = page()
    shell("jobs", "ls", *words, "--limit", "3", "--after", "c1")
    assert double.asked == [("jobs.search", {"q": query, "after": "c1", "limit": 3})]


def test_states_that_only_a_filter_knows_are_asked_for_by_one(shell: Shell, double: Double) -> None:
    double.answers |= {"jobs.search": page(), "jobs.find": {"jobs": [], "after": None}}
    double.answers["jobs.act"] = {"changed": 0, "skipped": 0, "operation": None}
    shell("jobs", "ls", "--state", "running", "--state", "dead")
    shell("jobs", "ls", "--state", "leased", "--state", "dead")
    shell("jobs", "retry", "--state", "retrying")
    assert [name for name, _params in double.asked] == ["jobs.search", "jobs.find", "jobs.act"]
    assert double.params_of("jobs.search")[0]["q"] == "state:running,dead"
    assert double.params_of("jobs.find")[0]["states"] == ["leased", "dead"]
    assert double.params_of("jobs.act")[0] == {"action": "retry", "q": "state:retrying"}


def test_what_is_found_is_listed_and_how_far_was_looked(shell: Shell, double: Double) -> None:
    found = page(job(9, state="dead"), total=312, total_exact=False, scanned=20_000, of=1_000_000)
    double.answers["jobs.search"] = found | {"next": "c2"}
    told = shell("jobs", "ls", "state:dead")
    lines = [line.split() for line in told.stdout.splitlines()]
    assert lines[1][:5] == ["9", "dead", "mail", "SendMail", "name-9"]
    assert told.stderr == "1 of at least 312, 20,000 of 1,000,000 looked at; more: --after c2\n"
    assert shell.json("jobs", "ls", "state:dead")["total_exact"] is False


def test_a_page_that_is_all_there_is_says_no_more(shell: Shell, double: Double) -> None:
    double.answers["jobs.search"] = page(job(), job(2))
    assert shell("jobs", "ls", "x").stderr == "2 of 2\n"


def test_what_the_server_says_of_a_wrong_filter_is_told(shell: Shell, double: Double) -> None:
    def refuse(params: dict[str, Any]) -> None:
        raise Refusal("bad-request", "no field is called 'queu': did you mean queue?")

    double.answers["jobs.search"] = refuse
    assert "did you mean queue?" in shell("jobs", "ls", "queu:x", code=exits.USAGE).stderr
    shell("jobs", "ls", "x", "--oldest-first", code=exits.USAGE)


# -- actions ----------------------------------------------------------------------------------


def test_an_action_on_few_jobs_is_done_at_once(shell: Shell, double: Double) -> None:
    double.answers["jobs.act"] = {"changed": 2, "skipped": 0, "operation": None}
    assert shell("jobs", "retry", "-q", "state:dead queue:mail").stdout == "2 jobs retried\n"
    assert double.asked == [("jobs.act", {"action": "retry", "q": "state:dead queue:mail"})]


def test_an_action_on_many_jobs_is_waited_for(shell: Shell, double: Double) -> None:
    double.answers["jobs.act"] = {"changed": 0, "skipped": 0, "operation": "op-1"}
    looks: Iterator[dict[str, Any]]
    looks = iter([{"done": 3, "ended_at": None}, {"done": 9, "ended_at": "2026-01-31T12:00:00Z"}])

    def show(params: dict[str, Any]) -> dict[str, Any]:
        return {"id": params["id"], "action": "kill", "total": 10, "failed": 1, **next(looks)}

    double.answers["operations.show"] = show
    told = shell("jobs", "kill", "--filter", "queue:a", "--yes", code=exits.FAILURE)
    assert (told.stdout, told.stderr) == ("9 jobs killed\n", "1 job not killed\n")
    assert double.params_of("operations.show") == [{"id": "op-1"}] * 2


def test_who_does_not_wait_is_told_how_to_end_it(
    shell: Shell, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 61.0))
    monkeypatch.setattr(actions, "time", SimpleNamespace(monotonic=lambda: next(times)))
    double.answers["jobs.act"] = {"changed": 0, "skipped": 0, "operation": "op-1"}
    double.answers["operations.show"] = {
        "id": "op-1", "action": "retry", "total": 10, "done": 1, "failed": 0, "ended_at": None
    }  # fmt: skip
    words = ("jobs", "retry", "-q", "x", "--timeout", "60s")
    assert "franca operations stop op-1" in shell(*words, code=exits.TIMED_OUT).stderr


def test_a_filter_that_ends_jobs_must_be_confirmed(shell: Shell, double: Double) -> None:
    assert "--yes" in shell("jobs", "delete", "-q", "x", code=exits.USAGE).stderr
    assert double.asked == []
    for wrong in (["-q", "x", "--state", "dead"], ["-q", "x", "17"], ["-q", " "]):
        shell("jobs", "retry", *wrong, code=exits.USAGE)


def test_operations_are_listed_shown_and_stopped(shell: Shell, double: Double) -> None:
    one = {"id": "o1", "action": "kill", "total": 9, "done": 4, "failed": 0, "ended_at": None}
    double.answers |= {
        "operations.list": {"operations": [one]},
        "operations.show": one,
        "operations.stop": {},
    }
    assert shell("operations", "ls").stdout.splitlines()[1].split()[:4] == ["o1", "kill", "9", "4"]
    assert json.loads(shell("operations", "show", "o1", "--json").stdout) == one
    shell("operations", "stop", "o1")
    assert double.params_of("operations.stop") == [{"id": "o1"}]
