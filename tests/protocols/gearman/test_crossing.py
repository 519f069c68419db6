"""A Gearman job run by a Faktory worker, and the reverse: neither knows of the other."""

import re

import pytest

from franca.core.model import Progress, State
from franca.protocols.bodies import BYTES, JSON_ARGS, JSON_JOB, as_bytes, as_json_args
from tests.protocols.faktory.puppet import OK
from tests.protocols.gearman.puppet import World, res
from tests.support.gearman import Type

# -- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "args"),
    [
        (b"hello", b'["hello"]'),
        (b"", b'[""]'),
        (b'[1, {"a":2}]', b'[1, {"a":2}]'),
        (b'{"a":1}', rb'["{\"a\":1}"]'),
        (b"\xff\x00", b'[{"base64":"/wA="}]'),
    ],
)
def test_a_workload_as_arguments(workload: bytes, args: bytes) -> None:
    assert as_json_args(BYTES, workload) == args


@pytest.mark.parametrize(
    ("args", "workload"),
    [
        (b'["hello"]', b"hello"),
        (b'[""]', b""),
        (b'["\\u00fc\\u0000"]', "ü\0".encode()),
        (b'[{"base64":"/wA="}]', b"\xff\x00"),
        (b'[{"base64":"not base64"}]', b'[{"base64":"not base64"}]'),
        (b'[{"base64":"/wA=","x":1}]', b'[{"base64":"/wA=","x":1}]'),
        (b"[]", b"[]"),
        (b"[1]", b"[1]"),
        (b'["a", "b"]', b'["a", "b"]'),
        (b"[10000000000000000000000000, 1.50]", b"[10000000000000000000000000, 1.50]"),
    ],
)
def test_arguments_as_a_workload(args: bytes, workload: bytes) -> None:
    assert as_bytes(JSON_ARGS, args) == workload
    assert as_bytes(JSON_JOB, b'{"jid":"j","args":%b,"x":[2]}' % args) == workload


def test_text_that_is_no_text_is_left_as_it_is() -> None:
    assert as_bytes(JSON_ARGS, b'["\\ud800"]') == b'["\\ud800"]'


@pytest.mark.parametrize("workload", [b"hello", b"", b'{"a":1}', b"\xff\x00", b"[1,2]"])
def test_what_crosses_twice_comes_back(workload: bytes) -> None:
    assert as_bytes(JSON_ARGS, as_json_args(BYTES, workload)) == workload


# -- a Gearman job, a Faktory worker ------------------------------------------------------------------


def test_a_gearman_job_is_a_work_unit_to_a_faktory_worker(world: World) -> None:
    client, worker = world.connect(), world.faktory()
    handle = client.submit("f", "hello", "u")
    unit = worker.fetch_job("f")
    told = [unit[name] for name in ("jid", "queue", "jobtype", "args")]
    assert told == [handle.decode(), "f", "f", ["hello"]]
    assert worker.ack(handle.decode()) == OK
    assert client.heard() == [res(Type.WORK_COMPLETE, handle, "")]


@pytest.mark.parametrize("exceptions", [True, False])
def test_a_faktory_failures_text_reaches_the_gearman_client(world: World, exceptions: bool) -> None:
    client, worker = world.connect(), world.faktory()
    if exceptions:
        client.call(Type.OPTION_REQ, "exceptions")
    handle = client.submit()
    worker.fetch_job("f")
    assert worker.fail(handle.decode(), "it broke") == OK
    loud = res(Type.WORK_EXCEPTION, handle, "it broke")
    assert client.heard() == [loud if exceptions else res(Type.WORK_FAIL, handle)]


def test_a_background_job_failed_by_a_faktory_worker_is_dead_as_in_gearman(world: World) -> None:
    worker = world.faktory()
    handle = world.connect().submit_bg()
    worker.fetch_job("f")
    worker.fail(handle.decode())
    assert [job.state for job in world.jobs(State.DEAD)] == [State.DEAD]


def test_a_gearman_job_comes_back_from_a_faktory_worker_that_vanished(world: World) -> None:
    client, worker = world.connect(), world.faktory()
    handle = client.submit_bg()
    worker.fetch_job("f")
    worker.hang_up()
    other = world.worker("f")
    assert other.grab() is None, "its lease outlives its connection"
    world.pass_time(world.limits.lease_ms + 2_000, step=60_000)
    assert other.grab_handle() == handle


