"""The text protocol, to the byte."""

from unittest.mock import patch

import pytest

from franca.core.limits import Limits
from franca.core.model import NewJob, State
from franca.protocols.gearman.conversation import PIECES_A_TURN
from franca.protocols.gearman.settings import GearmanSettings
from tests.protocols.gearman.puppet import Puppet, World, res
from tests.support.gearman import Type, request

OK = b"OK\r\n"
NOT_ALLOWED = b"ERR NOT_ALLOWED This+command+is+not+taken+from+this+address\r\n"
CHANGES = ("cancel job H:x:1", "create function g", "drop function g", "maxqueue g 1")


def incomplete(command: str) -> bytes:
    text = "An+incomplete+set+of+arguments+was+sent+to+this+command+"
    return f"ERR INVALID_ARGUMENTS {text}{command}\r\n".encode()


def unknown(word: str = "") -> bytes:
    return f"ERR UNKNOWN_COMMAND Unknown+server+command{word}\r\n".encode()


# -- words and lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("version", b"OK 2.0.0\n"), ("VERSION", b"OK 2.0.0\n"), ("version  ", b"OK 2.0.0\n"), ("version x", b"OK 2.0.0\n"),
        ("getpid", b"OK 4711\n"), ("verbose", b"OK INFO\n"), ("status", b".\n"), ("prioritystatus", b".\n"),
        ("workers", b"1 127.0.0.1 - :\n.\n"), ("show jobs", b".\n"), ("show  JOBS ", b".\n"),
        ("show unique jobs", b".\n"), ("show x", b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"),
        ("show unique", b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"), ("show jobs x", b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"),
        ("show", unknown("show")), ("cancel", unknown("cancel")), ("cancel job", unknown("cancel")),
        ("cancel foo bar", b"ERR UNKNOWN_ERROR\r\n"), ("cancel job a b", b"ERR UNKNOWN_ERROR\r\n"),
        ("cancel job H:box:1", b"ERR UNKNOWN_JOB\r\n"), ("create", incomplete("create")),
        ("create function", incomplete("create")), ("create x f", incomplete("create")), ("drop", incomplete("drop")),
        ("drop function", incomplete("drop")), ("drop function f", b"ERR function not found\r\n"),
        ("maxqueue", incomplete("maxqueue")), ("maxqueue f", OK), ("maxqueue f 5", OK), ("maxqueue f 1 2 3", OK),
        ("jobs", b".\n"), ("clients", b"127.0.0.1:50001\n.\n"), ("shutdown now", incomplete("shutdown")),
        ("foo", unknown("foo")), ("Foo bar", unknown("Foo")), ("", unknown()), (" version", unknown()),
        ("gladiator", unknown("gladiator")), ("acl list", unknown("acl")),
    ],
)  # fmt: skip
def test_a_line_and_its_answer(text: str, answer: bytes, end: str) -> None:
    assert World().connect().say_line(text, end) == answer


def test_the_version_is_a_setting() -> None:
    world = World(settings=GearmanSettings(version="1.1.20"))
    assert world.connect().say_line("version") == b"OK 1.1.20\n"


def test_commands_may_come_in_pieces_and_between_packets(peer: Puppet) -> None:
    peer.send(b"ver")
    assert peer.bytes_heard() == b""
    peer.send(b"sion\r\nget" + b"pid\n" + request(Type.ECHO_REQ, "x"))
    assert peer.bytes_heard() == b"OK 2.0.0\nOK 4711\n\0RES\0\0\0\x11\0\0\0\1x"


# -- lists ------------------------------------------------------------------------------------------------


