"""Names and workloads that a dialect cannot carry, and jobs that are too large for it."""

import json

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.periodic import admin_commands, text
from tests.protocols.periodic.puppet import World
from tests.support import periodic as p
from tests.support.periodic import DOC, SEPARATOR

SMALL = 10_000


@pytest.fixture
def small_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "JSON_BYTES_MAX", SMALL)
    monkeypatch.setattr(text.DocDialect, "workload_max", SMALL)


def raw_job(func: bytes, name: bytes, workload: bytes = b"") -> bytes:
    head = bytes([len(func)]) + func + bytes([len(name)]) + name
    return head + len(workload).to_bytes(4) + workload + bytes(9)


# -- dumps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "job", [raw_job(b"f", b"\xff\xfe"), raw_job(b"\xff", b"n"), raw_job(b"f", b"n", b"\xff\0")]
)
def test_a_dump_in_json_of_what_json_cannot_carry_is_refused(job: bytes) -> None:
    world = World(dialect="doc")
    assert world.peer().word(p.SUBMIT_JOB, job) == p.SUCCESS
    assert world.peer(DOC).word(p.DUMP) == p.UNKNOWN
    assert world.peer().ask(p.DUMP).data == (1).to_bytes(8) + job


@pytest.mark.parametrize(
    ("job", "is_carried"),
    [
        (raw_job(b"f", b"a" + SEPARATOR), False),
        (raw_job(b"f" + SEPARATOR + b"g", b"n"), False),
        (raw_job(b" {f", b"n"), False),
        (raw_job(b"func", b"\xff\xfe", b"\xff" + SEPARATOR), True),
    ],
)
def test_a_dump_in_fields_is_what_a_load_takes_or_is_refused(job: bytes, is_carried: bool) -> None:
    world = World(dialect="text")
    assert world.peer().word(p.SUBMIT_JOB, job) == p.SUCCESS
    peer = world.peer(DOC)
    peer.bytes_heard()
    peer.say(p.DUMP)
    heard = peer.heard()
    if not is_carried:
        assert [message.command for message in heard] == [p.UNKNOWN]
        return
    other = World(dialect="text")
    loader = other.peer(DOC)
    loader.say(p.LOAD, heard[0].data)
    assert other.peer().ask(p.DUMP).data == (1).to_bytes(8) + job


def test_a_name_that_is_too_long_for_todays_dialect_is_not_dumped_as_another(world: World) -> None:
    old = world.peer(DOC)
    old.submit("f", "n" * 300)
    assert world.peer().word(p.DUMP) == p.UNKNOWN
    old.say(p.DUMP)
    page, end = old.heard()
    assert (json.loads(page.data)["jobs"][0]["name"], end.data) == ("n" * 300, b"EOF")


# -- names of jobs that are given out --------------------------------------------------------------


def test_a_job_whose_name_a_worker_cannot_read_is_given_under_its_number(world: World) -> None:
    client, worker = world.peer(), world.worker("f", dialect=DOC)
    assert client.word(p.SUBMIT_JOB, raw_job(b"f", b"\xff\xfe")) == p.SUCCESS
    job = worker.grab()
    assert job.name == "#1"
    worker.done(job)
    assert not world.jobs()


# -- large jobs in JSON ----------------------------------------------------------------------------


def in_json(workload: str, name: str = "n") -> bytes:
    return json.dumps({"func": "f", "name": name, "workload": workload}).encode()


@pytest.mark.usefixtures("small_json")
def test_a_job_in_json_that_is_too_large_is_refused_and_noted(world: World) -> None:
    client = world.peer(DOC)
    assert client.word(p.SUBMIT_JOB, in_json("x" * SMALL)) == p.UNKNOWN
    assert any("JSON" in notice.reason for notice in world.engine.notices)
    assert client.word(p.SUBMIT_JOB, in_json("x" * (SMALL - 100))) == p.SUCCESS
    for jobs in (b'{"x":"' + b"y" * 2 * SMALL + b'"}', b" " * 2 * SMALL + b'{"x":1}'):
        client.say(p.LOAD, b'{"jobs":[' + in_json("w", "a") + b"," + jobs + b"]}")
    assert sorted(job.name for job in world.jobs()) == ["a", "n"]


@pytest.mark.usefixtures("small_json")
@pytest.mark.parametrize("dialect", ["auto", "doc"])
def test_a_job_that_is_too_large_for_a_workers_dialect_is_for_another(dialect: str) -> None:
    world = World(dialect=dialect)
    client, old = world.peer(), world.worker("f", dialect=DOC)
    client.submit("f", "large", b"x" * (SMALL + 1))
    client.submit("f", "small", b"x")
    old.say(p.GRAB_JOB, msgid=b"7")
    if dialect == "doc":
        assert old.words() == [p.NO_JOB]
        old.say(p.GRAB_JOB, msgid=b"7")
    assert [job.name for job in old.assigned()] == ["small"]
    assert [job.name for job in world.jobs(State.WAITING)] == ["large"]
    assert any("cannot be given" in notice.reason for notice in world.engine.notices)
    world.pass_time(1_100)
    assert world.worker("f").grab().name == "large"


@pytest.mark.usefixtures("small_json")
def test_a_job_for_all_that_is_too_large_for_one_is_for_the_others(world: World) -> None:
    workers = [world.broadcaster() for _ in range(2)]
    workers[0].conversation.dialect = text.DocDialect()
    world.peer().submit("f", "n", bytes(SMALL + 1))
    assert len(workers[1].assigned()) <= 1
    assert not world.service.copies.taken


def test_a_load_of_long_json_is_taken_in_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_commands, "LOAD_BYTES", 3_000)
    world = World(limits=Limits())
    client = world.peer(DOC)
    jobs = [
        b'{"func":"f","name":"n%d","workload":"","more":"%b"}' % (n, b"x" * 2_000)
        for n in range(20)
    ]
    args = b'{"jobs":[' + b",".join(jobs) + b"]}"
    world.turn((client, client.message(p.LOAD, args, b"7")))
    assert world.broker.totals.pushed == 2
    world.run()
    assert len(world.jobs()) == 20
    world.peer().submit()
