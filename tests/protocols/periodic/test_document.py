"""A walk through the document, step by step, by a client that follows it to the letter.

Each step quotes what it shows. The listener is told to follow the document (`dialect=doc`); what
real servers did instead is in the tests of `auto`. The framing is that of the facts: arguments
are parted by two bytes.
"""

import json

import pytest

from franca.core.model import State
from tests.protocols.periodic.puppet import NOW_S, World
from tests.support import periodic as p
from tests.support.periodic import DOC, SEPARATOR

JOB = b'{"name":"n","func":"reverse","workload":"abc"}'


def test_the_document_step_by_step() -> None:
    world = World(dialect="doc")

    # "Initially, the workers register functions they can perform with each job server."
    worker = world.connect(DOC).register(p.WORKER)
    assert worker.bytes_heard() == b"", "no registration is answered"

    # "PING: When a periodic server receives this request, it simply generates a PONG packet."
    assert worker.word(p.PING) == p.PONG
    client = world.connect(DOC).register(p.CLIENT)
    assert client.word(p.PING) == p.PONG

    # "CAN_DO: This is sent to notify the server that the worker is able to perform the given
    # function."
    worker.say(p.CAN_DO, b"reverse")
    assert worker.heard() == []

    # "GRAB_JOB: The server will respond with either NO_JOB or JOB_ASSIGN, depending on whether a
    # job is available."
    assert worker.word(p.GRAB_JOB) == p.NO_JOB

    # "SLEEP: This is sent to notify the server that the worker is about to sleep, and that it
    # should be woken up with a NOOP packet if a job comes in for a function the worker is able to
    # perform."
    slept = worker.say(p.SLEEP)
    world.pass_time(60_000)
    assert worker.heard() == []

    # "SUBMIT_JOB: A client issues one of these when a job needs to be run. The server will then
    # assign a job handle and respond with a SUCCESS packet. Arguments: JSON byte job object."
    assert (client.word(p.SUBMIT_JOB, JOB), client.waited_for_commit) == (p.SUCCESS, True)

    # "NOOP: This is used to wake up a sleeping worker so that it may grab a pending job."
    (noop,) = worker.heard()
    assert (noop.msgid, noop.command) == (slept, p.NOOP)

    # "STATUS: FUNCTION,TOTAL_WORKER,TOTAL_JOB,PROCESSING_JOB"
    assert client.ask(p.STATUS).data == b"reverse,1,1,0\n"

    # "JOB_ASSIGN: This is given in response to a GRAB_JOB request to give the worker information
    # needed to run the job. All communication about the job should use the handle. Arguments: JSON
    # byte job object."
    answer = worker.ask(p.GRAB_JOB)
    assert answer.command == p.JOB_ASSIGN
    handle, _, text = answer.data.partition(SEPARATOR)
    job = json.loads(text)
    assert (job["func"], job["name"], job["workload"]) == ("reverse", "n", "abc")
    assert client.ask(p.STATUS).data == b"reverse,1,1,1\n"

    # "WORK_FAIL: This is to notify the server that the job failed. Arguments: Job handle."
    worker.say(p.WORK_FAIL, handle)
    assert worker.word(p.GRAB_JOB) == p.NO_JOB
    world.pass_time(1_100)

    # "SCHED_LATER: This is to notify the server to do the job on next time. Arguments: Job handle.
    # Time delay."
    handle = worker.ask(p.GRAB_JOB).data.partition(SEPARATOR)[0]
    worker.say(p.SCHED_LATER, handle + SEPARATOR + b"10")
    world.pass_time(9_000)
    assert worker.word(p.GRAB_JOB) == p.NO_JOB
    worker.say(p.SLEEP)
    world.pass_time(1_200)
    assert worker.words() == [p.NOOP]

    # "WORK_DONE: Arguments: NULL byte terminated job handle. Opaque data that is returned to the
    # client as a response."
    handle = worker.ask(p.GRAB_JOB).data.partition(SEPARATOR)[0]
    worker.say(p.WORK_DONE, handle + SEPARATOR + b"cba")
    assert (client.ask(p.STATUS).data, world.jobs()) == (b"reverse,1,0,0\n", [])

    # "CANT_DO: This is sent to notify the server that the worker is no longer able to perform the
    # given function."
    worker.say(p.CANT_DO, b"reverse")
    assert client.ask(p.STATUS).data == b"reverse,0,0,0\n"

    # "REMOVE_JOB: Remove a job, and respond with a SUCCESS packet."
    client.word(p.SUBMIT_JOB, JOB)
    assert (client.word(p.REMOVE_JOB, JOB), world.jobs()) == (p.SUCCESS, [])

    # "DUMP: This is to dump the data to client." "LOAD: This is to Load the data to server."
    client.word(p.SUBMIT_JOB, JOB)
    client.say(p.DUMP)
    dumped, eof = client.heard()
    assert eof.data == b"EOF"
    client.word(p.REMOVE_JOB, JOB)
    client.say(p.LOAD, dumped.data)
    assert (client.heard(), [job.name for job in world.jobs(State.READY)]) == ([], ["n"])

    # "DROP_FUNC: Drop the function when there is not worker registered, and respond with a SUCCESS
    # packet."
    worker.say(p.CAN_DO, b"reverse")
    assert client.word(p.DROP_FUNC, b"reverse") == p.SUCCESS
    assert client.ask(p.STATUS).data == b"reverse,1,1,0\n"
    worker.say(p.CANT_DO, b"reverse")
    assert client.word(p.DROP_FUNC, b"reverse") == p.SUCCESS
    assert (client.ask(p.STATUS).data, world.jobs()) == (b"", [])

    # "12 UNKNOWN"
    assert client.word(99) == p.UNKNOWN