@pytest.fixture
def busy(world: World) -> list[bytes]:
    """The handles of jobs, the second of which runs."""
    client, worker = world.connect(), world.worker("rev", "zzz")
    worker.say(Type.SET_CLIENT_ID, "w1")
    handles = [
        client.submit("rev", "1", "a"), client.submit("rev", "2", "b", Type.SUBMIT_JOB_HIGH_BG),
        client.submit("rev", "3", "", Type.SUBMIT_JOB_LOW), client.submit("other", "4", "", Type.SUBMIT_JOB_BG),
    ]  # fmt: skip
    assert worker.grab_handle() == handles[1]
    return handles


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("status", b"rev\t3\t1\t1\nzzz\t0\t0\t1\nother\t1\t0\t0\n"),
        ("prioritystatus", b"rev\t0\t1\t1\t1\nzzz\t0\t0\t0\t1\nother\t0\t1\t0\t0\n"),
        # All connections, the newest function first.
        ("workers", b"1 127.0.0.1 - :\n2 127.0.0.1 w1 : zzz rev\n3 127.0.0.1 - :\n"),
        ("jobs", b"rev\ta\t-\t1\nrev\tb\t127.0.0.1:50002\t0\nrev\t\t-\t1\nother\t\t-\t0\n"),
        ("clients", b"127.0.0.1:50001\n\trev\ta\t-\n\trev\t\t-\n127.0.0.1:50002\n127.0.0.1:50003\n"),
        ("show unique jobs", b"a\nb\n\n\n"),
    ],
)  # fmt: skip
def test_a_list(world: World, text: str, answer: bytes) -> None:
    assert world.connect().say_line(text) == answer + b".\n"


