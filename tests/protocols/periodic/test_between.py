"""The dialects between the document's and today's, and how a connection's dialect is found out."""

import struct

import pytest

from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support import periodic as p
from tests.support.periodic import BIN, DOC, SEPARATOR, str8


def old_job(func: str, name: str, workload: bytes = b"", at: int = 0, count: int = 0) -> bytes:
    """A job of early 2018: a plain counter at its end."""
    head = str8(func) + str8(name) + struct.pack(">I", len(workload)) + workload
    return head + struct.pack(">qi", at, count)


# -- finding out -----------------------------------------------------------------------------------


def test_a_peer_that_speaks_on_is_not_answered_its_registration(world: World) -> None:
    """The document's clients die of an answer to it."""
    client = world.peer(DOC)
    world.pass_time(900)
    assert client.word(p.PING) == p.PONG
    world.pass_time(5_000)
    assert client.bytes_heard() == b""


def test_a_peer_that_falls_silent_has_its_answer_after_a_second(world: World) -> None:
    client = world.peer(BIN)
    world.pass_time(900)
    assert client.bytes_heard() == b""
    world.pass_time(200)
    answer = client.take_payload()
    assert answer is not None
    assert len(answer) == 4
    assert min(answer) > 1
    world.pass_time(5_000)
    assert client.bytes_heard() == b""


def test_after_the_answer_it_may_speak_either(world: World) -> None:
    binary, text = world.peer(BIN), world.peer(DOC)
    world.pass_time(1_200)
    for client in (binary, text):
        client.bytes_heard()
        assert client.word(p.PING) == p.PONG
    assert (binary.conversation.dialect.name, text.conversation.dialect.name) == ("bin", "text")


@pytest.mark.parametrize(
    ("dialect", "answer"), [("doc", b""), ("text", b"\0RES\0\0\0\2OK"), ("bin", None)]
)
def test_a_listener_may_be_told_the_dialect(dialect: str, answer: bytes | None) -> None:
    world = World(dialect=dialect)
    client = world.peer(DOC)
    heard = client.bytes_heard()
    assert heard == answer if answer is not None else len(heard) == 12
    assert client.conversation.dialect.name == dialect
    assert world.peer().word(p.PING) == p.PONG, "today's cannot be mistaken for another"


def test_a_listener_may_serve_nothing_without_crcs() -> None:
    world = World(dialect="crc")
    client = world.peer(DOC)
    assert client.is_hung_up
    assert world.peer().word(p.PING) == p.PONG


UUIDS = [b"6c84fb9%d-12c4-11e1-840d-7b25c5ee775a" % number for number in range(9)]
FIELDS, JSON = b"f\0\1n", b'{"func":"f","name":"n"}'


@pytest.mark.parametrize(("job", "dialect"), [(FIELDS, "text"), (JSON, "doc")])
def test_npms_clients_are_known_by_their_first_job(world: World, job: bytes, dialect: str) -> None:
    """Those of both times have the same ids and wait for nothing."""
    client = world.peer(DOC)
    assert client.ask(p.PING, msgid=UUIDS[0]).command == p.PONG
    assert client.ask(p.SUBMIT_JOB, job, UUIDS[1]).command == p.SUCCESS
    status = client.ask(p.STATUS, msgid=UUIDS[2]).data
    assert status == (b"f,0,1,0\n" if dialect == "doc" else b"f,0,1,0,%d" % NOW_S)
    assert client.conversation.dialect.name == dialect


@pytest.mark.parametrize(("job", "dialect"), [(FIELDS, "text"), (JSON, "doc"), (b"", "text")])
@pytest.mark.parametrize("crash", [False, True])
def test_npms_workers_are_given_their_first_job_as_it_was_written(
    world: World, job: bytes, dialect: str, crash: bool
) -> None:
    if job:
        assert world.peer(DOC).ask(p.SUBMIT_JOB, job).command == p.SUCCESS
    else:
        world.peer().submit("f", "n")
    if crash:
        world.crash()
    worker = world.connect(DOC).register(p.WORKER)
    worker.say(p.CAN_DO, b"f", UUIDS[0])
    worker.say(p.GRAB_JOB, b"", UUIDS[1])
    (given,) = worker.heard()
    handle, _, task = given.data.partition(SEPARATOR)
    assert (given.msgid, given.command) == (UUIDS[1], p.JOB_ASSIGN)
    assert task.startswith(b"{" if dialect == "doc" else FIELDS)
    worker.say(p.WORK_DONE, handle, UUIDS[2])
    assert (worker.heard(), world.jobs()) == ([], [])


# -- fields of text ----------------------------------------------------------------------------------