def test_work_done_with_data_settles_the_job_whatever_parts_them() -> None:
    for parting in (SEPARATOR, b"\0", b""):
        world = World()
        client, worker = world.peer(DOC), world.worker("f", dialect=DOC)
        client.submit("f", "n")
        job = worker.grab()
        worker.say(p.WORK_DONE, job.handle + parting + (b"data" if parting else b""))
        assert world.jobs() == [], parting


def test_by_default_a_grab_waits_and_sleep_is_answered_at_once(world: World) -> None:
    worker = world.worker("f", dialect=DOC)
    worker.say(p.GRAB_JOB)
    world.pass_time(300_000)
    assert worker.heard() == []
    assert not worker.is_hung_up, "old clients say nothing while they wait"
    assert worker.word(p.SLEEP) == p.NOOP


def test_a_sleeper_that_learns_a_function_is_woken_for_it() -> None:
    world = World(dialect="doc")
    world.peer(DOC).submit("g", "n")
    worker = world.worker("f", dialect=DOC)
    worker.say(p.SLEEP)
    assert worker.heard() == []
    worker.say(p.CAN_DO, b"g")
    assert worker.words() == [p.NOOP]


def test_every_sleeper_of_the_function_is_woken_by_each_job() -> None:
    # "The job server then notifies each worker that can perform that job (based on the function
    # it registered) that a new job is ready. The first worker to wake up and retrieve the job will
    # then execute it."
    world = World(dialect="doc")
    workers = [world.worker("f", dialect=DOC) for _ in range(3)]
    stranger = world.worker("g", dialect=DOC)
    for worker in (*workers, stranger):
        worker.say(p.SLEEP)
    client = world.peer(DOC)
    for name in ("n", "m"):
        client.submit("f", name)
        assert [worker.words() for worker in workers] == [[p.NOOP]] * 3
        assert stranger.words() == []
        assert workers[2].word(p.GRAB_JOB) == p.JOB_ASSIGN
        for worker in workers:
            worker.say(p.SLEEP)
            assert worker.words() == []


def test_a_sleeper_that_is_to_have_nothing_is_not_woken() -> None:
    world = World(dialect="doc")
    worker = world.worker("f", dialect=DOC)
    worker.conversation.worker.stop_giving_jobs()
    world.peer(DOC).submit("f", "n")
    worker.say(p.SLEEP)
    assert worker.words() == []


def test_a_sleeper_with_work_is_woken_at_once() -> None:
    world = World(dialect="doc")
    world.peer(DOC).submit("f", "n")
    worker = world.worker("f", dialect=DOC)
    assert worker.word(p.SLEEP) == p.NOOP