@pytest.mark.usefixtures("busy")
def test_prioritystatus_counts_what_is_for_later(world: World) -> None:
    admin = world.connect()
    admin.submit("other", "x", "", Type.SUBMIT_JOB_EPOCH, str(world.now // 1000 + 60))
    assert b"other\t0\t2\t0\t0\n" in admin.say_line("prioritystatus")


def test_prioritystatus_counts_stored_jobs_under_their_own_priority() -> None:
    world = World(limits=Limits(window_jobs=6, supply_jobs=2))
    client = world.connect()
    numbers = [Type.SUBMIT_JOB_BG, Type.SUBMIT_JOB_LOW_BG, Type.SUBMIT_JOB_HIGH_BG]
    handles = [client.submit(kind=number) for _ in range(20) for number in numbers]
    assert client.say_line("prioritystatus") == b"f\t20\t20\t20\t0\n.\n"
    again = world.restart()
    admin, worker = again.connect(), again.worker("f")
    assert admin.say_line("prioritystatus") == b"f\t20\t20\t20\t1\n.\n"
    for number in range(30):
        worker.complete(worker.grab_handle(), str(number))
    assert admin.say_line("prioritystatus") == b"f\t0\t10\t20\t1\n.\n"
    assert admin.say_line(f"cancel job {handles[-2].decode()}") == OK
    assert admin.say_line("prioritystatus") == b"f\t0\t10\t19\t1\n.\n"


@pytest.mark.parametrize("words", ["status", "prioritystatus", "show jobs", "jobs"])
def test_a_long_list_is_said_in_parts_and_delays_only_its_reader(world: World, words: str) -> None:
    admin, other = world.connect(), world.connect()
    many = PIECES_A_TURN + 1
    for number in range(many):
        world.broker.queue(f"f{number}")
        job = NewJob(f"f{number}", "f", b"", world.service.background, origin="gearman")
        world.broker.submit(job, world.now)
    world.run()
    admin.begin(words.encode() + b"\n" + request(Type.ECHO_REQ, "behind"), turns=0)
    other.begin(request(Type.ECHO_REQ, "x"))
    assert b"".join(admin.link.out).count(b"\n") == PIECES_A_TURN
    assert b"".join(other.link.out).endswith(b"x")
    world.run()
    heard = admin.bytes_heard()
    assert heard.partition(b"\n.\n")[2] == request(Type.ECHO_RES, "behind").replace(b"Q", b"S")
    assert heard.count(b"\n") == many + 1


def test_a_list_goes_on_though_what_it_lists_changes(world: World, admin: Puppet) -> None:
    handles = [world.connect().submit() for _ in range(3)]
    with patch("franca.protocols.gearman.conversation.PIECES_A_TURN", 1):
        admin.begin(b"clients\nshow jobs\n", turns=4)
        for puppet in list(world.puppets.values())[1:3]:
            puppet.hang_up()
        world.connect().submit()
    assert admin.bytes_heard().endswith(b"%b\t0\t0\t0\n.\n" % handles[2])


def test_show_jobs(world: World, busy: list[bytes]) -> None:
    admin = world.connect()
    lines = [b"%b\t0\t0\t%d\n" % pair for pair in zip(busy, (0, 1, 0, 1), strict=True)]
    assert admin.say_line("show jobs") == b"".join(lines) + b".\n"
    [worker] = [p for p in world.puppets.values() if p.conversation.held]
    worker.hang_up()
    assert busy[1] + b"\t1\t0\t1\n" in admin.say_line("show jobs")


def test_an_abandoned_job_shows_as_ignored_while_it_runs(world: World) -> None:
    client, worker, handle = world.running()
    client.hang_up()
    assert worker.say_line("show jobs") == handle + b"\t0\t1\t0\n.\n"


def test_a_list_keeps_its_lines_whatever_is_in_it(world: World) -> None:
    peer = world.worker("new\nline", "pre\tname")
    peer.submit_bg("new\nline", unique="u\nv")
    assert peer.say_line("status") == b"new?line\t1\t0\t1\npre\tname\t0\t0\t1\n.\n"
    assert peer.say_line("show unique jobs") == b"u?v\n.\n"
    assert peer.say_line("workers") == b"1 127.0.0.1 - : pre\tname new?line\n.\n"


def test_a_list_of_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.gearman.lists.LISTED_MAX", 3)
    client = World().connect()
    for _ in range(5):
        client.submit()
    for text in ("show jobs", "show unique jobs", "jobs"):
        assert client.say_line(text).count(b"\n") == 4
    assert client.say_line("clients").count(b"\n") == 5


def test_queues_of_other_protocols_are_listed_and_their_jobs_are_not(world: World) -> None:
    world.faktory().push("j12345678", queue="q")
    admin = world.connect()
    assert (admin.say_line("status"), admin.say_line("show jobs")) == (b"q\t1\t0\t0\n.\n", b".\n")


# -- cancel -----------------------------------------------------------------------------------------------


def test_a_cancelled_job_fails_and_nobody_runs_it(world: World) -> None:
    client, worker, admin = world.connect(), world.worker("f"), world.connect()
    handle = client.submit()
    assert admin.say_line(f"cancel job {handle.decode()}") == OK
    assert client.heard() == [res(Type.WORK_FAIL, handle)]
    assert worker.grab() is None
    assert admin.say_line(f"cancel job {handle.decode()}") == OK
    assert client.bytes_heard() == b"", "once is enough"


def test_a_running_job_that_is_cancelled_may_be_finished_in_vain(world: World) -> None:
    client, worker, handle = world.running()
    admin = world.connect()
    assert admin.say_line(f"cancel job {handle.decode()}") == OK
    for number in (Type.WORK_DATA, Type.WORK_STATUS, Type.WORK_COMPLETE):
        worker.say(number, handle, "1", "2")
    worker.fail(handle)
    assert worker.bytes_heard() == b""
    assert client.heard() == [res(Type.WORK_FAIL, handle)]
    assert client.status(handle) == [b"0", b"0", b"0", b"1"]


def test_a_background_job_is_cancelled_wherever_it_lies_and_stays_so() -> None:
    world = World(limits=Limits(window_jobs=4, supply_jobs=2))
    client, admin = world.connect(), world.connect()
    handles = [client.submit_bg() for _ in range(20)]
    admin.send(b"cancel job %b\ncancel job %b\nversion\n" % (handles[15], handles[0]))
    assert (admin.bytes_heard(), admin.waited_for_commit) == (OK + OK + b"OK 2.0.0\n", True)
    worker = world.restart().worker("f")
    left = [handle for handle in handles if handle not in (handles[0], handles[15])]
    assert [worker.grab_handle() for _ in left] == left
    assert worker.grab() is None


def test_a_dead_job_is_none_to_cancel(world: World, client: Puppet, worker: Puppet) -> None:
    handle = client.submit_bg()
    worker.fail(worker.grab_handle())
    assert client.say_line(f"cancel job {handle.decode()}") == b"ERR UNKNOWN_JOB\r\n"
    assert len(world.jobs(State.DEAD)) == 1


# -- functions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_function_is_created_with_all_its_letters(world: World, admin: Puppet, end: str) -> None:
    assert (admin.say_line("create function reverse", end), admin.waited_for_commit) == (OK, True)
    assert admin.say_line("status") == b"reverse\t0\t0\t0\n.\n"
    assert world.restart().connect().say_line("status") == b"reverse\t0\t0\t0\n.\n"


def test_a_function_with_a_worker_or_a_running_job_is_not_dropped(world: World) -> None:
    admin, worker = world.connect(), world.worker("f")
    in_use = b"ERR there are still connected workers or executing clients\r\n"
    assert admin.say_line("drop function f") == in_use
    admin.submit_bg()
    worker.grab()
    worker.say(Type.CANT_DO, "f")
    assert admin.say_line("drop function f") == in_use
    worker.hang_up()
    assert admin.say_line("drop function f") == OK


def test_dropping_a_function_cancels_its_jobs_and_tells_who_waits(world: World) -> None:
    client, admin = world.connect(), world.connect()
    handle = client.submit("reverse")
    client.submit_bg("reverse")
    assert admin.say_line("drop function REVERSE") == OK
    assert client.heard() == [res(Type.WORK_FAIL, handle)]
    assert (admin.say_line("status"), world.store.held) == (b".\n", {})
    assert admin.say_line("drop function reverse") == b"ERR function not found\r\n"


def test_of_two_functions_the_one_that_is_spelled_alike_is_dropped(admin: Puppet) -> None:
    admin.send(b"create function A\ncreate function a\ndrop function a\n")
    admin.bytes_heard()
    assert admin.say_line("status") == b"A\t0\t0\t0\n.\n"


def test_names_too_long_for_any_function_are_not_remembered(client: Puppet, world: World) -> None:
    name = "n" * 8_000
    assert client.say_line(f"drop function {name}") == b"ERR function not found\r\n"
    assert client.say_line(f"maxqueue {name} 5") == b"OK\r\n"
    client.say(Type.CANT_DO, name)
    assert not world.service.names._texts


def test_a_function_that_is_called_too_long_is_not_created() -> None:
    admin = World(limits=Limits(name_bytes_max=8)).connect()
    answer = admin.say_line("create function " + "x" * 9)
    assert answer == b"ERR INVALID_ARGUMENTS Function+name+too+large\r\n"


# -- maxqueue -----------------------------------------------------------------------------------------------------


def refused(peer: Puppet, number: int = Type.SUBMIT_JOB_BG, unique: str = "") -> bool:
    answer = peer.call(number, "f", unique, "x")
    if answer.type == Type.JOB_CREATED:
        return False
    assert answer == res(Type.ERROR, "QUEUE_ERROR", "Job queue is full")
    return True


def test_a_function_takes_no_more_jobs_than_it_may_queued_and_running(world: World) -> None:
    peer, worker = world.connect(), world.worker("f")
    assert peer.say_line("maxqueue f 2") == OK
    assert not refused(peer)
    worker.grab()
    assert (refused(peer), refused(peer)) == (False, True)
    assert refused(peer, Type.SUBMIT_JOB_HIGH)
    worker.complete(next(iter(worker.conversation.held)), "")
    assert not refused(peer)


def test_who_joins_a_job_passes_the_limit(worker: Puppet) -> None:
    worker.say_line("maxqueue f 1")
    assert [refused(worker, unique=unique) for unique in "uuv"] == [False, False, True]


def test_each_priority_may_have_a_limit_for_the_whole_function(worker: Puppet) -> None:
    worker.say_line("maxqueue f 3 1 2")
    for number in (Type.SUBMIT_JOB_BG, Type.SUBMIT_JOB_LOW_BG, Type.SUBMIT_JOB_HIGH_BG):
        assert [refused(worker, number), refused(worker, number)] == [False, True]


@pytest.mark.parametrize(
    "reset", ["maxqueue f", "maxqueue f 0", "maxqueue f -1", "maxqueue f none"]
)
def test_a_limit_is_taken_away(worker: Puppet, reset: str) -> None:
    worker.say_line("maxqueue f 1")
    assert (refused(worker), refused(worker)) == (False, True)
    assert (worker.say_line(reset), refused(worker)) == (OK, False)


def test_a_limit_for_a_function_that_is_not_there_is_none(peer: Puppet) -> None:
    assert (peer.say_line("maxqueue f 1"), peer.say_line("status")) == (OK, b".\n")
    assert [refused(peer), refused(peer)] == [False, False]


def test_two_limits_leave_the_third_open(worker: Puppet) -> None:
    worker.say_line("maxqueue f 1 1")
    answers = [refused(worker, number) for number in (18, 18, 32, 34, 34)]
    assert answers == [False, True, True, False, False]


# -- who may ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("admin", "local", "taken"),
    [("loopback", True, True), ("loopback", False, False), ("all", False, True), ("off", True, False)],
)  # fmt: skip
@pytest.mark.parametrize("text", CHANGES)
def test_who_may_change_something(admin: str, local: bool, taken: bool, text: str) -> None:
    world = World(settings=GearmanSettings(admin=admin))
    peer = world.connect(local=local)
    assert (peer.say_line(text) != NOT_ALLOWED) is taken
    assert peer.say_line("status").endswith(b".\n")
    assert peer.say_line("workers").endswith(b".\n")


@pytest.mark.parametrize(
    ("setting", "local", "stops"),
    [("loopback", True, 1), ("loopback", False, 0), ("all", False, 1), ("never", True, 0)],
)
@pytest.mark.parametrize("text", ["shutdown", "SHUTDOWN graceful"])
def test_who_may_stop_the_server(setting: str, local: bool, stops: int, text: str) -> None:
    world = World(settings=GearmanSettings(remote_shutdown=setting))
    peer = world.connect(local=local)
    assert peer.say_line(text) == (b"OK\r\n" if stops else unknown(text.split()[0]))
    assert world.stops == stops


def test_the_limit_of_a_function_that_is_forgotten_is_forgotten() -> None:
    world = World(limits=Limits(idle_queue_ms=1_000))
    admin, worker = world.connect(), world.worker("stays")
    for number in range(40):
        assert admin.say_line(f"create function f{number}") == OK
        assert admin.say_line(f"maxqueue f{number} 1") == OK
    assert (admin.say_line("maxqueue stays 1"), len(world.service.maxqueue)) == (OK, 41)
    world.pass_time(65_000, step=500)
    assert list(world.service.maxqueue) == ["stays"]
    worker.submit_bg("stays")
    assert worker.call(Type.SUBMIT_JOB_BG, "stays", "", "x").type == Type.ERROR


def test_the_number_of_functions_with_a_limit_is_bounded() -> None:
    admin = World().worker("a", "b", "c")
    with patch("franca.protocols.gearman.service.LIMITED_MAX", 2):
        assert admin.say_line("maxqueue a 1") == admin.say_line("maxqueue b 1") == OK
        assert admin.say_line("maxqueue c 1").startswith(b"ERR TOO_MANY_LIMITS")
        assert (admin.say_line("maxqueue a 2"), admin.say_line("maxqueue b 0")) == (OK, OK)
        assert admin.say_line("maxqueue c 1") == OK