def test_a_life_in_fields_of_text() -> None:
    world = World(dialect="text")
    client, worker = world.peer(DOC), world.connect(DOC).register(p.WORKER)
    assert client.take_payload() == worker.take_payload() == b"OK"
    fields = (b"f", b"n", b"%d" % (NOW_S - 9), b"3", b"work\0\1load")
    assert client.word(p.SUBMIT_JOB, SEPARATOR.join(fields)) == p.SUCCESS
    worker.say(p.CAN_DO, b"f")
    worker.say(p.GRAB_JOB)
    (message,) = worker.heard()
    assert message.command == p.JOB_ASSIGN
    handle, *job = message.data.split(SEPARATOR, 5)
    assert (handle, job) == (b"f::n", [b"f", b"n", b"%d" % NOW_S, b"3", b"work\0\1load"])
    assert client.ask(p.STATUS).data == b"f,1,1,1,%d" % NOW_S
    worker.say(p.SCHED_LATER, SEPARATOR.join((handle, b"0", b"2")))
    worker.say(p.GRAB_JOB)
    assert worker.heard()[0].data.split(SEPARATOR)[4] == b"5"
    worker.say(p.WORK_DONE, handle)
    assert world.jobs() == []


def test_dump_and_load_in_fields_of_text() -> None:
    world = World(dialect="text")
    client = world.peer(DOC)
    client.bytes_heard()
    for name in (b"a", b"b"):
        assert client.word(p.SUBMIT_JOB, SEPARATOR.join((b"func", name))) == p.SUCCESS
    client.say(p.DUMP)
    *jobs, eof = [message.data for message in client.heard()]
    assert (len(jobs), eof) == (2, b"EOF")
    assert client.word(p.REMOVE_JOB, b"func\0\1a") == p.SUCCESS
    client.say(p.LOAD, jobs[0])
    assert sorted(job.name for job in world.jobs()) == ["a", "b"]


# -- lengths, without CRCs ----------------------------------------------------------------------------


def binary_pair(world: World) -> tuple[Puppet, Puppet]:
    client, worker = world.peer(BIN), world.connect(BIN).register(p.WORKER)
    for peer in (client, worker):
        peer.bytes_heard()
    return client, worker


@pytest.mark.parametrize("dialect", ["bin", "auto"])
def test_a_life_in_the_dialect_of_2018(dialect: str) -> None:
    world = World(dialect=dialect)
    client, worker = binary_pair(world)
    assert client.word(p.SUBMIT_JOB, old_job("f", "n", b"w", count=3)) == p.SUCCESS
    worker.say(p.CAN_DO, str8("f"))
    worker.say(p.GRAB_JOB)
    (message,) = worker.heard()
    assert message.command == p.JOB_ASSIGN
    handle = str8("f::n")
    assert message.data == handle + old_job("f", "n", b"w", NOW_S, 3)
    worker.say(p.SCHED_LATER, handle + struct.pack(">qi", 0, 2))
    worker.say(p.GRAB_JOB)
    (message,) = worker.heard()
    assert message.data == handle + old_job("f", "n", b"w", NOW_S, 5)
    worker.say(p.WORK_DONE, handle + b"result")
    assert world.jobs() == []


def test_a_job_with_a_version_is_read_too() -> None:
    world = World(dialect="bin")
    client, _ = binary_pair(world)
    client.submit("f", "n", b"w", count=3, timeout=4)
    client.submit("f", "m", b"w", timeout=4)
    client.submit("f", "l", b"w")
    for cut in (b"", str8("f"), str8("f") + str8("n") + b"\0\0"):
        assert client.word(p.SUBMIT_JOB, cut) == p.UNKNOWN
    assert len(world.jobs()) == 3


def test_results_and_listings_have_no_command_in_front() -> None:
    world = World(dialect="bin")
    client, worker = binary_pair(world)
    worker.say(p.CAN_DO, str8("f"))
    assert worker.bytes_heard() == b""
    client.send(client.message(p.RUN_JOB, old_job("f", "n"), b"runs"))
    client.send(client.message(p.STATUS, b"", b"stat"))
    worker.say(p.GRAB_JOB)
    worker.heard()
    worker.say(p.WORK_DONE, str8("f::n") + b"result")
    assert client.take_payload() == b"stat" + b"f,1,1,0,%d" % NOW_S
    assert client.take_payload() == b"runs" + b"result"


def test_a_peer_that_speaks_slowly_is_not_taken_for_one_that_waits(world: World) -> None:
    client = world.connect(DOC)
    for byte in client.framed(b"\1") + client.message(p.PING, b"", b"1"):
        client.send(bytes([byte]))
        world.pass_time(700)
    assert client.words() == [p.PONG]
