"""What workers can do, which job they get next, and how they are woken."""

from itertools import product
from unittest.mock import patch

import pytest

from franca.core.errors import TooMuch
from franca.core.limits import Limits
from franca.protocols.gearman.service import LATE_MS
from franca.protocols.gearman.settings import GearmanSettings
from tests.protocols.gearman.puppet import Puppet, World, err, res
from tests.support.gearman import Type, request

NOOP = res(Type.NOOP)
NO_JOB = res(Type.NO_JOB)


def workloads(worker: Puppet, count: int) -> list[bytes]:
    return [job.body for _ in range(count) if (job := worker.grab()) is not None]


# -- asking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grab", [Type.GRAB_JOB, Type.GRAB_JOB_UNIQ, Type.GRAB_JOB_ALL])
def test_no_job_is_said_at_once_and_to_who_can_do_nothing(world: World, grab: int) -> None:
    assert world.worker("f").call(grab) == NO_JOB
    world.connect().submit_bg()
    assert world.connect().call(grab) == NO_JOB


def test_the_three_ways_to_be_given_a_job(client: Puppet, worker: Puppet) -> None:
    one, two, three = (client.submit("f", "w", f"u{n}") for n in range(3))
    assert worker.call(Type.GRAB_JOB) == res(Type.JOB_ASSIGN, one, "f", "w")
    assert worker.call(Type.GRAB_JOB_UNIQ) == res(Type.JOB_ASSIGN_UNIQ, two, "f", "u1", "w")
    assert worker.call(Type.GRAB_JOB_ALL) == res(Type.JOB_ASSIGN_UNIQ, three, "f", "u2", "w")


def test_a_worker_may_hold_any_number_of_jobs(world: World, client: Puppet, worker: Puppet) -> None:
    handles = [client.submit_bg() for _ in range(20)]
    assert [worker.grab_handle() for _ in range(20)] == handles
    for handle in reversed(handles):
        worker.complete(handle)
    assert (worker.bytes_heard(), world.broker.jobs) == (b"", {})


def test_priority_comes_before_function_and_first_in_before_last_in(world: World) -> None:
    client, worker = world.connect(), world.worker("a", "b")
    for function in ("a", "b"):
        for number, name in ((34, "low"), (18, "normal"), (32, "high")):
            for which in (1, 2):
                client.submit(function, f"{name} {function}{which}", kind=number)
    order = product(("high", "normal", "low"), ("a1", "b1", "a2", "b2"))
    assert workloads(worker, 12) == [f"{name} {job}".encode() for name, job in order]


def test_functions_take_turns_inside_one_priority(world: World) -> None:
    client, worker = world.connect(), world.worker("a", "b", "c")
    for function in ("a", "b", "c"):
        for which in (1, 2):
            client.submit_bg(function, f"{function}{which}")
    assert workloads(worker, 6) == [b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]


def test_a_crowd_of_jobs_comes_in_order_out_of_the_store() -> None:
    world = World(limits=Limits(window_jobs=8, supply_jobs=4))
    client = world.connect()
    for number in range(100):
        client.submit_bg("f", str(number))
    assert workloads(world.worker("f"), 100) == [b"%d" % number for number in range(100)]


# -- what a worker can do -----------------------------------------------------------------------------


def test_saying_twice_what_one_can_do_counts_once(world: World) -> None:
    worker = world.worker("f", "f", "f")
    assert worker.say_line("status") == b"f\t0\t0\t1\n.\n"
    worker.say(Type.CANT_DO, "f")
    assert worker.say_line("status") == b"f\t0\t0\t0\n.\n"


@pytest.mark.parametrize("number", [Type.CANT_DO, Type.RESET_ABILITIES])
def test_who_can_do_no_more_keeps_what_it_has_and_gets_no_more(world: World, number: int) -> None:
    client, worker = world.connect(), world.worker("f")
    handle = client.submit("f", "1")
    client.submit_bg("f", "2")
    worker.grab()
    worker.say(number, *(["f"] if number == Type.CANT_DO else []))
    assert worker.grab() is None
    worker.complete(handle, "r")
    assert worker.bytes_heard() == b""
    assert client.cut() == res(Type.WORK_COMPLETE, handle, "r")


def test_a_function_stays_listed_when_its_worker_is_gone(world: World) -> None:
    world.worker("f").hang_up()
    assert world.connect().say_line("status") == b"f\t0\t0\t0\n.\n"


def test_a_worker_is_not_refused_for_a_nul_behind_a_name(world: World) -> None:
    worker, client = world.connect(), world.connect()
    worker.say(Type.CAN_DO, b"f\0")
    assert client.submit_bg() == worker.grab_handle()


def test_names_and_lists_beyond_the_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.gearman.worker_commands.FUNCTIONS_MAX", 3)
    worker = World(limits=Limits(name_bytes_max=8)).worker("a", "b", "c", "a")
    assert worker.call(Type.CAN_DO, "d") == err("ARGUMENT_TOO_LARGE", "Too many functions")
    assert worker.call(Type.CAN_DO, "x" * 9) == err("ARGUMENT_TOO_LARGE", "Function name too large")
    worker.say(Type.CANT_DO, "a")
    worker.say(Type.CAN_DO, "d")
    assert worker.bytes_heard() == b""


