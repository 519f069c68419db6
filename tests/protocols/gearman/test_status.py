"""GET_STATUS and GET_STATUS_UNIQUE find a job wherever it lies, and say what became of it."""

from unittest.mock import patch

import pytest

from franca.core.limits import Limits
from franca.protocols.gearman.conversation import PIECES_A_TURN
from franca.protocols.gearman.jobs import id_in
from tests.protocols.gearman.puppet import Puppet, World, res
from tests.support.gearman import Type, request

UNKNOWN = [b"0", b"0", b"0", b"0"]
QUEUED = [b"1", b"0", b"0", b"0"]
RUNS = [b"1", b"1", b"0", b"0"]
DONE = [b"0", b"0", b"1", b"1"]
GIVEN_UP = [b"0", b"0", b"0", b"1"]
SMALL = Limits(window_jobs=4, supply_jobs=2)


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize(
    ("end", "status"),
    [(Type.WORK_COMPLETE, DONE), (Type.WORK_FAIL, GIVEN_UP), (Type.WORK_EXCEPTION, GIVEN_UP)],
)
def test_the_status_of_a_job_from_its_submit_to_its_end(
    client: Puppet, worker: Puppet, background: bool, end: int, status: list[bytes]
) -> None:
    handle = client.submit_bg() if background else client.submit()
    assert client.status(handle) == QUEUED
    worker.grab()
    assert client.status(handle) == RUNS
    worker.say(Type.WORK_STATUS, handle, "3", "7")
    worker.say(Type.WORK_DATA, handle, "9\09")
    client.bytes_heard()
    assert client.status(handle) == [b"1", b"1", b"3", b"7"]
    worker.say(end, handle, *([] if end == Type.WORK_FAIL else ["r"]))
    client.bytes_heard()
    assert client.status(handle) == status


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("abc", "0"), (" 8x", "8"), ("", "0"), ("9" * 50, "4294967295"), ("1_0", "1"), ("\u0665", "0"),
        *((n, n) for n in ("7", "007", "-5", "+5", "0.5", "9999999999", "18446744073709551616")),
    ],
)  # fmt: skip
def test_numbers_are_told_as_they_were_sent_and_other_things_as_the_original_keeps_them(
    world: World, said: str, kept: str
) -> None:
    client, worker, handle = world.running(kind=Type.SUBMIT_JOB_BG)
    worker.say(Type.WORK_STATUS, handle, said, said)
    assert client.status(handle)[2:] == [kept.encode()] * 2


@pytest.mark.parametrize(
    "handle", [b"H:never:1", b"", b"x", b"H:" + b"x" * 61, b"H:" + b"x" * 62, b"\xff" * 500]
)
def test_what_nobody_heard_of_is_unknown_and_answered(handle: bytes) -> None:
    assert World().connect().status(handle) == UNKNOWN


@pytest.mark.parametrize("number", [Type.GET_STATUS, Type.GET_STATUS_UNIQUE])
def test_a_name_of_a_megabyte_is_unknown_and_answered(client: Puppet, number: int) -> None:
    assert client.call(number, b"\xff" * (1 << 20)).arguments[1:3] == [b"0", b"0"]


@pytest.mark.parametrize("number", [Type.GET_STATUS, Type.GET_STATUS_UNIQUE])
def test_a_long_name_is_answered_and_held_once(client: Puppet, world: World, number: int) -> None:
    name = b"x" * 1_000_000
    client.begin(request(number, name))
    held = [piece for piece in client.link.out if len(piece) >= len(name)]
    assert held == [name], "nothing was put in front of a copy of it"
    assert (client.conversation.task, client.conversation.holding) == (None, False)
    world.run()
    assert client.cut() is not None


@pytest.mark.parametrize("number", [Type.GET_STATUS, Type.GET_STATUS_UNIQUE])
def test_nuls_behind_a_short_name_do_not_count(client: Puppet, number: int) -> None:
    assert client.call(number, b"n" + b"\0" * 9).arguments[0] == b"n"
    said = b"n" + b"\0" * 1_000
    assert client.call(number, said).body.startswith(said + b"\x000\x000")


def test_jobs_in_the_store_are_found_and_what_is_asked_behind_waits_its_turn() -> None:
    world = World(limits=SMALL)
    client = world.connect()
    handles = [client.submit_bg() for _ in range(20)]
    asked = b"".join(request(Type.GET_STATUS, handle) for handle in handles)
    client.send(asked + request(Type.ECHO_REQ, "last"))
    answers = [res(Type.STATUS_RES, handle, *QUEUED) for handle in handles]
    assert client.heard() == [*answers, res(Type.ECHO_RES, "last")]


def test_a_peer_that_leaves_while_the_store_is_asked_harms_nobody() -> None:
    world = World(limits=SMALL)
    client, other = world.connect(), world.connect()
    handles = [client.submit_bg() for _ in range(20)]
    client.begin(request(Type.GET_STATUS, handles[-1]))
    assert client.conversation.holding
    client.hang_up()
    assert other.status(handles[-1]) == QUEUED


def test_handles_are_found_again_after_a_restart() -> None:
    world = World(limits=SMALL)
    client, worker = world.connect(), world.worker("f")
    handles = [client.submit_bg() for _ in range(20)]
    worker.fail(worker.grab_handle())
    worker.grab()
    again = world.restart().connect()
    assert [again.status(handle) for handle in handles] == [GIVEN_UP] + [QUEUED] * 19


