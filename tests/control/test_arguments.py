"""What is shown of jobs whose protocol puts more around their arguments: what people sent."""

import json
from typing import Any

import pytest

from franca.control.arguments import LOOKED_BYTES, beginning_of, whole_of
from franca.control.fill import job_of
from franca.core.model import HISTORY_BODY_BYTES, NewJob, Policy, State
from franca.protocols.bodies import BYTES, JSON_ARGS, JSON_CALL, JSON_JOB
from franca.protocols.faktory.jobs import Intake
from franca.web.redact import Redaction
from tests.control.kit import NOW, FakeNode

ARGS = '[1.50,{"to":"anna ]}","args":[7],"n":12345678901234567890},"a\\\\","\\"args\\":[2]"]'
CUSTOM = '{"args":[9],"x":["]",{"args":[8]}]}'


def pushed(args: str = ARGS, **members: Any) -> FakeNode:
    node = FakeNode()
    unit = {"jid": "12345678", "jobtype": "Send", "queue": "q", **members}
    text = json.dumps(unit)[:-1] + f',"args":{args}}}'
    assert Intake(node.broker).push(text.encode(), NOW)
    node.commit()
    return node


@pytest.mark.parametrize("members", [{}, {"custom": json.loads(CUSTOM)}, {"backtrace": 3}])
def test_the_arguments_are_shown_to_the_byte_and_the_rest_beside_them(
    members: dict[str, Any],
) -> None:
    node = pushed(**members)
    row, job = node.do("jobs.search")["jobs"][0], node.do("jobs.get", job="12345678")
    assert row["args"] == job["args"] == ARGS
    size = len(ARGS.encode())
    assert job["body"] == {"media": JSON_ARGS, "text": ARGS, "bytes": size, "cut": False}
    assert job["envelope"]["media"] == JSON_JOB
    assert job["envelope"]["text"].encode() == node.broker.jobs[1].body


def test_the_body_of_a_long_job_is_cut_and_its_size_is_that_of_its_arguments() -> None:
    args = '["' + "x" * 2_000_000 + '"]'
    body = pushed(args).do("jobs.get", job=1)["body"]
    assert (body["bytes"], body["cut"], body["media"]) == (len(args), True, JSON_ARGS)
    assert args.startswith(body["text"])
    assert len(body["text"]) == 1024 * 1024


def test_arguments_longer_than_is_looked_at_in_searches_are_whole_where_they_are_shown() -> None:
    args = '["' + "x" * LOOKED_BYTES + '"]'
    body = pushed(args).do("jobs.get", job=1)["body"]
    assert (body["text"], body["cut"]) == (args, False)


def test_of_a_job_that_is_remembered_the_end_may_be_missing() -> None:
    for args, is_cut in ((ARGS, False), ('["' + "x" * 5_000 + '"]', True)):
        job = pushed(args, backtrace=1).broker.jobs[1]
        job.state, job.body = State.DONE, job.body[:HISTORY_BODY_BYTES]
        body = job_of(job).body
        assert body is not None
        assert isinstance(body.text, str)
        assert (body.cut, body.media) == (is_cut, JSON_ARGS)
        assert body.text
        assert args.startswith(body.text)


def test_nothing_is_shown_of_arguments_that_do_not_begin_where_is_looked() -> None:
    node = pushed(custom={"long": "x" * 2_000})
    assert node.do("jobs.search")["jobs"][0]["args"] is None
    assert node.do("jobs.get", job=1)["body"]["text"] == ARGS


@pytest.mark.parametrize("media", [BYTES, JSON_ARGS, JSON_CALL])
def test_of_all_others_it_is_what_they_sent(media: str) -> None:
    node = FakeNode()
    body = b'["run",{"args":[1]}]'
    node.broker.submit(NewJob("q", "k", body, Policy(), media=media), NOW)
    node.commit()
    job = node.do("jobs.get", job=1)
    assert (job["args"], job["envelope"]) == (body.decode(), None)
    assert (job["body"]["text"], job["body"]["media"]) == (body.decode(), media)


@pytest.mark.parametrize("body", [b"", b"text", b'{"retry":1}', b'{"args":1}', b"]]]", b'{"args":'])
def test_what_only_says_that_it_is_a_work_unit_is_shown_as_it_is(body: bytes) -> None:
    assert beginning_of(JSON_JOB, body) == (b"", False)
    assert whole_of(JSON_JOB, body) == (JSON_JOB, body, True)


@pytest.mark.parametrize("q", ["arg:anna", "arg:1.50", "arg:12345678901234567890", "anna", "ANNA"])
def test_a_search_looks_at_what_is_shown(q: str) -> None:
    assert pushed().do("jobs.search", q=q)["total"] == 1


@pytest.mark.parametrize("q", ["arg:created_at", "arg:retry", "reserve_for", "arg:jobtype"])
def test_a_search_looks_at_nothing_else(q: str) -> None:
    assert pushed().do("jobs.search", q=q)["jobs"] == []


def test_what_is_secret_is_hidden_in_all_of_it() -> None:
    node = pushed('[{"password":"tiger","to":"anna"}]', custom={"password": "lion"})
    redaction = Redaction(["password"])
    shown = json.dumps(redaction.shown([node.do("jobs.get", job=1), node.do("jobs.search")]))
    assert "anna" in shown
    assert "tiger" not in shown
    assert "lion" not in shown
