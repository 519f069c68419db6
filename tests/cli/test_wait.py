"""`franca push --wait` and `--priority`."""

import threading

import pytest

import franca.cli.push as pushing
from franca.cli.remote import Failed, Remote
from franca.core.model import Job, JobQuery
from franca.node import exits
from tests.cli.conftest import Shell
from tests.cli.double import Double
from tests.control.kit import FakeNode

ENDED = {"id": 1, "state": "done", "error": None, "result": None}


@pytest.mark.parametrize(
    ("result", "printed"),
    [
        (None, ""),
        ({"sum": 3}, '{"sum":3}\n'),
        ("a text \x1b", "a text \\u001b\n"),
        (12345678901234567890123, "12345678901234567890123\n"),
    ],
)
def test_the_result_is_printed(shell: Shell, double: Double, result: object, printed: str) -> None:
    states = iter(["ready", "leased", "done"])
    double.answers["jobs.push"] = {"id": 1, "name": "n", "state": "ready"}
    double.answers["jobs.show"] = lambda params: {
        "jobs": [ENDED | {"state": next(states), "result": result}]
    }
    told = shell("push", "q", "t", "--wait").stdout
    assert told.replace(": ", ":") == printed.replace(": ", ":")
    assert double.params_of("jobs.show") == [{"job": 1}] * 3


def test_a_job_that_ends_in_another_way_is_a_failure(shell: Shell, double: Double) -> None:
    double.answers["jobs.push"] = {"id": 1, "name": "n", "state": "ready"}
    double.answers["jobs.show"] = {"jobs": [ENDED | {"state": "dead", "error": "E: broke"}]}
    told = shell("push", "q", "t", "--wait", code=exits.FAILURE)
    assert told.stderr == "Error: job 1 is dead: E: broke\n"
    assert told.stdout == ""


def test_programs_get_the_whole_job(shell: Shell, double: Double) -> None:
    double.answers["jobs.push"] = {"id": 1, "name": "n", "state": "ready"}
    double.answers["jobs.show"] = {"jobs": [ENDED]}
    assert shell.json("push", "q", "t", "--wait") == ENDED


def test_who_waits_in_vain_is_told_so(shell: Shell, node: FakeNode) -> None:
    node.submit()
    server = Remote(str(shell.data), "", 60_000, as_json=False)
    with pytest.raises(Failed, match="job 1 is still ready") as failed:
        pushing.wait_for(server, 1, deadline=0.0)
    assert failed.value.exit_code == exits.TIMED_OUT


def test_a_real_job_is_waited_for_until_a_worker_has_done_it(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()
    monkeypatch.setattr("franca.cli.push.time.sleep", lambda span_s: looked.set())
    find_stored = node.find

    async def find(query: JobQuery) -> list[Job]:
        if looked.is_set() and node.broker.jobs:
            job = node.lease("q")
            node.broker.finish(job, job.holder, b'{"n": 1.50}', node.now)
            node.commit()
        return await find_stored(query)

    monkeypatch.setattr(node, "find", find)
    assert shell("push", "q", "t", "--wait").stdout == '{"n":1.50}\n'


def test_a_priority_is_told_only_if_it_is_given(shell: Shell, double: Double) -> None:
    double.answers["jobs.push"] = {"id": 1, "name": "n", "state": "ready"}
    shell("push", "q", "t", "--priority", "-3")
    shell("push", "q", "t")
    first, second = double.params_of("jobs.push")
    assert first["priority"] == -3
    assert "priority" not in second
