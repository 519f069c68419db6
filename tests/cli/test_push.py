"""`franca push`: what becomes of its words."""

import pytest

from franca.node import exits
from tests.cli.conftest import Shell
from tests.control.kit import NOW, FakeNode


def body(node: FakeNode, job_id: str) -> bytes:
    return node.broker.jobs[int(job_id)].body


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], b"[]"),
        (["world"], b'["world"]'),
        (["1", "2.50", "true", "null"], b"[1,2.50,true,null]"),
        (['{"b": 1, "a": [2]}'], b'[{"b":1,"a":[2]}]'),
        (["123456789012345678901234567890"], b"[123456789012345678901234567890]"),
        (['"quoted"', "not json {"], b'["quoted","not json {"]'),
        (["", "NaN", "01"], b'["","NaN","01"]'),
        (["--", "-5", "--dash"], b'[-5,"--dash"]'),
        (["\u00e9\u2028"], '["\u00e9\u2028"]'.encode()),
    ],
)
def test_each_word_is_json_or_else_a_text(
    shell: Shell, node: FakeNode, words: list[str], expected: bytes
) -> None:
    printed = shell("push", "q", "t", *words).stdout.strip()
    assert body(node, printed) == expected


def test_it_prints_the_id_and_nothing_else(shell: Shell, node: FakeNode) -> None:
    assert shell("push", "q", "t").stdout == "1\n"
    assert shell.json("push", "q", "t", "--name", "mine") == {
        "id": 2,
        "name": "mine",
        "state": "ready",
    }


def test_a_dash_reads_all_arguments_from_stdin(shell: Shell, node: FakeNode) -> None:
    printed = shell("push", "q", "t", "-", typed='[ 1.0,\n {"a": 1} ]\n').stdout.strip()
    assert body(node, printed) == b'[1.0,{"a":1}]'
    shell("push", "q", "t", "-", typed="nonsense", code=exits.USAGE)
    shell("push", "q", "t", "-", typed=b'["\xff"]', code=exits.USAGE)
    shell("push", "q", "t", "-", typed='{"not": "a list"}', code=exits.USAGE)


def test_a_job_may_be_for_later(shell: Shell, node: FakeNode) -> None:
    shell("push", "q", "t", "--in", "1h30m")
    shell("push", "q", "t", "--at", "2031-01-31T12:00:00Z")
    shell("push", "q", "t", "--at", "2031-01-31T14:00:00+02:00")
    moments = [node.broker.jobs[number].run_at for number in (1, 2, 3)]
    assert moments == [NOW + 5_400_000, 1_927_627_200_000, 1_927_627_200_000]


@pytest.mark.parametrize(
    "words",
    [
        ["--at", "tomorrow"],
        ["--in", "soon"],
        ["--in", "1h", "--at", "2031-01-31T12:00:00Z"],
        ["--retry", "-1"],
        ["--lease", "1ms"],
        ["--retry", "18446744073709551616"],
        ["--in", "200000000000d"],
        ["--in", "9" * 400 + "d"],
        ["--in", "99999d", "--name", "\udcff"],
        ["--in", "90000000h"],
        ["--at", "9999-12-31T23:59:59-23:59"],
        ["--at", "0001-01-01T00:00:00+23:59"],
        ["--timeout", "0s"],
        ["--timeout", "99999999999999d"],
        ["\udcff"],
        ["--nonsense"],
    ],
)
def test_a_wrong_option_pushes_nothing(shell: Shell, node: FakeNode, words: list[str]) -> None:
    shell("push", "q", "t", *words, code=exits.USAGE)
    assert not node.broker.jobs


def test_retries_and_lease_are_the_pushers_choice(shell: Shell, node: FakeNode) -> None:
    shell("push", "q", "t", "--retry", "3", "--lease", "5m")
    policy = node.broker.jobs[1].policy
    assert (policy.max_failures, policy.lease_ms) == (3, 300_000)


def test_a_full_disk_is_a_failure(shell: Shell, node: FakeNode) -> None:
    node.broker.refusing_new = True
    assert "disk" in shell("push", "q", "t", code=exits.FAILURE).stderr