# -- sleep ----------------------------------------------------------------------------------------------


def test_who_lies_down_while_there_is_work_is_woken_at_once(world: World) -> None:
    world.connect().submit_bg()
    assert world.worker("f").call(Type.PRE_SLEEP) == NOOP


def test_a_sleeper_is_woken_once_by_the_next_job(world: World) -> None:
    client, worker = world.connect(), world.sleeper("f")
    client.submit()
    client.submit()
    assert worker.heard() == [NOOP]


def test_who_is_awake_is_not_woken(world: World) -> None:
    client, worker = world.connect(), world.sleeper("f")
    worker.grab()
    client.submit()
    assert worker.bytes_heard() == b""


@pytest.mark.parametrize("number", [Type.ECHO_REQ, Type.CAN_DO, Type.GET_STATUS])
def test_only_asking_for_a_job_ends_the_sleep(world: World, number: int) -> None:
    client, worker = world.connect(), world.sleeper("f")
    worker.say(number, "other")
    worker.bytes_heard()
    client.submit()
    assert worker.cut() == NOOP


def test_one_sleeper_is_woken_for_each_job(world: World, client: Puppet) -> None:
    workers = [world.sleeper("f") for _ in range(3)]
    for woken in (1, 2, 3):
        client.submit()
        assert sum(bool(worker.unread) for worker in workers) == woken


@pytest.mark.parametrize(("wakeup", "woken"), [(1, 1), (2, 2), (0, 4), (255, 4)])
def test_more_may_be_woken_for_each_job(wakeup: int, woken: int) -> None:
    world = World(settings=GearmanSettings(wakeup=wakeup))
    workers = [world.sleeper("f") for _ in range(4)]
    world.connect().submit()
    assert sum(worker.heard() == [NOOP] for worker in workers) == woken


def test_who_was_woken_in_vain_and_lies_down_again_is_woken_again(world: World) -> None:
    client, worker, other = world.connect(), world.sleeper("f"), world.worker("f")
    client.submit()
    assert worker.cut() == NOOP
    other.grab_handle()
    worker.say(Type.PRE_SLEEP)
    assert worker.cut() is None
    client.submit()
    assert worker.cut() == NOOP


def test_another_is_woken_in_place_of_one_that_does_not_come(world: World, client: Puppet) -> None:
    stuck, other = world.sleeper("f"), world.sleeper("f")
    handle = client.submit()
    assert (stuck.cut(), other.cut()) == (NOOP, None)
    world.pass_time(LATE_MS + 200)
    assert other.cut() == NOOP
    assert other.grab_handle() == handle


def test_another_is_woken_in_place_of_one_that_is_gone(world: World, client: Puppet) -> None:
    gone, other = world.sleeper("f"), world.sleeper("f")
    client.submit()
    assert other.cut() is None
    gone.hang_up()
    assert other.cut() == NOOP


def test_a_job_that_comes_back_wakes_a_sleeper(world: World) -> None:
    _, holder, handle = world.running()
    sleeper = world.sleeper("f")
    holder.hang_up()
    assert sleeper.cut() == NOOP
    assert sleeper.grab_handle() == handle


def test_who_learns_a_function_in_its_sleep_is_woken_for_jobs_that_wait(world: World) -> None:
    world.connect().submit_bg("g")
    worker = world.sleeper("f")
    worker.say(Type.CAN_DO, "g")
    assert worker.heard() == [NOOP]


def test_who_forgets_a_function_in_its_sleep_is_not_woken_for_it(world: World) -> None:
    worker = world.sleeper("f", "g")
    worker.say(Type.CANT_DO, "f")
    client = world.connect()
    client.submit_bg("f")
    assert worker.cut() is None
    client.submit_bg("g")
    assert worker.cut() == NOOP


def test_learning_many_functions_in_its_sleep_costs_no_search_for_each(world: World) -> None:
    worker = world.sleeper("f")
    with patch.object(world.broker, "demand", wraps=world.broker.demand) as demand:
        worker.send(b"".join(request(Type.CAN_DO, f"f{n}") for n in range(640)))
    assert demand.call_count <= 16, "one behind each share of a turn"


def test_who_is_woken_by_its_own_job_is_told_so_before_it_is_given_it(world: World) -> None:
    peer = world.worker("f")
    sleep, submit, grab = request(Type.PRE_SLEEP), request(7, "f", "", "x"), request(Type.GRAB_JOB)
    peer.send(sleep + submit + grab)
    numbers = [Type.JOB_CREATED, Type.NOOP, Type.JOB_ASSIGN]
    assert [message.type for message in peer.heard()] == numbers
    peer.send(sleep + submit + grab + sleep)
    assert [message.type for message in peer.heard()] == numbers
    world.connect().submit()
    assert peer.heard() == [NOOP]
    peer.send(grab)
    peer.bytes_heard()
    world.connect().submit()
    assert peer.bytes_heard() == b"", "it is awake"


