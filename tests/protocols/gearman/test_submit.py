"""SUBMIT_*: one answer for each, in order; and when two submits are one job."""

import re
from unittest.mock import patch

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.gearman.settings import GearmanSettings
from tests.protocols.gearman.puppet import Puppet, World, err, res
from tests.protocols.world import START
from tests.support.gearman import Type, Work, request

FOREGROUND = (Type.SUBMIT_JOB, Type.SUBMIT_JOB_HIGH, Type.SUBMIT_JOB_LOW)
BACKGROUND = (Type.SUBMIT_JOB_BG, Type.SUBMIT_JOB_HIGH_BG, Type.SUBMIT_JOB_LOW_BG)


# -- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", FOREGROUND)
def test_a_foreground_job_needs_no_disk_from_start_to_end(world: World, number: int) -> None:
    client, worker = world.connect(), world.worker("f")
    handle = client.submit("f", "work", kind=number)
    assert worker.grab() == Work(handle, b"f", b"work")
    worker.complete(handle, "result")
    assert client.cut() == res(Type.WORK_COMPLETE, handle, "result")
    assert (client.waited_for_commit, worker.waited_for_commit) == (False, False)
    assert not world.store.held


@pytest.mark.parametrize("number", BACKGROUND)
def test_a_background_job_is_durable_before_its_handle_is_told(world: World, number: int) -> None:
    client, worker = world.connect(), world.worker("f")
    handle = client.submit("f", "work", kind=number)
    assert client.waited_for_commit
    assert [job.name.encode() for job in world.store.held.values()] == [handle]
    assert worker.grab() == Work(handle, b"f", b"work")
    worker.complete(handle, "result")
    assert (client.bytes_heard(), world.store.held) == (b"", {})


