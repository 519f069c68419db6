"""jobs, queues, workers and the server as a whole, from the command line."""

import pytest

from franca.control import client, job_actions
from franca.core.model import State
from franca.node import exits
from tests.cli.conftest import Shell
from tests.control.kit import NOW, FakeNode

# -- jobs -------------------------------------------------------------------------------------


def test_jobs_are_listed_newest_first_in_columns(shell: Shell, node: FakeNode) -> None:
    node.submit("mail", "Send", name="first")
    node.submit_dead("mail", name="second")
    lines = [line.split() for line in shell("jobs", "ls").stdout.splitlines()]
    assert lines[0] == ["ID", "STATE", "QUEUE", "TYPE", "NAME", "AGE", "TRIES", "ERROR"]
    assert lines[1][:5] == ["2", "dead", "mail", "k", "second"]
    assert lines[2][:5] == ["1", "ready", "mail", "Send", "first"]


def test_an_empty_list_is_only_its_head(shell: Shell, node: FakeNode) -> None:
    assert len(shell("jobs", "ls").stdout.splitlines()) == 1
    assert shell.json("jobs", "ls") == {"jobs": [], "after": None}


def test_jobs_are_filtered_and_paged(shell: Shell, node: FakeNode) -> None:
    for number in range(3):
        node.submit("a" if number else "b", f"t{number}", name=f"n{number}")

    def ids(*words: str) -> list[int]:
        return [job["id"] for job in shell.json("jobs", "ls", *words)["jobs"]]

    assert ids() == [3, 2, 1]
    assert ids("--oldest-first") == [1, 2, 3]
    assert ids("--queue", "a") == [3, 2]
    assert ids("--type", "t1") == [2]
    assert ids("--name", "n0") == [1]
    assert ids("--state", "dead", "--state", "ready") == [3, 2, 1]
    assert ids("--limit", "2", "--after", "3") == [2, 1]
    assert "--after 2" in shell("jobs", "ls", "--limit", "2").stderr
    shell("jobs", "ls", "--state", "nonsense", code=exits.USAGE)


def test_a_job_is_shown_with_its_story(shell: Shell, node: FakeNode) -> None:
    node.submit(name="mine").body = b'[1.50, "\\u001b"]'
    node.fail(node.lease(), "it \x1b[31mbroke")
    shown = shell("jobs", "show", "mine").stdout
    assert "it \\u001b[31mbroke" in shown
    assert '[1.50,"\\u001b"]' in shown
    assert "      line 1" in shown
    assert shell.json("jobs", "show", "1")["jobs"][0]["story"][0]["how"] == "failed"
    assert "no job 77" in shell("jobs", "show", "77", code=exits.NOT_FOUND).stderr


def test_people_read_todays_words_and_scripts_the_ones_that_they_know(
    shell: Shell, node: FakeNode
) -> None:
    job = node.submit(media="json-job", origin="faktory", run_at=NOW + 9_000)
    job.body = b'{"retry":3,"jid":"12345678","args":[1.50,{"a":2}]}'
    node.submit("l")
    node.lease("l")
    shown = [line.split() for line in shell("jobs", "show", "1").stdout.splitlines()]
    words = {line[0]: " ".join(line[1:]) for line in shown}
    assert (words["state"], words["via"], words["args"]) == (
        "scheduled", "faktory", '[1.50,{"a":2}]',
    )  # fmt: skip
    node.broker.jobs[1].failures = 1
    assert "retrying" in shell("jobs", "show", "1").stdout
    shown = [line.split() for line in shell("jobs", "show", "2").stdout.splitlines()]
    assert ["state", "running"] in shown
    assert ["worker", "worker-1"] in shown
    told = shell.json("jobs", "show", "2")["jobs"][0]
    assert (told["state"], told["holder"], told["origin"]) == ("leased", "worker-1", "")
    assert shell.json("jobs", "show", "1")["jobs"][0]["body"]["retry"] == 3
    assert " idle " in shell("workers", "ls").stdout
    assert shell.json("workers", "ls")["workers"][0]["state"] == "running"


@pytest.mark.parametrize(
    ("verb", "past", "after"),
    [
        ("retry", "retried", State.READY),
        ("kill", "killed", State.DEAD),
        ("cancel", "cancelled", State.CANCELLED),
        ("delete", "deleted", State.CANCELLED),
    ],
)
def test_jobs_are_steered(shell: Shell, node: FakeNode, verb: str, past: str, after: State) -> None:
    node.submit(run_at=NOW + 1000)
    node.submit(run_at=NOW + 1000, name="by-name")
    assert shell("jobs", verb, "1", "by-name").stdout == f"2 jobs {past}\n"
    states = {job["state"] for job in shell.json("jobs", "ls")["jobs"]}
    assert states == {after.name.lower()}


