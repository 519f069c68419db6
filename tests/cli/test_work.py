"""A worker made of shell commands, and many jobs from a file."""

from typing import Any

import pytest

from franca.node import exits
from tests.cli.conftest import Shell
from tests.cli.double import Double, Refusal

LEASED = {
    "job": {"id": 7, "name": "n", "queue": "q", "type": "t", "args": [1.5, "a\x1b"], "attempt": 1},
    "token": "tok-1",
    "lease_until": "2026-01-31T12:00:00Z",
}


def test_a_job_is_taken_with_its_token_and_arguments(shell: Shell, double: Double) -> None:
    double.answers["work.lease"] = LEASED
    told = shell("work", "lease", "mail", "news", "--wait", "2m", "--lease", "1m", "--worker", "me")
    assert told.stdout == '7 tok-1 [1.5, "a\\u001b"]\n'
    assert double.asked == [
        ("work.lease", {"queues": ["mail", "news"], "wait_ms": 120_000, "worker": "me", "lease_ms": 60_000})
    ]  # fmt: skip
    assert shell.json("work", "lease", "mail") == LEASED


def test_if_there_is_none_it_is_not_found(shell: Shell, double: Double) -> None:
    double.answers["work.lease"] = {"job": None, "token": None, "lease_until": None}
    assert "no job" in shell("work", "lease", "mail", code=exits.NOT_FOUND).stderr


@pytest.mark.parametrize(
    ("words", "op", "said"),
    [
        (["ack", "7", "tok"], "work.ack", {}),
        (["ack", "7", "tok", '{"a": 1}'], "work.ack", {"result": {"a": 1}}),
        (["ack", "7", "tok", "done it"], "work.ack", {"result": "done it"}),
        (["fail", "7", "tok", "broke"], "work.fail", {"error": "Failed", "text": "broke"}),
        (["fail", "7", "tok", "--error", "E"], "work.fail", {"error": "E", "text": ""}),
        (["heartbeat", "7", "tok"], "work.heartbeat", {}),
        (["heartbeat", "7", "tok", "--lease", "5m"], "work.heartbeat", {"lease_ms": 300_000}),
        (["progress", "7", "tok", "3", "4.5"], "work.progress", {"n": 3, "of": 4.5, "text": ""}),
        (["progress", "7", "tok", "--text", "at it"], "work.progress", {"text": "at it"}),
    ],
)
def test_what_becomes_of_it_is_reported(
    shell: Shell, double: Double, words: list[str], op: str, said: dict[str, Any]
) -> None:
    double.answers[op] = {"id": 7, "state": "done"}
    assert shell("work", *words).stdout == ""
    assert double.asked == [(op, {"job": "7", "token": "tok"} | said)]


def test_a_token_of_an_ended_lease_is_refused(shell: Shell, double: Double) -> None:
    def refuse(params: dict[str, Any]) -> None:
        raise Refusal("not-leased", "the lease has ended")

    double.answers["work.ack"] = refuse
    assert "has ended" in shell("work", "ack", "7", "old", code=exits.FAILURE).stderr


# -- many jobs --------------------------------------------------------------------------------


def take(params: dict[str, Any]) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    for number, job in enumerate(params["jobs"], 1):
        taken = {"id": number, "name": "n", "state": "ready", "error": None}
        answers.append(taken if job.get("queue") else {"id": None, "error": "a job needs a queue"})
    return {"jobs": answers}


def test_many_jobs_are_submitted_and_their_ids_printed(shell: Shell, double: Double) -> None:
    double.answers["jobs.submit"] = take
    text = '{"queue":"q","type":"t","args":[1.0]}\n{"queue":"q","type":"t"}\n'
    assert shell("jobs", "submit", typed=text).stdout == "1\n2\n"
    assert double.params_of("jobs.submit")[0]["jobs"][0] == {
        "queue": "q",
        "type": "t",
        "args": [1.0],
    }


def test_of_many_jobs_those_that_are_refused_are_told(shell: Shell, double: Double) -> None:
    double.answers["jobs.submit"] = take
    told = shell("jobs", "submit", typed='{"queue":"q"}\n{}\n', code=exits.FAILURE)
    assert told.stdout == "1\n"
    assert told.stderr == "line 2: a job needs a queue\nError: 1 job of 2 not submitted\n"
    wrong = shell("jobs", "submit", typed='{"queue":"q"}\nnonsense\n', code=exits.FAILURE)
    assert "line 2 is not JSON" in wrong.stderr