def test_a_handle_of_an_earlier_run_is_not_taken_for_the_job_that_has_its_number_now() -> None:
    world = World(limits=SMALL)
    old = world.connect().submit()
    again = world.restart()
    again.broker.totals.last_job_id = 0  # a job that only memory had was never counted on disk
    client = again.connect()
    handles = [client.submit_bg() for _ in range(9)]
    assert id_in(old) in [id_in(handle) for handle in handles]
    assert client.status(old) == UNKNOWN
    assert client.say_line(f"cancel job {old.decode()}") == b"ERR UNKNOWN_JOB\r\n"
    assert [client.status(handle) for handle in handles] == [QUEUED] * 9


def test_the_store_is_asked_by_number_and_for_nothing_that_cannot_be_a_handle(world: World) -> None:
    with patch.object(world.broker, "recall", wraps=world.broker.recall) as recall:
        client = world.connect()
        for handle in (b"x", b"H:x", b"H:x:", b"H:x:y", b"H:x:" + b"9" * 31, b"x:1", b"H:x:-1"):
            assert client.status(handle) == UNKNOWN
        assert not recall.called
        assert (client.status(b"H:x:7"), recall.call_args.args[0].ids) == (UNKNOWN, (7,))
        assert client.status(b"H:x:1234567890127") == UNKNOWN
        assert recall.call_args.args[0].ids == (7,)


def test_handles_of_earlier_versions_are_found_wherever_their_jobs_lie() -> None:
    world = World(limits=SMALL)
    with patch.object(world.service, "prefix", "H:box-0123456789ab:"):
        client = world.connect()
        handles = [client.submit_bg() for _ in range(20)]
    assert handles[-1] == b"H:box-0123456789ab:20"
    again = world.restart()
    client, worker = again.connect(), again.worker("f")
    assert [client.status(handle) for handle in handles] == [QUEUED] * 20
    assert client.say_line(f"cancel job {handles[-1].decode()}") == b"OK\r\n"
    assert worker.grab_handle() == handles[0]
    worker.complete(handles[0], "r")
    assert (worker.bytes_heard(), client.status(handles[0])) == (b"", DONE)


def test_memory_of_ended_jobs_is_bounded(client: Puppet, worker: Puppet, world: World) -> None:
    first = client.submit()
    worker.complete(worker.grab_handle())
    client.bytes_heard()
    for number in range(10_000):
        world.service.ended[b"%d" % number] = world.service.ended[first]
    assert client.status(first) == DONE
    world.pass_time(200)
    assert len(world.service.ended) == 10_000
    assert client.status(first) == UNKNOWN


def test_a_job_of_another_protocol_is_not_ours_to_tell(world: World) -> None:
    world.faktory().push("H:box:77")
    assert world.connect().status(b"H:box:77") == UNKNOWN


# -- by the unique id ----------------------------------------------------------------------------------


def by_unique(peer: Puppet, unique: bytes) -> list[bytes]:
    message = peer.call(Type.GET_STATUS_UNIQUE, unique)
    assert (message.type, message.arguments[0]) == (Type.STATUS_RES_UNIQUE, unique)
    return message.arguments[1:]


def test_a_job_is_found_by_its_unique_id_with_the_number_of_those_who_wait(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    assert by_unique(client, b"u") == [*UNKNOWN, b"0"]
    handle = client.submit_bg(unique="u")
    assert by_unique(client, b"u") == [*QUEUED, b"0"]
    client.submit(unique="u")
    client.submit(unique="u")
    worker.grab()
    worker.say(Type.WORK_STATUS, handle, "1", "4")
    client.bytes_heard()
    assert by_unique(client, b"u") == [b"1", b"1", b"1", b"4", b"2"]
    worker.complete(handle)
    client.bytes_heard()
    assert by_unique(client, b"u") == [*UNKNOWN, b"0"]


def test_a_unique_id_is_found_in_the_tail() -> None:
    client = World(limits=SMALL).connect()
    for number in range(20):
        client.submit_bg(unique=f"u{number}")
    assert by_unique(client, b"u19") == [*QUEUED, b"0"]


@pytest.mark.parametrize("unique", [b"-", b"", b"u" * 65, b"u" * 10_000])
def test_what_is_no_unique_id_finds_nothing(client: Puppet, unique: bytes) -> None:
    client.submit_bg("f", "work", "-")
    client.submit_bg("f", "")
    assert by_unique(client, unique) == [*UNKNOWN, b"0"]


@pytest.mark.parametrize("unique", [b"u" * 64, b"\xffu"])
def test_a_unique_id_is_found_by_all_of_its_bytes(client: Puppet, unique: bytes) -> None:
    client.submit_bg(unique=unique)
    assert by_unique(client, unique) == [*QUEUED, b"0"]
    assert by_unique(client, unique[:-1]) == [*UNKNOWN, b"0"]


def test_a_search_among_many_functions_takes_more_than_one_turn(world: World) -> None:
    client, other = world.connect(), world.connect()
    for number in range(2 * PIECES_A_TURN):
        world.broker.queue(f"g{number}")
    client.submit_bg("last", unique="u")
    asked = request(Type.GET_STATUS_UNIQUE, "u") + request(Type.ECHO_REQ, "behind")
    client.begin(asked, turns=2)
    assert client.link.out == []
    assert other.call(Type.ECHO_REQ, "x") == res(Type.ECHO_RES, "x")
    assert [message.type for message in client.heard()] == [42, 17]