def test_what_could_not_be_steered_is_told_apart(shell: Shell, node: FakeNode) -> None:
    node.submit()
    skipped = shell("jobs", "retry", "1", code=exits.FAILURE)
    assert skipped.stderr == "Job 1 is ready: not retried.\n"
    missing = shell("jobs", "cancel", "1", "nobody", code=exits.NOT_FOUND)
    assert (missing.stdout, missing.stderr) == ("1 job cancelled\n", "There is no job nobody.\n")


def test_a_server_of_an_earlier_release_skips_without_a_reason(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = b'{"count":0,"missing":["x"],"skipped":[{"job":"1","state":"ready"}]}'
    monkeypatch.setattr(client, "call", lambda *_, **__: reply)
    skipped = shell("jobs", "retry", "1", "x", code=exits.NOT_FOUND)
    assert skipped.stderr == "There is no job x.\nJob 1 is ready: not retried.\n"


def test_a_job_that_refuses_is_told_with_its_reason(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_actions, "SKIPPED_MAX", 1)
    for number in range(3):
        node.submit_dead(key=f"k{number}")
    node.submit(key="k1")
    node.submit(key="k2")
    told = shell("jobs", "retry", "--state", "dead", code=exits.FAILURE)
    assert told.stdout == "1 job retried\n"
    assert told.stderr == (
        "Job 2 is dead: not retried, another live job of queue 'q' has this key.\n"
        "1 job more: not retried.\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "ls", "--queue", "\udcff"],
        ["jobs", "ls", "--after", str(2**63)],
        ["jobs", "show", "\udcff"],
        ["jobs", "kill", "\udcff"],
        ["queues", "pause", "\udcff"],
        ["queues", "purge", "\udcff", "--yes"],
        ["workers", "quiet", "\udcff"],
        ["backup", "/tmp/\udcff"],
        ["push", "\udcff", "t"],
        ["push", "q", "\udcff"],
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_words_that_are_no_text_are_a_wrong_use(
    shell: Shell, node: FakeNode, words: list[str]
) -> None:
    error = shell(*words, code=exits.USAGE).stderr
    assert "is not UTF-8" in error or "is not in the range" in error


def test_a_filter_that_ends_jobs_must_be_confirmed(shell: Shell, node: FakeNode) -> None:
    node.submit("a")
    assert "--yes" in shell("jobs", "delete", "--queue", "a", code=exits.USAGE).stderr
    assert node.broker.jobs
    assert shell("jobs", "delete", "--queue", "a", "--yes").stdout == "1 job deleted\n"
    shell("jobs", "delete", "--yes", code=exits.USAGE)


def test_a_filter_that_ends_nothing_needs_no_confirmation(shell: Shell, node: FakeNode) -> None:
    node.submit_dead()
    assert shell("jobs", "retry", "--state", "dead").stdout == "1 job retried\n"
    shell("jobs", "retry", "1", "--state", "dead", code=exits.USAGE)


# -- queues -----------------------------------------------------------------------------------


def test_queues_are_listed_paused_and_resumed(shell: Shell, node: FakeNode) -> None:
    node.submit("mail")
    node.now += 65_000
    assert shell("queues", "pause", "mail").stdout == ""
    lines = [line.split() for line in shell("queues", "ls").stdout.splitlines()]
    assert lines[1] == ["mail", "1", "0", "0", "0", "0", "1m", "yes"]
    shell("queues", "resume", "mail")
    assert shell.json("queues", "ls")["queues"][0]["paused"] is False
    assert "no queue nowhere" in shell("queues", "pause", "nowhere", code=exits.NOT_FOUND).stderr


def test_a_purge_asks_first(shell: Shell, node: FakeNode) -> None:
    node.submit("mail")
    assert "--yes" in shell("queues", "purge", "mail", code=exits.USAGE).stderr
    assert node.broker.jobs
    assert shell("queues", "purge", "mail", "--yes").stdout == "1 job removed\n"


# -- workers and the server -------------------------------------------------------------------


def test_workers_are_listed_and_asked(shell: Shell, node: FakeNode) -> None:
    lines = shell("workers", "ls").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "anna", "bert"]
    assert shell("workers", "quiet", "anna").stdout == "1 worker asked\n"
    assert shell("workers", "stop", "--all").stdout == "2 workers asked\n"
    assert node.two.asked == [("anna", "quiet"), ("anna", "stop"), ("bert", "stop")]
    assert "zoe" in shell("workers", "stop", "zoe", code=exits.NOT_FOUND).stderr
    shell("workers", "stop", code=exits.USAGE)


def test_the_server_tells_how_it_is_and_stops(shell: Shell, node: FakeNode) -> None:
    assert shell.json("status")["version"] == "test"
    assert shell("status").stdout.startswith("Franca test, up 0ms, pid 1\n")
    shell("stop")
    assert node.stopping


def test_a_backup_that_fails_is_told(shell: Shell, node: FakeNode) -> None:
    assert "exists" in shell("backup", "there.db", code=exits.FAILURE).stderr


def test_the_data_directory_may_be_named(shell: Shell, node: FakeNode) -> None:
    shell("status", "--data", str(shell.data))
    shell("status", "--data", str(shell.data / "elsewhere"), code=exits.NO_CONNECTION)
