"""Faktory: whose report counts, text that is not Unicode, and what a producer says of a job."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from tests.cases.conftest import StartServer, under_test
from tests.support.faktory import Faktory, Reply, job, push_line
from tests.support.gearman import Gearman
from tests.support.server import Server
from tests.support.shared import emptied

LATER = "2099-01-01T00:00:00Z"


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with under_test(tmp_path_factory.mktemp("faktory") / "data") as server:
        yield server


@pytest.fixture
def server(request: pytest.FixtureRequest, shared_server: Server) -> Iterator[Server]:
    yield from emptied(shared_server, request.session)


@contextmanager
def client(server: Server, wid: str | None = None) -> Iterator[Faktory]:
    with Faktory(server.port) as connection:
        yield connection.hello(wid)


def sets(connection: Faktory) -> dict[str, int]:
    found: dict[str, int] = connection.info()["faktory"]["sets"]
    return found


def answer(connection: Faktory, line: bytes | str) -> Reply:
    """The reply, or an assertion that the server has hung up instead."""
    try:
        return connection.call(line)
    except OSError as error:
        raise AssertionError(f"no answer to {line[:80]!r}: {error}") from None


def deliver_again(connection: Faktory, jid: str) -> None:
    """Let a job fail that this connection holds, and be ready at once."""
    connection.fail(jid)
    assert connection.call('MUTATE {"cmd":"requeue","target":"retries"}').text == "OK"


# -- one peer's trouble stays with that peer ---------------------------------------------------------


@pytest.mark.case(4)
def test_a_job_that_is_gone_before_its_worker_hears_of_it_hurts_nobody(server: Server) -> None:
    with client(server, "quiet") as quiet, client(server, "other") as other, client(server) as peer:
        quiet.say("FETCH a")
        other.say("FETCH b")
        for worker in ("quiet", "other"):
            peer.beat(worker)
        peer.say(
            push_line(job("jid-0001", queue="a")),
            "FLUSH",
            'BEAT {"wid":"quiet","current_state":"quiet"}',
            push_line(job("jid-0002", queue="b")),
        )
        other.set_timeout(5)
        try:
            found = other.read()
        except OSError as error:
            raise AssertionError(f"another worker's FETCH is never answered: {error}") from None
        assert json.loads(found.body or b"{}").get("jid") == "jid-0002"
        assert [peer.read().kind for _ in range(4)] == ["+", "+", "$", "+"]
        assert json.loads(quiet.read().body or b"{}").get("jid") in (None, "jid-0001")


# -- whose report counts -----------------------------------------------------------------------------


@pytest.mark.case(14)
@pytest.mark.parametrize(("verb", "left"), [("ACK", 0), ("FAIL", 1)])
def test_without_a_wid_a_later_delivery_is_reported(verb: str, left: int, server: Server) -> None:
    with client(server) as first, client(server) as second, client(server) as reporter:
        first.push(job("jid-0001"))
        assert first.fetch("default")
        deliver_again(first, "jid-0001")
        assert second.fetch("default")
        reply = reporter.call(f'{verb} {{"jid":"jid-0001"}}')
        assert reply.text == "OK", f"{verb} was answered {reply.text}"
        assert sets(reporter)["working"] == 0, f"{verb} was answered OK and ignored"
        assert sets(reporter)["retries"] == left


@pytest.mark.case(14)
@pytest.mark.parametrize(("verb", "left"), [("ACK", 0), ("FAIL", 1)])
def test_a_worker_with_a_new_wid_reports_its_job(verb: str, left: int, server: Server) -> None:
    with client(server, "worker-1") as worker:
        worker.push(job("jid-0001"))
        assert worker.fetch("default")
    server.restart()
    with client(server, "worker-2") as again:
        reply = again.call(f'{verb} {{"jid":"jid-0001"}}')
        assert reply.text == "OK", f"{verb} was answered {reply.text}"
        assert sets(again)["working"] == 0, f"{verb} was answered OK and ignored"
        assert sets(again)["retries"] == left


# -- text that is not Unicode ------------------------------------------------------------------------

BROKEN = [(rb"a\ud800b", "a\ufffdb"), (b"a\xffb", "a\ufffdb"), (rb"\ude00\ud83d", "\ufffd\ufffd")]


@pytest.mark.case(15)
@pytest.mark.parametrize(("broken", "mended"), BROKEN)
def test_a_failure_with_broken_text_is_taken(broken: bytes, mended: str, server: Server) -> None:
    with client(server, "worker-1") as worker:
        worker.push(job("jid-0001"))
        assert worker.fetch("default")
        line = b'FAIL {"jid":"jid-0001","message":"%b","errtype":"%b","backtrace":["%b"]}'
        reply = worker.call(line % (broken, broken, broken))
        assert reply.text == "OK", f"FAIL was refused: {reply.text}"
        worker.call('MUTATE {"cmd":"requeue","target":"retries"}')
        found = worker.fetch("default") or {}
        failure = found["failure"]
        assert (failure["message"], failure["errtype"]) == (mended, mended)
        assert failure["backtrace"] == [mended]


@pytest.mark.case(15)
@pytest.mark.parametrize(("broken", "mended"), BROKEN)
def test_a_job_with_broken_text_is_pushed(broken: bytes, mended: str, server: Server) -> None:
    with client(server) as connection:
        unit = (
            b'{"jid":"jid-0001%b","jobtype":"t%b","args":["%b",{"k%b":1.50}],"custom":{"c":"%b"}}'
        )
        reply = connection.call(b"PUSH " + unit % ((broken,) * 5))
        assert reply.text == "OK", f"PUSH was refused: {reply.text}"
        reply = connection.call("FETCH default")
        assert b'"k%b":1.50}' % mended.encode() in (reply.body or b"")
        found: dict[str, Any] = json.loads(reply.body or b"")
        assert (found["jid"], found["jobtype"]) == (f"jid-0001{mended}", f"t{mended}")
        assert (found["args"], found["custom"]) == ([mended, {f"k{mended}": 1.5}], {"c": mended})
        assert connection.call(b'ACK {"jid":"jid-0001%b"}' % broken).text == "OK"
        assert sets(connection)["working"] == 0


@pytest.mark.case(15)
@pytest.mark.parametrize("broken", [broken for broken, _ in BROKEN])
def test_a_job_with_broken_text_does_not_fail_a_whole_pushb(broken: bytes, server: Server) -> None:
    with client(server) as connection:
        units = [b'{"jid":"jid-000%d","jobtype":"t","args":[%d]}' % (i, i) for i in range(5)]
        units[2] = b'{"jid":"jid-0002","jobtype":"t","args":["%b"]}' % broken
        reply = connection.call(b"PUSHB [%b]" % b",".join(units))
        assert reply.text == "{}", f"PUSHB was answered {reply.text}"
        assert connection.info()["faktory"]["queues"] == {"default": 5}


@pytest.mark.case(15)
@pytest.mark.parametrize("broken", [broken for broken, _ in BROKEN])
def test_a_hello_with_broken_text_is_answered(broken: bytes, server: Server) -> None:
    with Faktory(server.port) as connection:
        connection.read()
        hello = b'HELLO {"v":2,"wid":"w-%b","hostname":"h-%b","pid":1,"labels":["%b"]}'
        assert answer(connection, hello % (broken, broken, broken)).text == "OK"
        assert answer(connection, b'BEAT {"wid":"w-%b"}' % broken).text == "OK"


# -- what a producer says of a job -------------------------------------------------------------------


@pytest.mark.case(16)
def test_a_half_retried_job_goes_on_where_it_was(server: Server) -> None:
    failure = {
        "retry_count": 1,
        "remaining": 2,
        "failed_at": "2020-01-01T00:00:00Z",
        "message": "elsewhere",
        "errtype": "Moved",
    }
    with client(server, "worker-1") as worker:
        worker.push(job("jid-0001", retry=3, failure=failure))
        found = worker.fetch("default") or {}
        assert found["failure"] == failure
        deliver_again(worker, "jid-0001")
        found = worker.fetch("default") or {}
        told = found["failure"]
        assert (told["retry_count"], told["remaining"]) == (2, 1)
        assert told["failed_at"] == failure["failed_at"]
        worker.fail("jid-0001")
        assert sets(worker) == {"dead": 1, "retries": 0, "scheduled": 0, "working": 0}


@pytest.mark.case(16)
def test_a_half_retried_job_waits_as_long_as_its_count_says(server: Server) -> None:
    with client(server, "worker-1") as worker:
        worker.push(job("jid-0001", failure={"retry_count": 9, "remaining": 16}))
        found = worker.fetch("default")
        assert found is not None
        deliver_again(worker, "jid-0001")
        found = worker.fetch("default") or {}
        told = found["failure"]
        assert told["retry_count"] == 10
        # 10 to the power of 4, and 15, seconds: about three hours.
        assert _seconds(told["next_at"]) - _seconds(told["failed_at"]) >= 10_000


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


@pytest.mark.case(17)
@pytest.mark.parametrize(
    ("member", "one", "other"),
    [
        ("custom", {"tenant": 1}, {"tenant": 2}),
        ("custom", None, {"tenant": 2}),
        ("reserve_for", 60, 120),
        ("reserve_for", None, 120),
        ("retry", 1, 2),
        ("backtrace", 1, 2),
        ("created_at", "2020-01-01T00:00:00Z", "2020-01-01T00:00:01Z"),
        ("failure", {"retry_count": 1}, {"retry_count": 2}),
    ],
)
def test_pushes_that_differ_are_two(
    member: str, one: object, other: object, server: Server
) -> None:
    with client(server) as connection:
        connection.push(job("jid-0001") | {member: one})
        connection.push(job("jid-0001") | {member: other})
        assert connection.info()["faktory"]["queues"] == {"default": 2}
        connection.push(job("jid-0001") | {member: other})
        assert connection.info()["faktory"]["queues"] == {"default": 2}


@pytest.mark.case(18)
def test_a_reservation_that_ran_out_is_counted(start: StartServer) -> None:
    server = start(speaks=("gearman",))
    with client(server) as connection, Gearman(server.ports["gearman"]) as worker:
        connection.push(job("jid-0001", queue="slow"))
        worker.can_do("slow", timeout_ms=1_000)
        assert worker.grab() is not None
        deadline = time.monotonic() + 10
        while sets(connection)["working"]:
            assert time.monotonic() < deadline, "the lease does not run out"
            time.sleep(0.02)
        assert connection.info()["faktory"]["tasks"]["Busy"]["reaped"] == 1


@pytest.mark.case(18)
@pytest.mark.parametrize("pattern", ["Send*", "S?ndMail", "[RS]endMail"])
def test_a_jobtype_may_be_a_pattern(pattern: str, server: Server) -> None:
    with client(server) as connection:
        connection.push(job("jid-0001", jobtype="SendMail", at=LATER))
        connection.push(job("jid-0002", jobtype="Other", at=LATER))
        order = {"cmd": "discard", "target": "scheduled", "filter": {"jobtype": pattern}}
        assert connection.call(f"MUTATE {json.dumps(order)}").text == "OK"
        assert sets(connection)["scheduled"] == 1, f"{pattern} fits SendMail and nothing else"


@pytest.mark.case(18)
@pytest.mark.parametrize(
    "number",
    ["1e400", "-1e999", "1E+400", "0.1e00400", "9" * 400, "9" * 5_000, "1" + "0" * 250 + "e99"],
)
@pytest.mark.parametrize("shape", ["[%s]", '[{"a":[0,{"b":%s}]}]'])
def test_a_number_that_is_no_double_is_refused(number: str, shape: str, server: Server) -> None:
    with client(server) as connection:
        unit = f'{{"jid":"jid-0001","jobtype":"t","args":{shape % number}}}'
        assert answer(connection, f"PUSH {unit}").is_error, f"{number[:20]} was taken"
        good = '{"jid":"jid-0002","jobtype":"t","args":["1e400"]}'
        refused = json.loads(answer(connection, f"PUSHB [{good},{unit}]").body or b"")
        assert list(refused) == ["jid-0001"]
        assert connection.info()["faktory"]["queues"] == {"default": 1}