def test_a_background_job_is_given_out_once_the_store_has_it(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    client.submit_bg("f")
    worker.waited_for_commit = False
    worker.grab_handle()
    assert not worker.waited_for_commit
    client.begin(request(Type.SUBMIT_JOB_BG, "f", "", "x"), turns=0)
    worker.say(Type.GRAB_JOB)
    assert worker.waited_for_commit


def test_handles_have_the_form_that_clients_know_and_fit(client: Puppet) -> None:
    handles = [client.submit(), client.submit_bg()]
    assert all(re.fullmatch(rb"H:box:[0-9]+", handle) for handle in handles)
    assert handles[0][:-1] == handles[1][:-1]
    long = World(settings=GearmanSettings(host="h" * 80)).connect()
    assert len(long.submit()) + len(str(10**12)) - 2 <= 63


def test_a_host_is_written_as_it_is_called_but_for_what_would_break_a_line() -> None:
    for host, written in (("db-1.example.org", b"db-1.example.org"), ("a b\n\0ü", b"a_b___")):
        handle = World(settings=GearmanSettings(host=host)).connect().submit()
        assert re.fullmatch(rb"H:%b:[0-9]+" % re.escape(written), handle)


def test_handles_of_another_run_are_others(world: World) -> None:
    handles = {world.connect().submit() for _ in range(3)}
    again = world.restart()
    again.broker.totals.last_job_id = 0  # a job that only memory had was never counted on disk
    assert not handles & {again.connect().submit() for _ in range(3)}


def test_submits_are_answered_in_order_also_those_that_are_refused(client: Puppet) -> None:
    for kind, unique in ((18, ""), (7, "u" * 65), (7, ""), (18, "")):
        client.begin(request(kind, "f", unique, "x"), turns=0)
    client.world.run()
    answers = [message.type for message in client.heard()]
    assert answers == [Type.JOB_CREATED, Type.ERROR, Type.JOB_CREATED, Type.JOB_CREATED]


def test_nothing_about_a_job_overtakes_its_handle(world: World) -> None:
    peer = world.worker("f")
    peer.send(request(Type.SUBMIT_JOB_BG, "f", "u", "x") + request(Type.SUBMIT_JOB, "f", "u", "x"))
    first, second = peer.heard()
    assert first == second
    handle = peer.grab_handle()
    peer.send(request(Type.WORK_DATA, handle, "d") + request(Type.WORK_COMPLETE, handle, "r"))
    assert [m.type for m in peer.heard()] == [Type.WORK_DATA, Type.WORK_COMPLETE]


def test_one_connection_may_be_client_and_worker_for_its_own_job() -> None:
    peer = World().worker("f")
    handle = peer.submit("f", "work")
    assert peer.grab() == Work(handle, b"f", b"work")
    peer.complete(handle, "r")
    assert peer.cut() == res(Type.WORK_COMPLETE, handle, "r")


@pytest.mark.parametrize("body", [b"", b"f", b"f\0u"])
@pytest.mark.parametrize("number", [7, 18, 21, 32, 33, 34, 35, 36, 37, 38])
def test_a_packet_with_too_few_arguments_is_refused_and_swallows_nothing(
    world: World, client: Puppet, number: int, body: bytes
) -> None:
    client.send(request(number, body) + request(Type.ECHO_REQ, "still here"))
    too_few = err("INVALID_PACKET", "The packet has too few arguments")
    assert client.heard() == [too_few, res(Type.ECHO_RES, "still here")]
    assert not world.broker.jobs


def test_workloads_and_results_are_any_bytes(client: Puppet, worker: Puppet, world: World) -> None:
    every = bytes(range(256)) * 2
    handle = client.submit("f", every)
    assert worker.grab() == Work(handle, b"f", every)
    worker.complete(handle, every)
    assert client.cut() == res(Type.WORK_COMPLETE, handle, every)


@pytest.mark.parametrize(
    "function", [b"", b"a b", b"pre\tname", b"new\nline", b"\xff\xfe", "ü".encode()]
)
def test_a_function_may_be_called_anything_without_a_nul(world: World, function: bytes) -> None:
    worker, client = world.connect(), world.connect()
    worker.say(Type.CAN_DO, function)
    worker.say(Type.PRE_SLEEP)
    handle = client.submit(function, "x", "u")
    assert worker.cut() == res(Type.NOOP)
    assert (worker.grab(), worker.grab()) == (Work(handle, function, b"x"), None)


# -- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 62, 63, 64])
def test_every_byte_of_a_unique_id_counts(client: Puppet, worker: Puppet, size: int) -> None:
    uniques = [b"u" * (size - 1) + b"%d" % n for n in range(10)]
    handles = [client.submit_bg(unique=unique) for unique in uniques]
    assert len(set(handles)) == 10
    assert [client.submit_bg(unique=unique) for unique in uniques] == handles
    assert [worker.call(Type.GRAB_JOB_UNIQ).arguments[2] for _ in uniques] == uniques


@pytest.mark.parametrize("size", [65, 66, 70, 1_000])
def test_a_longer_unique_id_is_refused_as_in_the_original(size: int) -> None:
    refused = World().connect().call(Type.SUBMIT_JOB, "f", "u" * size, "x")
    assert refused == err("ARGUMENT_TOO_LARGE", "Unique value too large")


def test_no_more_may_wait_for_one_job_than_can_be_told_in_one_turn(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    refused = err("QUEUE_ERROR", "Too many clients wait for this job")
    with patch("franca.protocols.gearman.client_commands.WATCHES_MAX", 3):
        [handle] = {client.submit(unique="u") for _ in range(3)}
        for peer in (client, world.connect()):
            assert peer.call(Type.SUBMIT_JOB, "f", "u", "x") == refused
        assert client.submit_bg(unique="u") == handle
        assert client.submit(unique="other") != handle
    worker.grab()
    worker.complete(handle, "r")
    assert client.heard() == [res(Type.WORK_COMPLETE, handle, "r")] * 3


def test_names_and_bodies_beyond_the_limits_are_refused_and_the_connection_stays() -> None:
    client = World(limits=Limits(name_bytes_max=8, body_bytes_max=16)).connect()
    name, workload = "Function name too large", "Workload too large"
    too_long = client.call(Type.SUBMIT_JOB, "f" * 9, "", "x")
    assert too_long == err("ARGUMENT_TOO_LARGE", name)
    too_large = client.call(Type.SUBMIT_JOB_BG, "f", "", "x" * 17)
    assert too_large == err("ARGUMENT_TOO_LARGE", workload)
    client.submit("f" * 8, "x" * 16)


def test_a_full_disk_refuses_background_jobs_and_nobody_else(world: World, client: Puppet) -> None:
    world.broker.refusing_new = True
    refused = client.call(Type.SUBMIT_JOB_BG, "f", "", "x")
    assert (refused.type, refused.arguments[0]) == (Type.ERROR, b"QUEUE_ERROR")
    client.submit()


def test_jobs_that_are_waited_for_are_bounded_in_memory() -> None:
    world = World(limits=Limits(fleeting_bytes=8_900))
    client, worker = world.connect(), world.worker("f")
    for _ in range(4):
        client.submit("f", b"x" * 1_000)
    refused = client.call(Type.SUBMIT_JOB, "f", "", b"x" * 1_000)
    assert refused.arguments[0] == b"QUEUE_ERROR"
    worker.complete(worker.grab_handle())
    client.bytes_heard()
    client.submit("f", b"x" * 1_000)


# -- one job or two ------------------------------------------------------------------------------------------


def test_the_same_unique_id_is_the_same_job_while_it_waits_and_while_it_runs(world: World) -> None:
    one, two, three = (world.connect() for _ in range(3))
    worker = world.worker("f")
    handle = one.submit(body="first", unique="u")
    assert two.submit(body="second", unique="u", kind=Type.SUBMIT_JOB_HIGH) == handle
    assert worker.grab() == Work(handle, b"f", b"first")
    worker.say(Type.WORK_DATA, handle, "early")
    assert three.submit(body="third", unique="u") == handle
    worker.complete(handle, "r")
    assert worker.grab() is None
    end, early = res(Type.WORK_COMPLETE, handle, "r"), res(Type.WORK_DATA, handle, "early")
    assert [one.heard(), two.heard(), three.heard()] == [[early, end], [early, end], [end]]


def test_who_submits_twice_hears_everything_twice(client: Puppet, worker: Puppet) -> None:
    handle = client.submit(unique="u")
    assert client.submit(unique="u") == handle
    assert worker.grab_handle() == handle
    worker.say(Type.WORK_STATUS, handle, "1", "2")
    worker.complete(handle, "r")
    status, end = res(Type.WORK_STATUS, handle, "1", "2"), res(Type.WORK_COMPLETE, handle, "r")
    assert client.heard() == [status, status, end, end]


def test_a_unique_id_is_free_again_when_its_job_has_ended(client: Puppet, worker: Puppet) -> None:
    handle = client.submit(unique="u")
    worker.complete(worker.grab_handle())
    client.bytes_heard()
    assert client.submit(unique="u") != handle


def test_another_function_or_no_unique_id_is_another_job(client: Puppet) -> None:
    assert client.submit("f", unique="u") != client.submit("g", unique="u")
    assert client.submit() != client.submit()


def test_a_dash_means_the_workload(client: Puppet, worker: Puppet, world: World) -> None:
    handle = client.submit("f", "same", "-")
    assert client.submit("f", "same", "-") == handle
    assert client.submit("f", "other", "-") != handle
    assert client.submit("f", "", "-") != client.submit("f", "", "-")
    assert worker.call(Type.GRAB_JOB_UNIQ) == res(Type.JOB_ASSIGN_UNIQ, handle, "f", "-", "same")
    seen = [worker.call(Type.GRAB_JOB_ALL).arguments[2:] for _ in range(3)]
    assert seen == [[b"-", b"other"], [b"-", b""], [b"-", b""]]


def test_a_unique_id_may_be_any_bytes(client: Puppet, worker: Puppet, world: World) -> None:
    odd = bytes(range(240, 256))
    handle = client.submit(unique=odd)
    assert client.submit(unique=odd) == handle
    assert client.submit(unique=odd[:-1]) != handle
    assert worker.call(Type.GRAB_JOB_UNIQ) == res(Type.JOB_ASSIGN_UNIQ, handle, "f", odd, "x")


def test_a_unique_id_holds_over_a_restart_and_in_the_tail() -> None:
    world = World(limits=Limits(window_jobs=2, supply_jobs=1))
    client = world.connect()
    handles = [client.submit_bg(unique=f"u{n}") for n in range(6)]
    again = world.restart().connect()
    for peer in (client, again):
        assert [peer.submit_bg(unique=f"u{n}") for n in range(6)] == handles


def test_a_background_submit_of_a_waited_for_job_outlives_who_waits(world: World) -> None:
    waiting, other, worker = world.connect(), world.connect(), world.worker("f")
    handle = waiting.submit(unique="u")
    assert other.submit_bg(unique="u") == handle
    waiting.hang_up()
    assert [job.name.encode() for job in world.store.held.values()] == [handle]
    assert worker.grab_handle() == handle


# -- for later -----------------------------------------------------------------------------------------------


def submit_later(client: Puppet) -> bytes:
    """Submit a job for a minute from the start."""
    return client.submit("f", "x", "u", Type.SUBMIT_JOB_EPOCH, str(START // 1000 + 60))


def test_an_epoch_job_is_durable_waits_for_its_time_and_then_wakes_a_sleeper(world: World) -> None:
    client, worker = world.connect(), world.sleeper("f")
    handle = submit_later(client)
    assert client.waited_for_commit
    assert client.status(handle) == [b"1", b"0", b"0", b"0"]
    assert client.say_line("status") == b"f\t1\t0\t1\n.\n"
    world.pass_time(59_900)
    assert worker.cut() is None
    world.pass_time(200)
    assert worker.cut() == res(Type.NOOP)
    assert worker.grab() == Work(handle, b"f", b"x")


@pytest.mark.parametrize("epoch", ["0", "", "soon", "1", "-5"])
def test_an_epoch_in_the_past_or_none_at_all_is_now(world: World, epoch: str) -> None:
    client, worker = world.connect(), world.worker("f")
    handle = client.submit("f", "x", "", Type.SUBMIT_JOB_EPOCH, epoch)
    assert worker.grab_handle() == handle


def test_an_epoch_beyond_all_calendars_is_refused_and_not_left_unanswered(client: Puppet) -> None:
    for epoch in ("99999999999999999999", "253402300800"):
        refused = client.call(Type.SUBMIT_JOB_EPOCH, "f", "", epoch, "x")
        assert refused == err("ARGUMENT_TOO_LARGE", "Epoch value too large")


def test_a_job_for_later_does_not_block_those_behind_it(client: Puppet, worker: Puppet) -> None:
    submit_later(client)
    now = client.submit_bg("f", "now")
    assert worker.grab_handle() == now
    assert worker.grab() is None


def test_a_submit_joins_a_job_for_later(client: Puppet) -> None:
    assert submit_later(client) == client.submit(unique="u")


def test_a_job_for_later_survives_a_restart_with_its_handle_and_its_time(world: World) -> None:
    handle = submit_later(world.connect())
    again = world.restart()
    worker = again.worker("f")
    assert worker.grab() is None
    again.pass_time(60_100)
    assert worker.grab_handle() == handle


def test_a_scheduled_job_runs_once_at_the_next_minute_that_matches(world: World) -> None:
    client, worker = world.connect(), world.sleeper("f")
    # 14:13:20 on a Monday; the next Monday at 14:15 is today.
    fields = ("15", "14", "*", "", "0")
    handle = client.submit("f", "x\0y", "u", Type.SUBMIT_JOB_SCHED, *fields)
    assert client.waited_for_commit
    world.pass_time(99_900)
    assert worker.cut() is None
    world.pass_time(200)
    assert worker.cut() == res(Type.NOOP)
    assert worker.grab() == Work(handle, b"f", b"x\0y")
    worker.complete(handle)
    assert not world.broker.jobs


@pytest.mark.parametrize("field", range(5))
def test_a_time_that_never_comes_is_refused(field: int) -> None:
    fields = ["*"] * 5
    fields[field] = ["60", "24", "32", "13", "7"][field]
    refused = World().connect().call(Type.SUBMIT_JOB_SCHED, "f", "u", *fields, "x")
    assert refused == err("INVALID_ARGUMENT", "No minute ever matches these five fields")


# -- reduce ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [Type.SUBMIT_REDUCE_JOB, Type.SUBMIT_REDUCE_JOB_BACKGROUND])
@pytest.mark.parametrize(
    ("grab", "told"),
    [
        (Type.GRAB_JOB_ALL, (Type.JOB_ASSIGN_ALL, "f", "u", "sum", "a\0b")),
        (Type.GRAB_JOB_UNIQ, (Type.JOB_ASSIGN_UNIQ, "f", "u", "a\0b")),
        (Type.GRAB_JOB, (Type.JOB_ASSIGN, "f", "a\0b")),
    ],
)
def test_a_reducer_is_told_to_who_asks_for_all(
    client: Puppet, worker: Puppet, number: int, grab: Type, told: tuple[Type, str]
) -> None:
    handle = client.submit("f", "a\0b", "u", number, "sum", "unused")
    assert worker.call(grab) == res(told[0], handle, *told[1:])


def test_a_reducer_survives_a_restart(world: World, client: Puppet) -> None:
    handle = client.submit("f", "x", "u", Type.SUBMIT_REDUCE_JOB_BACKGROUND, "sum", "")
    work = world.restart().worker("f").grab(Type.GRAB_JOB_ALL)
    assert work == Work(handle, b"f", b"x", b"u", b"sum")


def test_a_reducer_of_more_than_64_bytes_is_refused_in_the_originals_words() -> None:
    refused = World().connect().call(Type.SUBMIT_REDUCE_JOB, "f", "u", "r" * 65, "", "x")
    assert refused == err("ARGUMENT_TOO_LARGE", "Unique value too large")


def test_reduce_jobs_have_normal_priority(world: World) -> None:
    world.connect().call(Type.SUBMIT_REDUCE_JOB_BACKGROUND, "f", "u", "sum", "", "x")
    [job] = world.broker.jobs.values()
    assert (job.priority, job.state) == (0, State.READY)