@pytest.mark.parametrize(
    ("text", "workload"),
    [
        (b'{"func":"f","name":"n"}', b""),
        (b'{"func":"f","name":"n","workload":null}', b""),
        (b'{"func":"f","name":"n","workload":"\\u00fc\\u0000\\u0001"}', "ü\0\1".encode()),
        (b'{"func":"f","name":"n","workload":{"a": [1, 2]}}', b'{"a": [1, 2]}'),
        (b'{"func":"f","name":"n","workload":17}', b"17"),
        (b'{"func":"f","name":"n","sched_at":1.5,"counter":1e300,"timeout":null}', b""),
        (
            b'{"x":{"y":[]},"name":"n","args":"no field","func":"f","status":"ready","job_id":9}',
            b"",
        ),
    ],
)
def test_a_job_may_be_written_in_many_ways(world: World, text: bytes, workload: bytes) -> None:
    assert world.peer(DOC).word(p.SUBMIT_JOB, text) == p.SUCCESS
    (job,) = world.jobs()
    assert (job.queue, job.name, job.body) == ("f", "n", workload)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b'{"func":"f","name":""}',
        b'{"func":"","name":"n"}',
        b'{"func":"f","name":7}',
        b'{"func":"f","name":"n","sched_at":"soon"}',
        b'{"func":"f","name":"\\ud800"}',
        b'{"func":"f","name":"n","workload":"\xff"}',
        b"{" * 100_000,
        b'{"func":"f","name":"n","workload":' + b"[" * 100_000,
        b"",
        b"f",
        b'{"func":"' + b"f" * 2_000 + b'","name":"n"}',
    ],
)
def test_what_is_no_job_is_answered_unknown_and_no_more(world: World, text: bytes) -> None:
    client = world.peer(DOC)
    client.word(p.PING)
    assert (client.word(p.SUBMIT_JOB, text), client.word(p.PING)) == (p.UNKNOWN, p.PONG)
    assert world.jobs() == []


def test_a_workload_that_is_no_text_reaches_the_worker_in_one(world: World) -> None:
    world.peer().submit("f", "n", b"\xff\x00")
    worker = world.worker("f", dialect=DOC)
    assert worker.grab().workload == b"base64:/wA="


def test_the_two_dialects_share_their_jobs(world: World) -> None:
    world.peer(DOC).submit("f", "n", b"old", count=2, timeout=7, at=NOW_S - 5)
    world.peer().submit("f", "m", b"new")
    modern, old = world.worker("f"), world.worker("f", dialect=DOC)
    job = modern.grab()
    assert (job.name, job.workload, job.count, job.timeout) == ("n", b"old", 2, 7)
    assert old.grab().workload == b"new"
    modern.done(job)
    assert len(world.jobs()) == 1


def test_a_client_that_writes_its_sizes_as_text_is_understood(world: World) -> None:
    """Python 0.1.6 writes each size byte from 80 on in two."""
    client = world.peer(DOC)
    for size in (100, 200, 300, 400):
        workload = b"x" * size
        payload = b"1\0\1\r\0\1" + b'{"func":"f","name":"n%d","workload":"%b"}' % (size, workload)
        header = "".join(chr(byte) for byte in len(payload).to_bytes(4)).encode()
        client.send(b"\0REQ" + header + payload)
        assert client.words() == [p.SUCCESS]
    assert sorted(len(job.body) for job in world.jobs()) == [100, 200, 300, 400]


def test_a_large_dump_comes_in_hundreds(world: World) -> None:
    client = world.peer(DOC)
    for number in range(250):
        client.submit("f", f"n{number:03}")
    client.say(p.DUMP)
    *pages, eof = client.heard()
    counts = [len(json.loads(page.data)["jobs"]) for page in pages]
    assert (counts, eof.data) == ([100, 100, 50], b"EOF")
    jobs = [job["name"] for page in pages for job in json.loads(page.data)["jobs"]]
    assert jobs == [f"n{number:03}" for number in range(250)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b'{"jobs":[]}', []),
        (b' { "jobs" : [ ] } ', []),
        (b'{"jobs":[{"func":"f","name":"a"} , {"name":"b","func":"f"}]}', ["a", "b"]),
        (b'{"jobs":[{"func":"f","name":"a]}","workload":"\\"}{\\\\"}]}', ["a]}"]),
        (b'{"jobs":[{"func":"f","name":"a","workload":{"deep":[{}]}}]}', ["a"]),
    ],
)
def test_a_list_may_be_written_in_many_ways(world: World, text: bytes, names: list[str]) -> None:
    client = world.peer(DOC)
    client.say(p.LOAD, text)
    assert (client.heard(), sorted(job.name for job in world.jobs())) == ([], names)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"jobs":null}',
        b'{"jobs":[{"func":"f","name":"a"}',
        b'{"jobs":[{}]}',
        b'{"jobs":[{"func":"f"',
        b'{"jobs":["' + b"x" * 10_000,
        b'{"jobs":[' + b"{" * 5_000,
        b'{"jobs":[' + b"{}," * 200_000 + b"]}",
        b'{"jobs":[{"a":[' + b'"",' * 5_000 + b"]}]}",
    ],
)
def test_a_list_that_is_none_takes_nobody_elses_time(world: World, text: bytes) -> None:
    client = world.peer(DOC)
    client.word(p.PING)
    client.say(p.LOAD, text)
    assert client.word(p.PING) == p.PONG
    assert len(world.jobs()) <= 1