def test_lying_down_twice_is_lying_down_once(world: World) -> None:
    worker = world.sleeper("f")
    worker.say(Type.PRE_SLEEP)
    world.connect().submit()
    assert worker.heard() == [NOOP]


# -- the server stops ---------------------------------------------------------------------------------------


def test_a_stopping_server_gives_out_nothing_and_lets_running_jobs_end(world: World) -> None:
    client, worker, sleeper = world.connect(), world.worker("f"), world.sleeper("f")
    handle = client.submit()
    assert sleeper.cut() == NOOP
    assert worker.grab_handle() == handle
    sleeper.grab()
    sleeper.say(Type.PRE_SLEEP)
    world.engine.stop(world.now)
    client.submit_bg()
    assert (sleeper.cut(), sleeper.grab(), world.service.consumers()) == (None, None, 1)
    worker.complete(handle, "r")
    assert client.heard()[-1] == res(Type.WORK_COMPLETE, handle, "r")
    assert world.service.consumers() == 0


def test_operators_see_the_workers(world: World) -> None:
    worker = world.worker("g", "f")
    worker.say(Type.SET_CLIENT_ID, "me")
    world.connect()
    [view] = world.service.workers()
    assert (view.protocol, view.name, view.labels) == ("gearman", worker.link.id, ["me"])
    assert view.queues == ["f", "g"]


def test_what_all_workers_together_can_do_is_bounded(world: World) -> None:
    refused = err("ARGUMENT_TOO_LARGE", "Too many functions")
    with patch("franca.protocols.gearman.worker_commands.ABILITIES_BYTES_MAX", 3 * 302):
        first, second = world.worker("a", "b"), world.worker("a")
        assert second.call(Type.CAN_DO, "b") == refused
        second.say(Type.CAN_DO_TIMEOUT, "a", "5000")
        first.say(Type.CANT_DO, "b")
        first.say(Type.CANT_DO, "b")
        second.say(Type.CAN_DO, "b")
        assert first.call(Type.CAN_DO, "b") == refused
        second.say(Type.RESET_ABILITIES)
        first.say(Type.CAN_DO, "b")
        assert second.bytes_heard() == first.bytes_heard() == b""
        first.hang_up()
        second.hang_up()
    assert world.service.abilities_bytes == 0


# -- who is known ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (b"", False),
        (b"\0REQ\0\0", False),
        (request(Type.NOOP), False),
        (request(Type.ECHO_REQ, "x").replace(b"REQ", b"RES"), False),
        (b"hello\n", False),
        (b"vers", False),
        (b"version\n", True),
        (request(Type.ECHO_REQ, "x"), True),
        (request(Type.CAN_DO, "f"), True),
        (request(Type.SUBMIT_JOB_BG, "f", "", "x"), True),
    ],
)
def test_a_peer_is_known_once_it_said_what_is_valid(peer: Puppet, said: bytes, known: bool) -> None:
    peer.send(said)
    assert peer.link.known is known


def test_a_silent_client_may_stay_until_there_are_too_many() -> None:
    world = World(limits=Limits(unknown_max=3))
    silent, client = world.connect(), world.connect()
    client.submit_bg()
    world.pass_time(3_600_000, step=60_000)
    assert not silent.is_hung_up
    newcomers = [world.connect() for _ in range(3)]
    world.pass_time(10_000, step=1_000)
    assert silent.is_hung_up
    assert not any(peer.is_hung_up for peer in (client, *newcomers))


# -- too many queues --------------------------------------------------------------------------------------


def test_a_function_for_which_there_is_no_room_is_refused_and_nothing_has_changed() -> None:
    world = World(limits=Limits(queues_bytes=1))
    worker = world.worker("f")
    refused = worker.call(Type.CAN_DO, "g")
    assert (refused.type, refused.arguments[0]) == (Type.ERROR, b"QUEUE_ERROR")
    assert worker.call(Type.SUBMIT_JOB, "g", "", "x").arguments[0] == b"QUEUE_ERROR"
    assert worker.say_line("create function g").startswith(b"ERR TOO_MANY_FUNCTIONS")
    assert worker.say_line("status") == b"f\t0\t0\t1\n.\n"
    assert list(worker.conversation.functions) == [b"f"]
    assert worker.submit("f") == worker.grab_handle()
    worker.hang_up()
    assert world.service.abilities_bytes == 0


def test_a_sleep_that_is_refused_is_answered(world: World, worker: Puppet) -> None:
    with patch.object(world.broker, "demand", side_effect=TooMuch("too many queues")):
        assert worker.call(Type.PRE_SLEEP) == err("QUEUE_ERROR", "too many queues")
    assert worker.conversation.sleep is None
    world.connect().submit()
    assert worker.call(Type.PRE_SLEEP) == NOOP