def test_a_sleeping_gearman_worker_and_a_waiting_faktory_worker_share_a_queue(world: World) -> None:
    sleeper, worker, client = world.sleeper("f"), world.faktory(), world.connect()
    worker.say("FETCH f")
    first, second = client.submit_bg(), client.submit_bg()
    assert first in worker.bytes_heard()
    assert sleeper.cut() == res(Type.NOOP)
    assert sleeper.grab_handle() == second


# -- a Faktory job, a Gearman worker ---------------------------------------------------------------------


def test_a_faktory_job_is_a_workload_to_a_gearman_worker(world: World) -> None:
    faktory, worker = world.faktory(), world.sleeper("f")
    faktory.push("jid-0001", "hello", queue="f")
    assert worker.cut() == res(Type.NOOP)
    job = worker.call(Type.GRAB_JOB_ALL)
    handle = job.handle
    assert job == res(Type.JOB_ASSIGN_UNIQ, handle, "f", "jid-0001", "hello")
    assert re.fullmatch(rb"H:box:[0-9]+", handle)
    assert not handle.startswith(world.service.prefix.encode())
    worker.say(Type.WORK_STATUS, handle, "1", "2")
    worker.say(Type.WORK_DATA, handle, "d")
    worker.complete(handle, "r")
    assert (worker.bytes_heard(), world.broker.jobs) == (b"", {})


def test_a_faktory_job_failed_by_a_gearman_worker_is_retried_as_in_faktory(world: World) -> None:
    faktory, worker = world.faktory(), world.worker("f")
    faktory.push("jid-0001", 1, 2, retry=3, queue="f")
    handle = worker.grab_handle()
    worker.say(Type.WORK_EXCEPTION, handle, "broken")
    [job] = world.broker.jobs.values()
    assert (job.state, job.failures) == (State.WAITING, 1)
    assert (job.attempt_log or [])[-1].error_text == "broken"
    world.pass_time(60_000, step=1_000)
    again = worker.grab()
    assert again is not None
    assert again.handle != handle, "each delivery has a handle of its own"
    assert again.body == b"[1,2]"


def test_what_faktory_keeps_of_a_job_is_no_reducer(world: World) -> None:
    faktory, worker = world.faktory(), world.worker("f")
    faktory.push(
        "jid-0001", "x", failure={"retry_count": 1, "message": "m", "errtype": "e"}, queue="f"
    )
    [job] = world.broker.jobs.values()
    assert job.extra
    assert worker.call(Type.GRAB_JOB_ALL).type == Type.JOB_ASSIGN_UNIQ


def test_a_faktory_job_held_too_long_is_taken_from_its_gearman_worker(world: World) -> None:
    faktory, worker = world.faktory(), world.worker("f")
    faktory.push("jid-0001", reserve_for=60, queue="f")
    handle = worker.grab_handle()
    world.pass_time(62_000, step=1_000)
    answer = worker.call(Type.WORK_COMPLETE, handle, "late")
    assert answer.arguments[0] == b"JOB_NOT_FOUND"


def test_a_jid_that_is_no_unique_id_is_made_one(world: World) -> None:
    faktory, worker = world.faktory(), world.worker("f")
    faktory.push("ü" * 50, queue="f")
    unique = worker.call(Type.GRAB_JOB_UNIQ).arguments[2]
    assert len(unique) <= 63
    unique.decode()


@pytest.mark.parametrize(
    ("progress", "numbers"),
    [
        (Progress(40, 100), ("40", "100")), (Progress(0.25, 1.0), ("0.25", "1")), (Progress(text="soon"), ("0", "0")),
        (Progress(-1, 1 << 70), ("-1", "1180591620717411303424")), (Progress(said=b"007\0+5"), ("007", "+5")),
        (Progress(3, 4, said=b"three of four"), ("3", "4")),
    ],
)  # fmt: skip
def test_how_far_a_worker_of_another_protocol_is_comes_as_numbers(
    world: World, progress: Progress, numbers: tuple[str, str]
) -> None:
    client = world.connect()
    handle = client.submit()
    session = world.stranger_on("f")
    (job,) = session.leases.values()
    world.broker.report_progress(job, session.holder, progress, world.now)
    world.run()
    assert client.heard() == [res(Type.WORK_STATUS, handle, *numbers)]
    assert client.status(handle) == [b"1", b"1", *(text.encode() for text in numbers)]
